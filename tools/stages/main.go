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
	// lane names the stages that run one after the other, beside those of other lanes and from
	// the place of the first of them on.
	lane string
}

// fuzzTime is how long each target is fuzzed; `make test-full` takes more time for it.
var fuzzTime = cmp.Or(os.Getenv("FUZZTIME"), "2s")

// all is every stage, in the order of `make test`: cheap ones first, so a mistake shows early.
var all = []stage{
	{name: "format", doc: "gofmt would change nothing", run: gofmt},
	{name: "build", doc: "the page and the static binary build", run: command("make", "--no-print-directory", "build")},
	{name: "generated", doc: "generating again changes no file", run: generated},
	{name: "vet", doc: "go vet finds nothing", run: command("go", "vet", "./...")},
	{name: "shares", doc: "shares of time, with nothing beside it", run: long(append(first, "-run", pattern(alone), "./e2e")...)},
	{name: "fuzz", doc: "every fuzz target for " + fuzzTime, run: fuzz(fuzzTime), lane: lowest},
	{name: "lint", doc: "golangci-lint with .golangci.yml", run: command(low("go", "run", "github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0", "run", "--allow-parallel-runners")...), lane: lowest},
	{name: "types", doc: "the page's TypeScript has no type error", run: command(low("npm", "--prefix", "ui", "run", "check")...), lane: lowest},
	{name: "ui", doc: "tests of the page's code", run: vitest("ui"), lane: lowest},
	{name: "guest", doc: "the binary on another kernel, before tests that only compute", run: long(append(first, emulated)...), lane: "guest"},
	{name: "unit", doc: "Go tests and benchmarks of packages, BPF programs in the host's kernel among them; under the race detector where they do not link Prometheus", run: unit},
	{name: "measure", doc: "tests that measure, one after the other and before all other programs", run: measure},
	{name: "e2e", doc: "the binary with real servers", run: e2e},
	{name: "browser", doc: "the page in a real browser", run: nodeTest("e2e/browser")},
	{name: "deploy", doc: "manifests against the code, and the image built and run", run: goTest("./deploy/...")},
}

// lowest is the lane of stages that only compute. They run at the lowest priority.
const lowest = "lowest"

// low makes a command run at the lowest priority.
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

// schedule performs the stages of each lane in their order. It returns a tally for each stage.
func schedule(ctx context.Context, stages []stage, perform func(context.Context, stage) *tally) []*tally {
	tallies := make([]*tally, len(stages))
	do := func(lane string) {
		for i, s := range stages {
			if s.lane == lane && ctx.Err() == nil {
				tallies[i] = perform(ctx, s)
			}
		}
	}
	begun := map[string]bool{}
	var lanes sync.WaitGroup
	for i, s := range stages {
		switch {
		case ctx.Err() != nil:
		case s.lane == "":
			tallies[i] = perform(ctx, s)
		case !begun[s.lane]:
			begun[s.lane] = true
			lanes.Go(func() { do(s.lane) })
		}
	}
	lanes.Wait()
	return tallies
}

// perform runs one stage and prints its outcome.
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
