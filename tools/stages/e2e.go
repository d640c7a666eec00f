package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// Tests of package e2e that cannot run beside all others. One that is in no list mostly waits.
var (
	// Those that compare shares of time, costs or rates have the machine for themselves.
	measuring = []string{"TestBudget", "TestCalibrate", "TestCauseIsNamed", "TestCauses", "TestDataServers", "TestGateway"}
	// Those that keep a CPU busy, or set variables of the process, run one after the other.
	busy = []string{"TestBenchRealTools", "TestDMCrypt", "TestJavaAndGo", "TestKilledHarness", "TestLoadIsNoStorm", "TestMaven",
		"TestQEMU", "TestSandboxes", "TestScalingExperiment", "TestSSH"}
)

// emulated is the package whose guests starve where others compute.
const emulated = "./e2e/kernels"

// e2e runs what measures first, and then beside each other what waits, what computes and
// the other packages, each of which keeps a CPU busy at most.
func e2e(ctx context.Context, t *tally) error {
	test := func(args ...string) func(context.Context, *tally) error {
		return goTest(append([]string{"-timeout", "40m"}, args...)...)
	}
	below, err := filepath.Glob("./e2e/*/*_test.go")
	if err != nil {
		return fmt.Errorf("find the packages below e2e: %w", err)
	}
	if len(below) == 0 {
		return errors.New("find the packages below e2e: there are none; run in the repository")
	}
	var others []string
	for _, file := range below {
		if dir := "./" + filepath.Dir(file); dir != emulated {
			others = append(others, dir)
		}
	}
	return errors.Join(
		test("-run", pattern(measuring), "./e2e")(ctx, t),
		test(emulated)(ctx, t),
		beside(
			test("-parallel", "4", "-skip", pattern(slices.Concat(measuring, busy)), "./e2e"),
			test("-run", pattern(busy), "./e2e"),
			test(append([]string{"-p", "1"}, slices.Compact(others)...)...),
		)(ctx, t))
}

// pattern matches the names and no others.
func pattern(names []string) string { return "^(" + strings.Join(names, "|") + ")$" }

// beside runs all at the same time and counts what each of them did.
func beside(runs ...func(context.Context, *tally) error) func(context.Context, *tally) error {
	return func(ctx context.Context, t *tally) error {
		tallies, errs := make([]tally, len(runs)), make([]error, len(runs))
		var all sync.WaitGroup
		for i, run := range runs {
			all.Go(func() { errs[i] = run(ctx, &tallies[i]) })
		}
		all.Wait()
		for i := range tallies {
			t.add(&tallies[i])
		}
		return errors.Join(errs...)
	}
}
