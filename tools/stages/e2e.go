package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
)

// Tests of package e2e that cannot run beside all others. The others mostly wait.
var (
	// These compare shares of time, costs or rates, and have the machine to themselves.
	measuring = []string{"TestBudget", "TestCalibrate", "TestCauseIsNamed", "TestCauses", "TestDataServers", "TestGateway"}
	// These keep a CPU busy or set variables of the process. Those of a list run one after the other.
	busy = [][]string{
		{"TestBenchRealTools", "TestKilledHarness", "TestLoadIsNoStorm", "TestSandboxes"},
		{"TestBounceIsNamed", "TestDMCrypt", "TestJavaAndGo", "TestMaven", "TestQEMU", "TestScalingExperiment", "TestSSH"},
	}
)

// emulated is the package whose guests starve beside tests that compute.
const emulated = "./e2e/kernels"

// waiting is how many of the tests that wait run at the same time.
const waiting = "8"

// long allows for tests of minutes on a busy machine.
func long(args ...string) func(context.Context, *tally) error {
	return goTest(append([]string{"-timeout", "40m"}, args...)...)
}

// alone runs the tests that measure, one after the other.
func alone(ctx context.Context, t *tally) error {
	return long("-run", pattern(measuring), "./e2e")(ctx, t)
}

// e2e runs beside each other the tests that wait, those that compute, and the packages
// below e2e, each of which keeps at most one CPU busy.
func e2e(ctx context.Context, t *tally) error {
	all, err := testPackages(ctx)
	if err != nil {
		return err
	}
	below := []string{"-p", "1"}
	for _, p := range all {
		if dir := "./" + short(p.path); strings.HasPrefix(dir, "./e2e/") && dir != emulated {
			below = append(below, dir)
		}
	}
	runs := []func(context.Context, *tally) error{
		long("-parallel", waiting, "-skip", pattern(slices.Concat(measuring, slices.Concat(busy...))), "./e2e"),
		long(below...),
	}
	for _, names := range busy {
		runs = append(runs, long("-run", pattern(names), "./e2e"))
	}
	return beside(runs...)(ctx, t)
}

// pattern matches exactly the names.
func pattern(names []string) string { return "^(" + strings.Join(names, "|") + ")$" }

// beside runs all at the same time and adds up their tallies.
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
