package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
)

// target is a fuzz target. It is guided by coverage where that is cheap: go instruments
// all dependencies, so that one target in a package that links Prometheus would compile
// all of it again. There the inputs are drawn without guidance.
type target struct {
	pkg, name string
	guided    bool
}

// fuzz runs every fuzz target for the given time, one on each CPU.
func fuzz(each string) func(context.Context, *tally) error {
	return func(ctx context.Context, t *tally) error {
		targets, err := fuzzTargets(ctx)
		if err != nil {
			return err
		}
		found, err := os.MkdirTemp("", "fuzz") // interesting inputs of unguided runs
		if err != nil {
			return err
		}
		defer os.RemoveAll(found)
		var all errgroup.Group
		all.SetLimit(runtime.NumCPU())
		var mu sync.Mutex // of t
		for _, one := range targets {
			all.Go(func() error {
				once, err := one.fuzz(ctx, each, found)
				mu.Lock()
				defer mu.Unlock()
				t.add(once)
				return err
			})
		}
		return all.Wait()
	}
}

var fuzzFunc = regexp.MustCompile(`(?m)^func (Fuzz\w+)\(`)

// fuzzTargets reads from the sources what there is: the tests themselves could only be
// asked once all of them are linked.
func fuzzTargets(ctx context.Context) (all []target, err error) {
	files, err := tracked(ctx, "*_test.go")
	if err != nil {
		return nil, err
	}
	var pkgs []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for _, m := range fuzzFunc.FindAllSubmatch(text, -1) {
			pkg := module + filepath.ToSlash(filepath.Dir(file))
			all, pkgs = append(all, target{pkg: pkg, name: string(m[1])}), append(pkgs, pkg)
		}
	}
	slices.Sort(pkgs)
	out, err := exec.CommandContext(ctx, "go", append([]string{"list", "-f", "{{.ImportPath}} {{.Deps}}"}, slices.Compact(pkgs)...)...).Output()
	if err != nil {
		return nil, fmt.Errorf("list what the packages with fuzz targets need: %w", err)
	}
	guided := map[string]bool{}
	for line := range bytes.Lines(out) {
		pkg, deps, _ := strings.Cut(string(line), " ")
		guided[pkg] = !strings.Contains(deps, "github.com/prometheus/prometheus/")
	}
	for i := range all {
		all[i].guided = guided[all[i].pkg]
	}
	return all, nil
}

// fuzz runs the target on one CPU.
func (f target) fuzz(ctx context.Context, each, found string) (*tally, error) {
	run := goTest("-run", "^$", f.pkg, "-args", "-test.fuzz=^"+f.name+"$", "-test.fuzztime="+each, "-test.parallel=1", "-test.fuzzcachedir="+found)
	if f.guided {
		run = goTest("-run", "^$", "-fuzz", "^"+f.name+"$", "-fuzztime", each, "-parallel", "1", f.pkg)
	}
	t := new(tally)
	if err := run(ctx, t); !deadlineOnly(t) {
		return t, err
	}
	fmt.Printf("%s %s: the engine took its own deadline for a failure; once more\n", short(f.pkg), f.name)
	t = new(tally)
	return t, run(ctx, t)
}

// deadlineOnly tells a race in Go's fuzzing engine, which at the end of -fuzztime
// may report its own deadline as a failure (go.dev/issue/75804, mended in Go 1.27),
// from a finding, which always comes with the input that failed.
func deadlineOnly(t *tally) bool {
	return len(t.failed) == 1 && strings.Contains(t.failed[0].text, "\n    context deadline exceeded") &&
		!strings.Contains(t.failed[0].text, "Failing input") && !strings.Contains(t.failed[0].text, "panic")
}
