package main

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// most is how many tests of a stage may run again: where more fail, something is wrong.
const most = 3

// final is what failures say that mean enough when they happen once: of the race
// detector, of Go, of the reader of its events, and of node.
var final = []string{"DATA RACE", "panic: ", "fatal error: ", cutOff, "testTimeoutFailure"}

func isFinal(text string) bool {
	return slices.ContainsFunc(final, func(s string) bool { return strings.Contains(text, s) })
}

// some is what runs the named tests of a package, and no others.
type some func(pkg string, names []string) func(context.Context, *tally) error

// again runs all, and when it has ended each test that failed once more, with nothing
// beside it: most tests look at a machine that others use too
// (docs/decisions/010-a-failed-test-runs-once-more.md). One that passes then is counted as
// passed, and named with what it said at first.
func again(all func(context.Context, *tally) error, alone some) func(context.Context, *tally) error {
	return func(ctx context.Context, t *tally) error {
		if err := all(ctx, t); err != nil {
			return err
		}
		for _, p := range repeatable(t.failed) {
			fmt.Printf("once more, alone: %s %s\n", short(p.pkg), strings.Join(p.tests, ", "))
			second := new(tally)
			if err := alone(p.pkg, p.tests)(ctx, second); err != nil {
				return err
			}
			t.settle(p, second)
		}
		return nil
	}
}

// goAgain runs tests of a Go package with args.
func goAgain(args ...string) some {
	return func(pkg string, names []string) func(context.Context, *tally) error {
		return goTest(append(slices.Clone(args), "-run", pattern(names), pkg)...)
	}
}

// nodeAgain runs tests below a folder with node's runner.
func nodeAgain(dir string, names []string) func(context.Context, *tally) error {
	literal := make([]string, len(names))
	for i, n := range names {
		literal[i] = regexp.QuoteMeta(n)
	}
	return nodeTest(dir, "--test-name-pattern="+pattern(literal))
}

// part is tests of a package.
type part struct {
	pkg   string
	tests []string
}

// of is the package and the test of an outcome; that of a Go test's part is the test.
func of(o outcome) (pkg, test string) {
	pkg, test, _ = strings.Cut(o.test, " ")
	if strings.HasPrefix(pkg, module) {
		test, _, _ = strings.Cut(test, "/")
	}
	return pkg, test
}

// repeatable is the tests that may run again; none where one failure is final, is not of a
// test, or there are too many.
func repeatable(failed []outcome) (parts []part) {
	n := 0
	for _, o := range failed {
		pkg, test := of(o)
		if test == "" || pkg == "package" || strings.HasSuffix(test, ".test.js") || isFinal(o.text) {
			return nil
		}
		i := slices.IndexFunc(parts, func(p part) bool { return p.pkg == pkg })
		if i < 0 {
			i, parts = len(parts), append(parts, part{pkg: pkg})
		}
		known := slices.Contains(parts[i].tests, test)
		if !known {
			parts[i].tests = append(parts[i].tests, test)
		}
		if !known || !strings.HasPrefix(pkg, module) { // node may have several of a name
			n++
		}
	}
	if n > most {
		return nil
	}
	return parts
}

// settle counts those tests as passed that passed in the second run, with all that failed
// in them.
func (t *tally) settle(p part, second *tally) {
	well := func(o outcome) bool {
		pkg, test := of(o)
		return slices.Contains(second.good, o.test) && !slices.ContainsFunc(second.failed, func(s outcome) bool {
			other, same := of(s)
			return other == "package" || other == pkg && same == test
		})
	}
	// A part that is skipped or gone keeps its test from being well.
	bad := map[string]bool{}
	for _, o := range t.failed {
		if pkg, test := of(o); pkg == p.pkg && !well(o) {
			bad[test] = true
		}
	}
	var left []outcome
	for _, o := range t.failed {
		if pkg, test := of(o); pkg != p.pkg || bad[test] {
			left = append(left, o)
			continue
		}
		t.pass(o.test)
		t.twice = append(t.twice, o)
	}
	t.failed = left
}
