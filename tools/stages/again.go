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

// final are failures that say enough about the code when they happen once.
var final = []string{"DATA RACE", "panic: ", "fatal error: ", cutOff}

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

// repeatable is the tests that may run again; none where one failure is final or there are
// too many.
func repeatable(failed []outcome) (parts []part) {
	n := 0
	for _, o := range failed {
		pkg, test := of(o)
		if test == "" || pkg == "package" || slices.ContainsFunc(final, func(s string) bool { return strings.Contains(o.text, s) }) {
			return nil
		}
		i := slices.IndexFunc(parts, func(p part) bool { return p.pkg == pkg })
		if i < 0 {
			i, parts = len(parts), append(parts, part{pkg: pkg})
		}
		if !slices.Contains(parts[i].tests, test) {
			parts[i].tests = append(parts[i].tests, test)
			n++
		}
	}
	if n > most {
		return nil
	}
	return parts
}

// settle counts those tests as passed that passed in the second run.
func (t *tally) settle(p part, second *tally) {
	var left []outcome
	for _, o := range t.failed {
		pkg, test := of(o)
		same := func(s outcome) bool {
			pkg2, test2 := of(s)
			return pkg2 == "package" || (pkg2 == pkg || pkg2 == short(pkg)) && test2 == test // skips have the short one
		}
		if pkg != p.pkg || second.passed == 0 || slices.ContainsFunc(second.failed, same) || slices.ContainsFunc(second.skipped, same) {
			left = append(left, o)
			continue
		}
		t.pass()
		t.twice = append(t.twice, o)
	}
	t.failed = left
}
