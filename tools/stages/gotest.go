package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
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

const module = "github.com/teescope/teescope/"

func short(pkg string) string { return strings.TrimPrefix(pkg, module) }
