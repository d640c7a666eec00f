package internal_test

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// bareWords are prepositions, adverbs, auxiliaries and the most common verbs: none says what a function does, or what it
// returns. The list stays as it is. Words that Go's own methods have (Is, In, Now, Since, Before, Has, Begin) are not in it.
const bareWords = `
of on by to for from with without within into onto over under above below beside between beyond
about across against around behind near apart away out up off down toward inside outside
or and because so than then also again once here there elsewhere ahead together alone aside
when where what who whose why how only both else
was are be been have had may must can could might shall should will would do does did
take takes took taken put puts ask asks asked say says said tell tells told give gives gave given
make makes made go goes went gone come comes came keep keeps kept hold holds held look looks looked
see sees saw seen know knows knew known let tried use uses used end ends ended want wants wanted
need needs needed leave leaves left lose loses lost turn turns hear heard stand stands stay stays
happen happens happened bring think seem feel
`

// exceptions are methods of interfaces that others define.
var exceptions = []string{
	"buffers.Put", // httputil.BufferPool
	"attempt.End", // OpenTelemetry's trace.Span
}

// TestBareNames: a function is named by a verb and its object, or by the noun that it returns.
func TestBareNames(t *testing.T) {
	words := strings.Fields(bareWords)
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "node_modules" || d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && path != ".."):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, decl := range f.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			name := strings.TrimPrefix(receiverOf(fn)+"."+fn.Name.Name, ".")
			if slices.Contains(words, strings.ToLower(fn.Name.Name)) && !slices.Contains(exceptions, name) {
				t.Errorf("%s has %s: name it by a verb and its object, or by the noun that it returns", filepath.ToSlash(strings.TrimPrefix(path, "../")), name)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// receiverOf returns the name of a method's type, "" of a function.
func receiverOf(fn *ast.FuncDecl) (name string) {
	if fn.Recv == nil {
		return ""
	}
	ast.Inspect(fn.Recv.List[0].Type, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			name = cmp.Or(name, id.Name)
		}
		return name == ""
	})
	return name
}
