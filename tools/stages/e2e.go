package main

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// emulated is the package that boots kernels in emulated guests of one CPU.
const emulated = "./e2e/kernels"

// guests are the tests of package e2e that boot such guests.
var guests = []string{"TestDMCrypt", "TestQEMU", "TestServerInGuest"}

// waiting is how many of the tests that mostly wait run at the same time.
const waiting = "4"

// long allows for tests that wait minutes for an event on a busy machine.
func long(args ...string) func(context.Context, *tally) error {
	return goTest(append([]string{"-timeout", "60m"}, args...)...)
}

// patient stretches the program's own limits on what the machine may take (host.Patience): tests of the whole program
// must not fail on a slow one.
const patient = "TEESCOPE_PATIENCE=10"

// e2e runs the package of kernels and the tests of package e2e in three lanes beside each other, and then those with guests beside the
// packages below it, which run one by one. Emulated guests compute, so each half has one lane with them; the others mostly wait.
func e2e(ctx context.Context, t *tally) error {
	all, err := testPackages(ctx)
	if err != nil {
		return err
	}
	parallel, err := parallelTests("e2e")
	if err != nil {
		return err
	}
	below := []string{"-p", "1"}
	for _, p := range all {
		if dir := "./" + short(p.path); strings.HasPrefix(dir, "./e2e/") && dir != emulated {
			below = append(below, dir)
		}
	}
	return errors.Join(
		runTogether(
			long(emulated),
			long("-parallel", waiting, "-run", pattern(parallel), "./e2e"),
			long("-skip", pattern(slices.Concat(guests, parallel)), "./e2e"),
		)(ctx, t),
		runTogether(
			long("-run", pattern(guests), "./e2e"),
			long(below...),
		)(ctx, t),
	)
}

// deploy runs the tests of package deploy, and those of the modules below it and below tools.
func deploy(ctx context.Context, t *tally) error {
	dirs, err := modules(ctx)
	if err != nil {
		return err
	}
	errs := []error{long("./deploy/...")(ctx, t)}
	for _, dir := range dirs {
		if strings.HasPrefix(dir, "deploy/") || strings.HasPrefix(dir, "tools/") {
			errs = append(errs, goTestIn(dir, "./...")(ctx, t))
		}
	}
	return errors.Join(errs...)
}

// parallelTests lists the tests of the package in dir that call t.Parallel before anything that depends on it.
func parallelTests(dir string) (names []string, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("folder %s has no tests; run in the repository", dir)
	}
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution|parser.ParseComments)
		if err != nil {
			return nil, err
		}
		for _, d := range f.Decls {
			test, ok := d.(*ast.FuncDecl)
			if !ok || test.Recv != nil || !strings.HasPrefix(test.Name.Name, "Test") || constrained(f) {
				continue
			}
			if slices.ContainsFunc(test.Body.List, isParallel) {
				names = append(names, test.Name.Name)
			}
		}
	}
	return names, nil
}

// isParallel reports whether a statement is t.Parallel().
func isParallel(s ast.Stmt) bool {
	e, ok := s.(*ast.ExprStmt)
	if !ok {
		return false
	}
	c, ok := e.X.(*ast.CallExpr)
	if !ok {
		return false
	}
	method, ok := c.Fun.(*ast.SelectorExpr)
	return ok && method.Sel.Name == "Parallel"
}

// constrained reports whether a file has a build tag, as measurements have.
func constrained(f *ast.File) bool {
	return slices.ContainsFunc(f.Comments, func(g *ast.CommentGroup) bool {
		return slices.ContainsFunc(g.List, func(c *ast.Comment) bool { return constraint.IsGoBuild(c.Text) })
	})
}

// pattern matches exactly the names.
func pattern(names []string) string { return "^(" + strings.Join(names, "|") + ")$" }

// runTogether runs all at the same time and adds up their tallies.
func runTogether(runs ...func(context.Context, *tally) error) func(context.Context, *tally) error {
	return func(ctx context.Context, t *tally) error {
		tallies, errs := make([]tally, len(runs)), make([]error, len(runs))
		var all sync.WaitGroup
		for i, run := range runs {
			tallies[i] = tally{stage: t.stage, report: t.report}
			all.Go(func() { errs[i] = run(ctx, &tallies[i]) })
		}
		all.Wait()
		for i := range tallies {
			t.add(&tallies[i])
		}
		return errors.Join(errs...)
	}
}
