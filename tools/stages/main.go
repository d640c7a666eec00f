// Command stages runs the tests of this repository, one stage after the other,
// and ends with a table of what ran, failed and was skipped, and each skip's
// reason. `make test` runs all of them; names on the command line choose some:
//
//	go run ./tools/stages [STAGE]...
//
// Its exit status is 1 when anything failed and 4 when it was called wrongly.
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
}

// all is every stage, in the order of `make test`: cheap ones first, so that a
// mistake is known early.
var all = []stage{
	{"format", "gofmt would change nothing", gofmt},
	{"build", "the page and the static binary build", command("make", "--no-print-directory", "build")},
	{"generated", "generating again changes no file", generated},
	{"vet", "go vet finds nothing", command("go", "vet", "./...")},
	{"imports", "the table of who may import whom holds", goTest("-run", "TestImports|TestHostIsTheDoor", "./internal")},
	{"unit", "Go tests beside the code, among them BPF programs in the real kernel", goTest("./internal/...", "./cmd/...", "./ui/...", "./tools/...")},
	// The detector compiles all imports again, which takes minutes for Prometheus: rooms and tests that link it are left out.
	{"race", "the light rooms under the race detector", goTest("-race", "./internal/host/...", "./internal/probe/...", "./internal/web")},
	{"types", "the page's TypeScript has no type error", command("npm", "--prefix", "ui", "run", "check")},
	{"ui", "tests of the page's code", vitest("ui")},
	{"e2e", "the binary with real servers, and on another kernel", e2e},
	{"browser", "the page in a real browser", nodeTest("e2e/browser")},
	{"deploy", "manifests against the code, and the image built and run", goTest("./deploy/...")},
	{"fuzz", "every fuzz target for 5 seconds", fuzz("5s")},
	{"bench", "every benchmark once, so that none rots", goTest("-run", "^$", "-bench", ".", "-benchtime", "1x", "./...")},
	{"lint", "golangci-lint, as .golangci.yml says", command("go", "run", "github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0", "run", "--allow-parallel-runners")},
}

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
	var tallies []*tally
	for _, s := range chosen {
		fmt.Printf("\n== %s: %s\n", s.name, s.doc)
		t := &tally{stage: s.name}
		began := time.Now()
		if err := s.run(ctx, t); err != nil {
			t.fail(s.name, err.Error())
		}
		t.took = time.Since(began)
		if len(t.failed) > 0 { // all names in one line, for a log of which only a part is kept
			fmt.Println("failed:", testNames(t.failed))
		}
		for _, o := range t.failed {
			fmt.Println("FAILED", o.test)
			for _, line := range where(o.text) {
				fmt.Println("   ", line)
			}
		}
		if len(t.slow) > 0 {
			fmt.Println("slow:", strings.Join(t.slow, ", "))
		}
		fmt.Printf("%d passed, %d failed, %d skipped in %.0f s\n", t.passed, len(t.failed), len(t.skipped), t.took.Seconds())
		tallies = append(tallies, t)
		if ctx.Err() != nil {
			fmt.Println("stopped")
			return 1
		}
	}
	if summarize(os.Stdout, tallies) {
		return 0
	}
	return 1
}

// choose returns the named stages in the order of the list; all of them when
// there are no names.
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
			return nil, fmt.Errorf("no stage %q; there are %s", n, strings.Join(known, ", "))
		}
	}
	return out, nil
}
