package internal_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"
)

// TestProgramsAreStartedByAwait: a test starts a program that runs beside it with package await, so that a wait fails at once
// with the program's last words when it ends. What is to end by itself is run with Run, Output or CombinedOutput.
func TestProgramsAreStartedByAwait(t *testing.T) {
	started := 0
	walk(t, "..", func(path string) {
		if !strings.HasSuffix(path, "_test.go") {
			return
		}
		files := token.NewFileSet()
		f, err := parser.ParseFile(files, path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		runs := false // it can start programs
		for _, im := range f.Imports {
			runs = runs || im.Path.Value == `"os/exec"`
		}
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			to, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if from, ok := to.X.(*ast.Ident); ok && from.Name == "await" && (to.Sel.Name == "Start" || to.Sel.Name == "Converse") {
				started++
			}
			if runs && to.Sel.Name == "Start" && len(call.Args) == 0 {
				t.Errorf("%s: use await.Start", files.Position(call.Pos()))
			}
			return true
		})
	})
	if started < 20 {
		t.Errorf("tests start %d programs only", started)
	}
}
