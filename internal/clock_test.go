package internal_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// clockCalls look at the clock or wait for it.
var clockCalls = []string{"Sleep", "Since", "Until", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick"}

// excuse is in a comment on the line of a call or on the one above, or in the comment of the function or the package
// clause that has it, and is followed by the reason.
const excuse = "clock: "

// TestTestsDoNotLookAtTheClock: tests wait for events (package await, and until in e2e/browser/harness.js), or run on
// virtual time (testing/synctest). What a test says of elapsed time depends on the machine: it is a measurement, in a
// file with the build tag measure or with a name like x.measure.js.
func TestTestsDoNotLookAtTheClock(t *testing.T) {
	var looked, excused int
	walk(t, "..", func(path string) {
		switch {
		case strings.HasSuffix(path, "_test.go") && !strings.HasSuffix(path, "_measure_test.go") && filepath.Dir(path) != filepath.Join("..", "internal", "await"):
			looked++
			for _, at := range clockOfGo(t, path) {
				if at.excused {
					excused++
				} else {
					t.Errorf("%s:%d: %s", path, at.line, at.call)
				}
			}
		case strings.HasSuffix(path, ".test.js"), strings.HasSuffix(path, ".test.ts"):
			looked++
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for i, line := range strings.Split(string(b), "\n") {
				if m := clockOfJS.FindString(line); m != "" && !strings.Contains(line, excuse) {
					t.Errorf("%s:%d: %s", path, i+1, m)
				}
			}
		}
	})
	if looked < 100 {
		t.Errorf("looked at %d files only", looked)
	}
	t.Logf("%d files, %d exceptions", looked, excused)
}

var clockOfJS = regexp.MustCompile(`\b(setTimeout|setInterval|waitForTimeout|performance\.now)\(`)

// walk calls f for every file of ours below root.
func walk(t *testing.T, root string, f func(path string)) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "node_modules" || d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && path != root) {
			return filepath.SkipDir
		}
		if !d.IsDir() {
			f(path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// clockCall is a place that looks at the clock.
type clockCall struct {
	line    int
	call    string
	excused bool
}

// clockOfGo lists the calls in a file that are not inside a function given to synctest.Test.
func clockOfGo(t *testing.T, path string) (out []clockCall) {
	t.Helper()
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, path, nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	reasons := map[int]bool{}
	for _, group := range f.Comments {
		for _, c := range group.List {
			if _, reason, ok := strings.Cut(c.Text, excuse); ok && reason != "" {
				line := files.Position(c.Pos()).Line
				reasons[line], reasons[line+1] = true, true
			}
		}
	}
	whole := f.Doc != nil && strings.Contains(f.Doc.Text(), excuse)
	within := false
	ast.Inspect(f, func(n ast.Node) bool {
		if d, ok := n.(*ast.FuncDecl); ok {
			within = strings.HasPrefix(d.Name.Name, "Benchmark") || d.Doc != nil && strings.Contains(d.Doc.Text(), excuse)
		}
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		sel, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		switch pkg, _ := sel.X.(*ast.Ident); {
		case pkg == nil:
		case pkg.Name == "synctest" && sel.Sel.Name == "Test":
			return false
		case pkg.Name == "time" && slices.Contains(clockCalls, sel.Sel.Name):
			line := files.Position(call.Pos()).Line
			out = append(out, clockCall{line, "time." + sel.Sel.Name, whole || within || reasons[line]})
		}
		return true
	})
	return out
}

// The lint sees calls and their excuses, and looks away inside a bubble.
func TestClockOfGo(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x_test.go")
	text := `package x
func TestX(t *testing.T) {
	time.Sleep(1)
	time.Sleep(2) // clock: the machine must stand still
	// clock: it is a fake
	_ = time.Since(began)
	synctest.Test(t, func(t *testing.T) { time.Sleep(3) })
	<-time.After(1)
}
// helper is called in a bubble. clock: virtual.
func helper() { time.Sleep(1) }
func BenchmarkX(b *testing.B) { _ = time.Since(began) }
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	want := []clockCall{{3, "time.Sleep", false}, {4, "time.Sleep", true}, {6, "time.Since", true}, {8, "time.After", false}, {11, "time.Sleep", true}, {12, "time.Since", true}}
	if got := clockOfGo(t, file); !slices.Equal(got, want) {
		t.Errorf("clockOfGo = %v, want %v", got, want)
	}
}
