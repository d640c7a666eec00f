package web

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
)

//go:generate go test -run ^(TestTypeScript|TestWords)$ -update .

var update = flag.Bool("update", false, "write ui/src/api/types.ts")

const typesFile = "../../ui/src/api/types.ts"

// roots are the bodies of the API; the types they refer to follow. The answers of results/{id} and changes are types
// of other packages.
var roots = []string{"Platform", "Source", "Findings", "Causes", "Explanation", "ResultExplanation", "Distributions", "Queries", "Answer", "Silences", "Annotation", "Dashboards", "Process", "Overhead", "Results", "Drawings", "Tables", "View", "Authority", "Error"}

// TestTypeScript keeps the page's types equal to the structs that the server
// marshals: it derives them again and compares. With -update it writes them.
func TestTypeScript(t *testing.T) {
	g := &generator{done: map[string]bool{}}
	for _, r := range roots {
		if err := g.declare(".", r); err != nil {
			t.Fatal(err)
		}
	}
	for _, other := range [][2]string{{"probe", "Setting"}, {"fleet", "Page"}, {"result", "Experiment"}, {"report", "Words"}, {"metric", "Counted"}, {"findings/anomaly", "Changes"}} {
		if err := g.declare(filepath.Join("..", other[0]), other[1]); err != nil {
			t.Fatal(err)
		}
	}
	got := append([]byte("// Generated from internal/web/types.go by `go generate ./internal/web`. Do not edit.\n"), g.out.Bytes()...)
	if *update {
		if err := os.WriteFile(typesFile, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(typesFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is out of date: run go generate ./internal/web", typesFile)
	}
}

// generator writes TypeScript for Go types as encoding/json marshals them. It reads source code, since reflection has
// no comments and no constants of a type.
type generator struct {
	done map[string]bool
	out  bytes.Buffer
}

// declare writes type name of the package in dir, after the types it refers to.
func (g *generator) declare(dir, name string) error {
	ts := tsName(dir, name)
	if g.done[ts] {
		return nil
	}
	g.done[ts] = true
	spec, doc, file, err := g.find(dir, name)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	comment(&b, "", doc)
	if st, ok := spec.Type.(*ast.StructType); ok {
		body, extends, err := g.fields(dir, file, st)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		fmt.Fprintf(&b, "export interface %s%s {\n%s}\n", ts, extends, body)
	} else {
		words := g.constants(dir, name)
		if len(words) == 0 {
			return fmt.Errorf("%s: neither a struct nor a string type with constants", name)
		}
		fmt.Fprintf(&b, "export type %s = %s;\n", ts, strings.Join(words, " | "))
	}
	g.out.WriteByte('\n')
	g.out.Write(b.Bytes())
	return nil
}

// tsName returns the name of a Go type in the single TypeScript file. Types of other packages are prefixed with the
// package, since two of them have an Evidence.
func tsName(dir, name string) string {
	if dir == "." {
		return name
	}
	pkg := filepath.Base(dir)
	return strings.ToUpper(pkg[:1]) + pkg[1:] + name
}

func (g *generator) fields(dir string, file *ast.File, st *ast.StructType) (body, extends string, err error) {
	var b bytes.Buffer
	for _, f := range st.Fields.List {
		if len(f.Names) > 0 && !f.Names[0].IsExported() {
			continue
		}
		if f.Tag != nil && strings.Contains(f.Tag.Value, `json:"-"`) {
			continue
		}
		ts, err := g.typeOf(dir, file, f.Type)
		if err != nil {
			return "", "", err
		}
		if len(f.Names) == 0 { // embedded: its fields are marshalled as if they were here
			extends = " extends " + ts
			continue
		}
		if f.Tag == nil {
			return "", "", fmt.Errorf("field %s has no json tag", f.Names[0])
		}
		tag, _ := strconv.Unquote(f.Tag.Value)
		key, options, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
		optional := ""
		if options == "omitempty" || options == "omitzero" {
			optional = "?"
		} else {
			switch f.Type.(type) {
			case *ast.ArrayType, *ast.MapType: // a nil slice or map is marshalled as null
				if !strings.HasPrefix(ts, "[") {
					ts += " | null"
				}
			case *ast.StarExpr:
				ts += " | null"
			}
		}
		comment(&b, "  ", f.Doc)
		comment(&b, "  ", f.Comment)
		fmt.Fprintf(&b, "  %s%s: %s;\n", key, optional, ts)
	}
	return b.String(), extends, nil
}

func (g *generator) typeOf(dir string, file *ast.File, e ast.Expr) (string, error) {
	switch e := e.(type) {
	case *ast.StarExpr:
		return g.typeOf(dir, file, e.X)
	case *ast.ArrayType:
		if of, ok := e.Elt.(*ast.Ident); ok && of.Name == "byte" {
			return "string", nil // base64
		}
		elem, err := g.typeOf(dir, file, e.Elt)
		if n, ok := e.Len.(*ast.BasicLit); ok {
			k, _ := strconv.Atoi(n.Value)
			return "[" + strings.Repeat(", "+elem, k)[2:] + "]", err
		}
		return elem + "[]", err
	case *ast.MapType:
		elem, err := g.typeOf(dir, file, e.Value)
		return "{ [key: string]: " + elem + " }", err
	case *ast.SelectorExpr:
		pkg := e.X.(*ast.Ident).Name
		if pkg == "time" && e.Sel.Name == "Time" {
			return "string", nil
		}
		for _, im := range file.Imports {
			p, _ := strconv.Unquote(im.Path.Value)
			if _, room, ours := strings.Cut(p, "/internal/"); ours && path.Base(room) == pkg {
				from := filepath.Join("..", room)
				return tsName(from, e.Sel.Name), g.declare(from, e.Sel.Name)
			}
		}
		return "", fmt.Errorf("type %s.%s is not of this project", pkg, e.Sel.Name)
	case *ast.Ident:
		switch e.Name {
		case "string":
			return "string", nil
		case "bool":
			return "boolean", nil
		case "int", "int64", "uint64", "float64":
			return "number", nil
		case "Values": // it writes null for a missing value
			return "(number | null)[]", nil
		}
		return tsName(dir, e.Name), g.declare(dir, e.Name)
	}
	return "", fmt.Errorf("no TypeScript for %T", e)
}

// find returns the declaration of a type, its comment and its file.
func (g *generator) find(dir, name string) (*ast.TypeSpec, *ast.CommentGroup, *ast.File, error) {
	files, err := g.files(dir)
	if err != nil {
		return nil, nil, nil, err
	}
	for _, f := range files {
		for _, d := range f.Decls {
			gd, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, s := range gd.Specs {
				if ts, ok := s.(*ast.TypeSpec); ok && ts.Name.Name == name {
					return ts, gd.Doc, f, nil
				}
			}
		}
	}
	return nil, nil, nil, fmt.Errorf("%s: no type %s", dir, name)
}

// constants lists the values of the constants declared with a string type.
func (g *generator) constants(dir, name string) []string {
	var out []string
	files, _ := g.files(dir)
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			if vs, ok := n.(*ast.ValueSpec); ok {
				if id, ok := vs.Type.(*ast.Ident); ok && id.Name == name {
					for _, v := range vs.Values {
						if lit, ok := v.(*ast.BasicLit); ok && lit.Kind == token.STRING {
							out = append(out, lit.Value)
						}
					}
				}
			}
			return true
		})
	}
	return out
}

func (g *generator) files(dir string) ([]*ast.File, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	var out []*ast.File
	for _, n := range names {
		if strings.HasSuffix(n, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), n, nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	return out, nil
}

func comment(b *bytes.Buffer, indent string, c *ast.CommentGroup) {
	if c != nil {
		fmt.Fprintf(b, "%s/** %s */\n", indent, strings.Join(strings.Fields(c.Text()), " "))
	}
}
