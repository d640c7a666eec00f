// Package schematest makes JSON Schemas (draft 2020-12) from Go types, and from the
// comments and constants in their source. Only tests and what they write use it: a
// schema that is committed beside its types is compared with what the types say now.
package schematest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/invopop/jsonschema"
)

const module = "github.com/teescope/teescope/"

// Document says how a document looks to the program that reads or writes it.
type Document struct {
	Title string
	Value any // of the document's type
	// Packages are the folders with the types' sources, in internal/. Internal is the way
	// there from the caller's folder; "" is "..".
	Packages []string
	Internal string
	// YAML documents are read from users: names are those of yaml.v3, every key may be
	// absent, and an unknown one is an error. Other documents are written as JSON by this
	// program: a later version may add fields, and what is missing is null.
	YAML bool
	// Enums lists the constants of string types as the only values.
	Enums bool
	// Special gives types that decode themselves a schema, and nil for all others.
	Special func(reflect.Type) *jsonschema.Schema
}

// Schema returns the document's schema.
func (d Document) Schema() ([]byte, error) {
	src := source{comments: map[string]string{}, constants: map[string][]any{}}
	for _, p := range d.Packages {
		if err := src.read(cmp.Or(d.Internal, ".."), p); err != nil {
			return nil, err
		}
	}
	r := jsonschema.Reflector{
		BaseSchemaID:              "https://" + module + "schema",
		AllowAdditionalProperties: !d.YAML,
		LookupComment:             src.comment,
		Mapper:                    d.mapper(src),
	}
	if d.YAML {
		r.FieldNameTag, r.KeyNamer, r.RequiredFromJSONSchemaTags = "yaml", strings.ToLower, true
	}
	s := r.Reflect(d.Value)
	s.Title, s.Version = d.Title, jsonschema.Version
	if !d.YAML {
		types := map[string]reflect.Type{}
		gather(reflect.TypeOf(d.Value), types)
		for name, def := range s.Definitions {
			nullable(def, types[name])
		}
	}
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("schema of %s: %w", d.Title, err)
	}
	return append(b, '\n'), nil
}

func (d Document) mapper(src source) func(reflect.Type) *jsonschema.Schema {
	return func(t reflect.Type) *jsonschema.Schema {
		if d.Special != nil {
			if s := d.Special(t); s != nil {
				return s
			}
		}
		if words := src.constants[t.PkgPath()+"."+t.Name()]; d.Enums && t.Kind() == reflect.String && len(words) > 0 {
			return &jsonschema.Schema{Type: "string", Enum: words, Description: src.comment(t, "")}
		}
		return nil
	}
}

// source is what reflection does not know of types: comments by package.Type and
// package.Type.Field, and the constants of string types.
type source struct {
	comments  map[string]string
	constants map[string][]any
}

func (s source) comment(t reflect.Type, field string) string {
	key := t.PkgPath() + "." + t.Name()
	if field != "" {
		key += "." + field
	}
	return s.comments[key]
}

// read adds the package in a folder of internal/.
func (s source) read(internal, pkg string) error {
	names, err := filepath.Glob(filepath.Join(internal, filepath.FromSlash(pkg), "*.go"))
	if err != nil {
		return err
	}
	if len(names) == 0 {
		return fmt.Errorf("package %s has no source", pkg)
	}
	slices.Sort(names)
	for _, n := range names {
		if strings.HasSuffix(n, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), n, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		for _, d := range f.Decls {
			if g, ok := d.(*ast.GenDecl); ok {
				s.declared(module+"internal/"+pkg, g)
			}
		}
	}
	return nil
}

func (s source) declared(pkg string, g *ast.GenDecl) {
	for _, spec := range g.Specs {
		switch x := spec.(type) {
		case *ast.TypeSpec:
			text := x.Doc.Text()
			if text == "" {
				text = g.Doc.Text()
			}
			name := pkg + "." + x.Name.Name
			s.comments[name] = new(doc.Package).Synopsis(text)
			if st, ok := x.Type.(*ast.StructType); ok {
				s.fields(name, st)
			}
		case *ast.ValueSpec:
			id, ok := x.Type.(*ast.Ident)
			if !ok {
				continue
			}
			for _, v := range x.Values {
				if lit, ok := v.(*ast.BasicLit); ok && lit.Kind == token.STRING {
					word, _ := strconv.Unquote(lit.Value)
					s.constants[pkg+"."+id.Name] = append(s.constants[pkg+"."+id.Name], word)
				}
			}
		}
	}
}

func (s source) fields(name string, st *ast.StructType) {
	for _, f := range st.Fields.List {
		text := f.Doc.Text()
		if text == "" {
			text = f.Comment.Text()
		}
		for _, n := range f.Names {
			s.comments[name+"."+n.Name] = strings.TrimSpace(text)
		}
	}
}

// gather finds the structs that a type is made of, by name.
func gather(t reflect.Type, into map[string]reflect.Type) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		gather(t.Elem(), into)
	case reflect.Struct:
		if into[t.Name()] != nil {
			return
		}
		into[t.Name()] = t
		for i := range t.NumField() {
			gather(t.Field(i).Type, into)
		}
	}
}

// nullable lets pointers, lists and maps be null: a missing value is null with a reason.
func nullable(def *jsonschema.Schema, t reflect.Type) {
	if t == nil || def.Properties == nil {
		return
	}
	for _, f := range reflect.VisibleFields(t) { // those of embedded structs are among them
		switch f.Type.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
		default:
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		p, ok := def.Properties.Get(name)
		if !ok {
			continue
		}
		text := p.Description
		p.Description = ""
		def.Properties.Set(name, &jsonschema.Schema{Description: text, AnyOf: []*jsonschema.Schema{p, {Type: "null"}}})
	}
}
