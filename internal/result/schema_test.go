package result

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/invopop/jsonschema"
)

var update = flag.Bool("update", false, "write the generated schema")

// TestSchemaFile makes the schema from the types and their comments.
func TestSchemaFile(t *testing.T) {
	r := jsonschema.Reflector{
		BaseSchemaID:              "https://github.com/teescope/teescope/schema",
		AllowAdditionalProperties: true, // a newer minor version may add fields
	}
	if err := r.AddGoComments("github.com/teescope/teescope/internal/result", "."); err != nil {
		t.Fatal(err)
	}
	s := r.Reflect(&Experiment{})
	s.Title, s.Version = "teescope result "+SchemaVersion, jsonschema.Version
	types := map[string]reflect.Type{}
	gather(reflect.TypeFor[Experiment](), types)
	for name, def := range s.Definitions {
		nullable(def, types[name])
	}
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	b = append(b, '\n')
	if *update {
		if err := os.WriteFile("schema.json", b, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(b, Schema) {
		t.Error("schema.json is not what the types say; run `make generate`")
	}
}

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
	for i := range t.NumField() {
		f := t.Field(i)
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
		doc := p.Description
		p.Description = ""
		def.Properties.Set(name, &jsonschema.Schema{Description: doc, AnyOf: []*jsonschema.Schema{p, {Type: "null"}}})
	}
}
