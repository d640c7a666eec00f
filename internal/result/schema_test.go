package result

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/teescope/teescope/internal/schematest"
)

var update = flag.Bool("update", false, "write the generated schema")

// TestSchemaFile makes the schema from the types and their comments.
func TestSchemaFile(t *testing.T) {
	b, err := schematest.Document{Title: "teescope result " + SchemaVersion, Value: &Experiment{}, Packages: []string{"result"}}.Schema()
	if err != nil {
		t.Fatal(err)
	}
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

// TestPanicInResult: a document that the reader cannot bear is an error with the name of the file, and the others are
// listed.
func TestPanicInResult(t *testing.T) {
	a := &Archive{Dir: t.TempDir()}
	e := sample()
	add := func(id string) string {
		e.ID = id
		name, err := a.Add(e)
		if err != nil {
			t.Fatal(err)
		}
		return name
	}
	add("sound")
	if all, err := a.List(); err != nil || len(all) != 1 {
		t.Fatalf("%v, %v", all, err)
	}
	name := add("broken")
	old := compiled
	t.Cleanup(func() { compiled = old })
	compiled = func() (*jsonschema.Schema, error) { panic("planted") }
	want := "read " + name + ": reading a result crashed: planted (schema_test.go:"
	if _, err := Read(name); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
	if all, err := a.List(); err == nil || !strings.HasPrefix(err.Error(), want) || len(all) != 1 {
		t.Errorf("%d are listed, %v", len(all), err)
	}
}
