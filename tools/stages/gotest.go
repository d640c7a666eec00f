package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// goTest runs `go test` with args, never from the test cache: most tests look at the machine, which the cache does
// not track. It leaves out vet, which is one of the lints.
func goTest(args ...string) func(context.Context, *tally) error { return goTestIn("", args...) }

// goTestIn runs goTest in the folder of another module.
func goTestIn(dir string, args ...string) func(context.Context, *tally) error {
	return func(ctx context.Context, t *tally) error {
		cmd := exec.CommandContext(ctx, "go", append([]string{"test", "-json", "-count=1", "-vet=off"}, args...)...)
		cmd.Dir = dir
		cmd.Env = os.Environ()
		if slices.Contains(args, "-race") { // the race detector is C
			cmd.Env = append(cmd.Env, "CGO_ENABLED=1")
		}
		if !slices.Contains(args, eachOnce[1]) { // unit tests look at the limits themselves
			cmd.Env = append(cmd.Env, patient)
		}
		run, skip := valueOf(args, "-run"), valueOf(args, "-skip")
		t.chosen = func(test string) bool { return matches(run, test) && !(skip != "" && matches(skip, test)) }
		return stream(cmd, t)
	}
}

// valueOf is the argument after a flag, or "".
func valueOf(args []string, name string) string {
	if i := slices.Index(args, name); i >= 0 && i+1 < len(args) {
		return args[i+1]
	}
	return ""
}

func matches(pattern, name string) bool {
	ok, err := regexp.MatchString(pattern, name)
	return ok || err != nil // go test says what is wrong with it
}

// stream runs a command that prints the events of tests, and counts them.
func stream(cmd *exec.Cmd, t *tally) error {
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	before := len(t.failed)
	if err := readGoTest(out, os.Stdout, t); err != nil {
		return errors.Join(err, cmd.Wait())
	}
	if err := cmd.Wait(); err != nil && len(t.failed) == before {
		return fmt.Errorf("%s: %w", cmd, err)
	}
	return nil
}

// testPackage is a package that has tests.
type testPackage struct {
	path string // its import path, as github.com/teescope/teescope/internal/host
	// linksPrometheus reports whether its test binary links Prometheus. Instrumenting such a
	// binary compiles all of Prometheus again.
	linksPrometheus bool
}

// raced reports whether the package's tests run under the race detector: they do not link Prometheus, and its sources
// start goroutines. In other packages it would find nothing and take ten times the time.
func (p testPackage) raced() (bool, error) {
	if p.linksPrometheus {
		return false, nil
	}
	files, err := filepath.Glob(filepath.Join(filepath.FromSlash(short(p.path)), "*.go"))
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("package %s has no files; run in the repository", p.path)
	}
	for _, file := range files {
		if err != nil {
			break
		}
		var f *ast.File
		if f, err = parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution); err == nil && startsGoroutines(f) {
			return true, nil
		}
	}
	return false, err
}

// startsGoroutines reports whether a file has a go statement, or calls a method Go, as of sync.WaitGroup.
func startsGoroutines(f *ast.File) (found bool) {
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			found = true
		case *ast.CallExpr:
			method, ok := n.Fun.(*ast.SelectorExpr)
			found = found || ok && method.Sel.Name == "Go"
		}
		return !found
	})
	return found
}

// testPackages lists the packages that have tests, sorted.
func testPackages(ctx context.Context) (all []testPackage, err error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-test", "-f", `{{if eq .Name "main"}}{{.ImportPath}} {{.Deps}}{{end}}`, module+"...").Output()
	if err != nil {
		return nil, fmt.Errorf("list the packages with tests: %w", err)
	}
	for line := range strings.Lines(string(out)) {
		name, deps, _ := strings.Cut(line, " ")
		if path, ok := strings.CutSuffix(name, ".test"); ok {
			all = append(all, testPackage{path, strings.Contains(deps, "github.com/prometheus/prometheus/")})
		}
	}
	if len(all) == 0 {
		return nil, errors.New("list the packages with tests: there are none; run in the repository")
	}
	return all, nil
}

