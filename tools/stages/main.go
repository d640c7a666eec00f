// Command stages runs the tests of this repository in stages, one after the other. It prints each failure when it
// happens, and ends with each failure again, the reason of each skip, the ten slowest tests and a table of what ran,
// failed and was skipped. `make test` runs all stages; names on the command line choose some:
//
//	go run ./tools/stages [STAGE]...
//
// Its exit status is 1 when anything failed or it was interrupted, and 4 when it was called wrongly.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

// stage is a group of tests. Run counts into the tally; an error means that
// the stage could not run or that a check without tests of its own failed.
type stage struct {
	name, doc string
	run       func(context.Context, *tally) error
	// aside: the stage is no part of `make test`.
	aside bool
}

// all is every stage, in the order of `make test`: cheap ones first, so a mistake shows early. Each keeps about as
// many CPUs busy as there are, and what compiles comes before what runs servers, guests and browsers.
var all = []stage{
	{name: "format", doc: "gofmt would change nothing", run: gofmt},
	{name: "build", doc: "the page and the static binaries build, and the client for macOS and Windows", run: command("make", "--no-print-directory", "build", "client")},
	{name: "generated", doc: "generating again changes no file", run: generated},
	{name: "lint", doc: "golangci-lint with .golangci.yml, go vet among the lints, in measurements too", run: inModules(".tools/bin/golangci-lint", "run", "--allow-parallel-runners")},
	{name: "types", doc: "the page's TypeScript has no type error, and React's rules of hooks hold", run: command("npm", "--prefix", "ui", "run", "check")},
	{name: "ui", doc: "tests of the page's code", run: vitest("ui")},
	{name: "unit", doc: "Go tests and benchmarks of packages, BPF programs in the host's kernel among them; under the race detector where goroutines are started and Prometheus is not linked", run: unit},
	{name: "e2e", doc: "the binary with real servers, and beside them on other kernels", run: e2e},
	{name: "browser", doc: "the page in a real browser", run: nodeTest("e2e/browser", "--test-concurrency=4")},
	{name: "deploy", doc: "manifests against the code, the chart with Helm, the image built and run, and the package installed and used", run: deploy},
	{name: "fuzz", doc: "every fuzz target for FUZZTIME (20s)", run: fuzz, aside: true},
	{name: "measure", doc: "promises that only a live machine can show; writes docs/lab/measured.md", run: measure, aside: true},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

func run(ctx context.Context, names []string) int {
	chosen, err := choose(names)
	if err == nil {
		err = lock()
	}
	if err == nil {
		err = mark()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "stages:", err)
		return 4
	}
	_ = os.Remove(failures) // of the run before, if there was one
	began := time.Now()
	var tallies []*tally
	for _, s := range chosen {
		if ctx.Err() == nil {
			tallies = append(tallies, perform(ctx, s))
		}
	}
	ok := summarize(os.Stdout, tallies, time.Since(began))
	if ctx.Err() != nil {
		fmt.Println("stopped before the end: the stages above are not all")
		return 1
	}
	if ok {
		return 0
	}
	return 1
}

// perform runs one stage, ends what it left running, and prints its outcome.
func perform(ctx context.Context, s stage) *tally {
	fmt.Printf("\n== %s: %s\n", s.name, s.doc)
	t := &tally{stage: s.name, report: report}
	before, began := readStrain(), time.Now()
	if err := s.run(ctx, t); err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("interrupted: %w", err)
		}
		t.fail(s.name, err.Error())
	}
	t.took = time.Since(began)
	endMarked(ownMark())
	fmt.Printf("%s: %s in %.0f s; %s\n", s.name, t, t.took.Seconds(), readStrain().since(before))
	return t
}

// choose returns the named stages in the order of the list, or those of `make test` if there are no names.
func choose(names []string) ([]stage, error) {
	var out []stage
	for _, s := range all {
		if slices.Contains(names, s.name) || len(names) == 0 && !s.aside {
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
