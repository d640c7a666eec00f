package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
)

// goTest runs `go test` with args on a fresh run, never from the test cache:
// most tests look at the machine, which the cache does not know of.
func goTest(args ...string) func(context.Context, *tally) error {
	return func(ctx context.Context, t *tally) error {
		cmd := exec.CommandContext(ctx, "go", append([]string{"test", "-json", "-count=1"}, args...)...)
		cmd.Stderr = os.Stderr
		if slices.Contains(args, "-race") { // the race detector is C
			cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			return err
		}
		if err := cmd.Start(); err != nil {
			return err
		}
		before := len(t.failed)
		if err := readGoTest(out, os.Stdout, t); err != nil {
			return err
		}
		if err := cmd.Wait(); err != nil && len(t.failed) == before {
			return fmt.Errorf("%s: %w", cmd, err)
		}
		return nil
	}
}

// event is a line of `go test -json` (go doc test2json).
type event struct {
	Action, Package, Test, Output, ImportPath string
	Elapsed                                   float64 // seconds
}

// readGoTest counts the tests of a stream and passes the line of each package
// on to progress.
func readGoTest(r io.Reader, progress io.Writer, t *tally) error {
	text := map[[2]string]*strings.Builder{} // output by package and test; the package's own is under ""
	open := map[[2]string]bool{}
	failedIn := map[string]bool{}
	in := bufio.NewScanner(r)
	in.Buffer(nil, 16<<20)
	for in.Scan() {
		var e event
		if err := json.Unmarshal(in.Bytes(), &e); err != nil {
			return fmt.Errorf("read go test -json: %q: %w", in.Text(), err)
		}
		pkg := e.Package
		if pkg == "" { // build events name the package as an import path, "x.test" or "x [y.test]"
			pkg, _, _ = strings.Cut(strings.TrimSuffix(e.ImportPath, ".test"), " ")
		}
		id := [2]string{pkg, e.Test}
		switch e.Action {
		case "run":
			open[id] = true
		case "output", "build-output":
			if text[id] == nil {
				text[id] = &strings.Builder{}
			}
			text[id].WriteString(e.Output)
			if e.Test == "" && packageLine.MatchString(e.Output) {
				fmt.Fprint(progress, e.Output)
			}
		case "pass", "fail", "skip":
			if e.Test == "" {
				closePackage(e, t, open, text, failedIn[pkg])
				continue
			}
			delete(open, id)
			if !strings.Contains(e.Test, "/") {
				t.long(e.Test, e.Elapsed)
			}
			switch e.Action {
			case "pass":
				t.pass()
			case "fail":
				failedIn[pkg] = true
				t.fail(pkg+" "+e.Test, text[id].String())
			case "skip":
				t.skip(short(pkg)+" "+e.Test, reason(text[id].String()))
			}
		}
	}
	return in.Err()
}

// packageLine matches the last line of a package: "ok  path  1.2s", "FAIL path".
var packageLine = regexp.MustCompile(`^(ok  |FAIL|---)\s+\S+\t`)

// closePackage settles what has no line of its own: benchmarks that went well,
// tests that a crash or the time limit cut off, and packages that did not build.
func closePackage(e event, t *tally, open map[[2]string]bool, text map[[2]string]*strings.Builder, failed bool) {
	for id := range open {
		if id[0] != e.Package {
			continue
		}
		delete(open, id)
		if e.Action == "pass" || strings.HasPrefix(id[1], "Benchmark") {
			t.pass()
			continue
		}
		failed = true
		t.fail(e.Package+" "+id[1], "did not end\n"+text[id].String())
	}
	if e.Action == "fail" && !failed {
		said := "no output"
		if b := text[[2]string{e.Package, ""}]; b != nil {
			said = b.String()
		}
		t.fail("package "+e.Package, said)
	}
}

// reason is what a skipped test said: "    file_test.go:12: no clang here"
// without its place, on one line.
func reason(output string) string {
	var said []string
	for line := range strings.Lines(output) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "=== ") || strings.HasPrefix(line, "--- ") || strings.HasPrefix(line, "Benchmark") {
			continue
		}
		said = append(said, place.ReplaceAllString(line, ""))
	}
	if len(said) == 0 {
		return "gave no reason"
	}
	return strings.Join(said, " ")
}

var place = regexp.MustCompile(`^\S+\.go:\d+: `)

func short(pkg string) string { return strings.TrimPrefix(pkg, "github.com/teescope/teescope/") }

// fuzz runs every fuzz target of the packages for the given time, one on each CPU, guided by
// coverage where that is cheap: go instruments all dependencies, so that one
// target in a package that links Prometheus would compile all of it again. There
// the inputs are drawn without guidance.
func fuzz(each string, packages ...string) func(context.Context, *tally) error {
	return func(ctx context.Context, t *tally) error {
		out, err := exec.CommandContext(ctx, "go", append([]string{"test", "-json", "-list", "^Fuzz"}, packages...)...).Output()
		if err != nil {
			return fmt.Errorf("list fuzz targets: %w", err)
		}
		found, err := os.MkdirTemp("", "fuzz") // interesting inputs of unguided runs
		if err != nil {
			return err
		}
		defer os.RemoveAll(found)
		var all errgroup.Group
		all.SetLimit(runtime.NumCPU())
		var mu sync.Mutex // of t
		for line := range bytes.Lines(out) {
			var e event
			if err := json.Unmarshal(line, &e); err != nil {
				return fmt.Errorf("list fuzz targets: %q: %w", line, err)
			}
			name := strings.TrimSpace(e.Output)
			if !strings.HasPrefix(name, "Fuzz") {
				continue
			}
			all.Go(func() error {
				once, err := fuzzOne(ctx, e.Package, name, each, found)
				mu.Lock()
				defer mu.Unlock()
				t.add(once)
				return err
			})
		}
		return all.Wait()
	}
}

// fuzzOne runs one target on one CPU.
func fuzzOne(ctx context.Context, pkg, name, each, found string) (*tally, error) {
	deps, err := exec.CommandContext(ctx, "go", "list", "-deps", pkg).Output()
	if err != nil {
		return new(tally), fmt.Errorf("list what %s needs: %w", pkg, err)
	}
	run := goTest("-run", "^$", "-fuzz", "^"+name+"$", "-fuzztime", each, "-parallel", "1", pkg)
	if bytes.Contains(deps, []byte("github.com/prometheus/prometheus/")) {
		run = goTest("-run", "^$", pkg, "-args", "-test.fuzz=^"+name+"$", "-test.fuzztime="+each, "-test.parallel=1", "-test.fuzzcachedir="+found)
	}
	t := new(tally)
	if err := run(ctx, t); !deadlineOnly(t) {
		return t, err
	}
	fmt.Printf("%s %s: the engine took its own deadline for a failure; once more\n", short(pkg), name)
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
