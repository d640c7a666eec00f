package launchers

import (
	"bytes"
	"os"
	"reflect"
	"testing"

	"github.com/invopop/jsonschema"

	"github.com/teescope/teescope/internal/schematest"
)

// TestTemplateSchema makes the schema from the type and its comments.
func TestTemplateSchema(t *testing.T) {
	texts := func(t reflect.Type) *jsonschema.Schema {
		switch t {
		case reflect.TypeFor[words]():
			return &jsonschema.Schema{Type: "string", Description: "Text with {work}, {data}, {job}, {program}, {name}, {argv}, {args} and {params.NAME}."}
		case reflect.TypeFor[pattern]():
			return &jsonschema.Schema{Type: "string", Format: "regex", Description: "A regular expression (RE2); ^ and $ match at lines."}
		}
		return nil
	}
	b, err := schematest.Document{Title: "teescope command template", Value: &template{}, Packages: []string{"bench/launchers"}, Internal: "../..",
		YAML: true, Special: texts}.Schema()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("template.schema.json", b, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(b, TemplateSchema) {
		t.Error("template.schema.json is not what the type says; run `make generate`")
	}
}
