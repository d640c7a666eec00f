// Command stages runs the tests of this repository in stages. It ends with each
// failure, the reason of each skip, the ten slowest tests and a table of what ran,
// failed and was skipped. `make test` runs all stages; names on the command line choose some:
//
//	go run ./tools/stages [STAGE]...
//
// Its exit status is 1 when anything failed and 4 when it was called wrongly.
package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// stage is a group of tests. Run counts into the tally; an error means that
// the stage could not run or that a check without tests of its own failed.
type stage struct {
	name, doc string
	run       func(context.Context, *tally) error
	// aside stages only compute. They run one after the other, at the lowest priority,
	// beside the stages that follow the first of them, which mostly wait.
	aside bool
}

// fuzzTime is how long each target is fuzzed; `make test-full` takes more time for it.
var fuzzTime = cmp.Or(os.Getenv("FUZZTIME"), "4s")

// all is every stage, in the order of `make test`: cheap ones first, so that a
// mistake is known early.
var all = []stage{
	{name: "format", doc: "gofmt would change nothing", run: gofmt},
	{name: "build", doc: "the page and the static binary build", run: command("make", "--no-print-directory", "build")},
	{name: "generated", doc: "generating again changes no file", run: generated},
	{name: "vet", doc: "go vet finds nothing", run: command("go", "vet", "./...")},
	{name: "unit", doc: "Go tests and benchmarks of packages, BPF programs in the host's kernel among them; under the race detector where they do not link Prometheus", run: unit},
	{name: "alone", doc: "tests that measure, each with the machine to itself", run: alone},
	{name: "fuzz", doc: "every fuzz target for " + fuzzTime, run: fuzz(fuzzTime), aside: true},
	{name: "lint", doc: "golangci-lint with .golangci.yml", run: command(low("go", "run", "github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0", "run", "--allow-parallel-runners")...), aside: true},
	{name: "types", doc: "the page's TypeScript has no type error", run: command(low("npm", "--prefix", "ui", "run", "check")...), aside: true},
	{name: "ui", doc: "tests of the page's code", run: vitest("ui"), aside: true},
	{name: "guest", doc: "the binary on another kernel", run: long(emulated)},
	{name: "e2e", doc: "the binary with real servers", run: e2e},
	{name: "browser", doc: "the page in a real browser", run: nodeTest("e2e/browser")},
	{name: "deploy", doc: "manifests against the code, and the image built and run", run: goTest("./deploy/...")},
}

// low makes a command give way to everything else on the machine.
func low(argv ...string) []string { return append([]string{"nice", "-n", "19"}, argv...) }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

func run(ctx context.Context, names []string) int {
	chosen, err := choose(names)
	if err != nil {
		fmt.Fprintln(os.Stderr, "stages:", err)
		return 4
	}
	began := time.Now()
	tallies := schedule(ctx, chosen, perform)
	if ctx.Err() != nil {
		fmt.Println("stopped")
		return 1
	}
	if summarize(os.Stdout, tallies, time.Since(began)) {
		return 0
	}
	return 1
}

// schedule performs the stages in their order, those aside in a lane of their own.
// It returns a tally for each.
func schedule(ctx context.Context, stages []stage, perform func(context.Context, stage) *tally) []*tally {
	tallies := make([]*tally, len(stages))
	do := func(i int) {
		if ctx.Err() == nil {
			tallies[i] = perform(ctx, stages[i])
		}
	}
	var lane sync.WaitGroup
	for i, s := range stages {
		switch {
		case !s.aside:
			do(i)
		case i == slices.IndexFunc(stages, func(s stage) bool { return s.aside }):
			lane.Go(func() {
				for j := range stages {
					if stages[j].aside {
						do(j)
					}
				}
			})
		}
	}
	lane.Wait()
	return tallies
}

// perform runs one stage and prints what came of it.
func perform(ctx context.Context, s stage) *tally {
	fmt.Printf("\n== %s: %s\n", s.name, s.doc)
	t := &tally{stage: s.name}
	began := time.Now()
	if err := s.run(ctx, t); err != nil {
		t.fail(s.name, err.Error())
	}
	t.took = time.Since(began)
	var b strings.Builder  // printed at once: another stage may print too
	if len(t.failed) > 0 { // all names in one line, for a log of which only a part is kept
		fmt.Fprintf(&b, "%s failed: %s\n", s.name, testNames(t.failed))
	}
	for _, o := range t.failed {
		fmt.Fprintln(&b, "FAILED", o.test)
		for _, line := range where(o.text) {
			fmt.Fprintln(&b, "   ", line)
		}
	}
	fmt.Fprintf(&b, "%s: %s in %.0f s\n", s.name, t, t.took.Seconds())
	fmt.Print(b.String())
	return t
}

// choose returns the named stages in the order of the list, or all if there are no names.
func choose(names []string) ([]stage, error) {
	if len(names) == 0 {
		return all, nil
	}
	var out []stage
	for _, s := range all {
		if slices.Contains(names, s.name) {
			out = append(out, s)
		}
	}
	for _, n := range names {
		if !slices.ContainsFunc(all, func(s stage) bool { return s.name == n }) {
			known := make([]string, len(all))
			for i, s := range all {
				known[i] = s.name
			}
			return nil, fmt.Errorf("choose stages: there is no stage %q; use one of %s", n, strings.Join(known, ", "))
		}
	}
	return out, nil
}