// besideCode reports whether the package's tests run in stage unit. Those of e2e and deploy have their own stages.
func (p testPackage) besideCode() bool {
	room, _, _ := strings.Cut(short(p.path), "/")
	return room != "e2e" && room != "deploy"
}

// eachOnce makes a test binary run each benchmark once, after the tests. The flags follow
// -args because `go test -bench` would run the packages one after the other.
var eachOnce = []string{"-args", "-test.bench=.", "-test.benchtime=1x"}

// atOnce is how many packages are tested at the same time: some wait, and two CPUs are to have work.
const atOnce = "3"

// unit runs the tests of packages, some of them under the race detector. Tests of e2e run a binary without it.
func unit(ctx context.Context, t *tally) error {
	return errors.Join(
		testsOf(true, "-race", "-p", atOnce, "-timeout", "30m", "-exec", "env CGO_ENABLED=0")(ctx, t), // programs that the tests build come from the cache
		testsOf(false, "-p", atOnce, "-timeout", "30m")(ctx, t),
	)
}

// testsOf runs the tests and benchmarks of the packages that need the race detector, or of the others.
func testsOf(raced bool, args ...string) func(context.Context, *tally) error {
	return func(ctx context.Context, t *tally) error {
		all, err := testPackages(ctx)
		if err != nil {
			return err
		}
		args := slices.Clone(args)
		for _, p := range all {
			if !p.besideCode() {
				continue
			}
			if is, err := p.raced(); err != nil {
				return err
			} else if is == raced {
				args = append(args, p.path)
			}
		}
		return goTest(append(args, eachOnce...)...)(ctx, t)
	}
}

// event is a line of `go test -json` (go doc test2json).
type event struct {
	Action, Package, Test, Output, ImportPath string
	Elapsed                                   float64 // seconds
}

// readGoTest counts the tests of a stream and copies the line of each package
// to progress.
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
			t.ran = append(t.ran, id[0]+" "+id[1])
		case "output", "build-output":
			if text[id] == nil {
				text[id] = &strings.Builder{}
			}
			text[id].WriteString(e.Output)
			t.inputs = max(t.inputs, inputsIn(e.Output))
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
				t.long(short(pkg)+" "+e.Test, e.Elapsed)
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

// closePackage counts results without a line of their own: benchmarks that passed, tests cut off by a crash or the
// time limit, and packages that did not build.
func closePackage(e event, t *tally, open map[[2]string]bool, text map[[2]string]*strings.Builder, failed bool) {
	cut := false
	for id := range open {
		if id[0] != e.Package {
			continue
		}
		delete(open, id)
		benchmark := strings.HasPrefix(id[1], "Benchmark")
		if benchmark {
			t.benchmarks++
		}
		if e.Action == "pass" || benchmark {
			t.pass()
			continue
		}
		failed = true
		t.fail(e.Package+" "+id[1], "did not end\n"+text[id].String())
		cut = true
	}
	if cut {
		if names := t.notRun(e.Package); len(names) > 0 {
			t.fail("package "+e.Package, "it was cut off; these tests did not run: "+strings.Join(names, ", "))
		}
	}
	if e.Action == "fail" && !failed {
		said := "no output"
		if b := text[[2]string{e.Package, ""}]; b != nil {
			said = b.String()
		}
		t.fail("package "+e.Package, said)
	}
}

// testFunc matches the name of a test in a source file.
var testFunc = regexp.MustCompile(`(?m)^func (Test\w+)\(t \*?testing`)

// notRun lists the chosen tests of a package that did not begin, by its sources.
func (t *tally) notRun(pkg string) (names []string) {
	files, _ := filepath.Glob(filepath.Join(filepath.FromSlash(short(pkg)), "*_test.go"))
	for _, file := range files {
		text, _ := os.ReadFile(file)
		if bytes.HasPrefix(text, []byte("//go:build measure")) != t.measures {
			continue
		}
		for _, m := range testFunc.FindAllSubmatch(text, -1) {
			if name := string(m[1]); name != "TestMain" && !slices.Contains(t.ran, pkg+" "+name) && (t.chosen == nil || t.chosen(name)) {
				names = append(names, name)
			}
		}
	}
	return names
}

// reason returns the output of a skipped test on one line, without the place in the file: "    file_test.go:12: no
// clang here" gives "no clang here".
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
