package internal_test

import (
	"cmp"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
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

// foreign are methods of interfaces that others define, by package and name.
var foreign = []string{"Put"}

const allowedNames = "names.txt"

var removeNames = flag.Bool("update", false, "remove the names from names.txt that are no longer needed")

// TestBareNames: a function is named by a verb and its object, or by the noun that it returns. names.txt has those of
// before, as Type.name or name, once for each: it can only become shorter. With -v the test prints how many there are.
func TestBareNames(t *testing.T) {
	found, functions := bareNames(t)
	allowed := map[string]int{}
	for _, name := range readLines(t, allowedNames) {
		allowed[name]++
	}
	total := 0
	for _, name := range slices.Sorted(maps.Keys(found)) {
		total += len(found[name])
		if extra := len(found[name]) - allowed[name]; extra > 0 {
			t.Errorf("%s (%s): name it by a verb and its object, or by the noun that it returns", name, strings.Join(found[name], ", "))
		}
	}
	t.Logf("%d of %d functions are called by a bare word", total, functions)
	var kept []string
	for _, name := range slices.Sorted(maps.Keys(allowed)) {
		needed := min(allowed[name], len(found[name]))
		if needed < allowed[name] && !*removeNames {
			t.Errorf("%s has %s, which is not needed: go test ./internal -run TestBareNames -update removes it", allowedNames, name)
		}
		kept = append(kept, slices.Repeat([]string{name}, needed)...)
	}
	if *removeNames {
		if err := os.WriteFile(allowedNames, []byte(strings.Join(append(kept, ""), "\n")), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// bareNames returns the files of each function that is called by a bare word, by its name with that of its receiver, and
// the number of all functions.
func bareNames(t *testing.T) (found map[string][]string, functions int) {
	t.Helper()
	words := strings.Fields(bareWords)
	found = map[string][]string{}
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
			functions++
			receiver := receiverOf(fn)
			if slices.Contains(words, strings.ToLower(fn.Name.Name)) && !(receiver != "" && slices.Contains(foreign, fn.Name.Name)) {
				name := strings.TrimPrefix(receiver+"."+fn.Name.Name, ".")
				found[name] = append(found[name], filepath.ToSlash(strings.TrimPrefix(path, "../")))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found, functions
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

func readLines(t *testing.T, name string) []string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(b))
}
