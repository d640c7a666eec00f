package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
)

// Tests of package e2e that cannot run beside all others, in the order in which they run. The others mostly wait.
var (
	// These compare shares of time to a few points, so nothing runs beside them, whatever its
	// priority: it would make threads that wait for a lock wait for a CPU, and prices of events
	// change while they are measured.
	alone = []string{"TestCauses"}
	// These compare costs or rates. No other monitor runs beside them, and what computes has a
	// lower priority.
	measuring = []string{"TestBudget", "TestCalibrate", "TestCauseIsNamed", "TestDataServers", "TestGateway"}
	// These need one CPU, and no more, for a guest in which all time counts that others take.
	urgent = []string{"TestBounceIsNamed", "TestServerInGuest"}
	// These keep a CPU busy or set variables of the process. Those of a list run one after the other.
	busy = [][]string{
		{"TestBenchRealTools", "TestKilledHarness", "TestLoadIsNoStorm", "TestSandboxes"},
		{"TestDMCrypt", "TestImages", "TestJavaAndGo", "TestMaven", "TestScalingExperiment", "TestServerOverSSH", "TestSSH"},
		{"TestQEMU"},
	}
)

// emulated is the package whose guests have one CPU each, and whose time counts. They run before
// unit tests, which take the other CPU.
const emulated = "./e2e/kernels"

// waiting is how many of the tests that wait run at the same time.
const waiting = "8"

// long allows for tests of minutes on a busy machine.
func long(args ...string) func(context.Context, *tally) error {
	return goTest(append([]string{"-timeout", "40m"}, args...)...)
}

// first makes a test binary run before other programs, where that is permitted.
var first = []string{"-exec", "nice -n -15"}

// measure runs the tests that measure, one after the other.
func measure(ctx context.Context, t *tally) (err error) {
	for _, name := range measuring {
		err = errors.Join(err, long(append(first, "-run", pattern([]string{name}), "./e2e")...)(ctx, t))
	}
	return err
}

// e2e runs beside each other the tests that wait, those that compute, and the packages
// below e2e, each of which keeps at most one CPU busy.
func e2e(ctx context.Context, t *tally) error {
	all, err := testPackages(ctx)
	if err != nil {
		return err
	}
	below := []string{"-p", "2"}
	for _, p := range all {
		if dir := "./" + short(p.path); strings.HasPrefix(dir, "./e2e/") && dir != emulated {
			below = append(below, dir)
		}
	}
	runs := []func(context.Context, *tally) error{
		long("-parallel", waiting, "-skip", pattern(named()), "./e2e"),
		long(append(first, "-run", pattern(urgent), "./e2e")...),
		long(below...),
	}
	for _, names := range busy {
		runs = append(runs, long("-run", pattern(names), "./e2e"))
	}
	return beside(runs...)(ctx, t)
}

// named are the tests of the lists.
func named() []string { return slices.Concat(alone, measuring, urgent, slices.Concat(busy...)) }

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
