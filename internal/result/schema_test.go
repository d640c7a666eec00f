package result

import (
	"bytes"
	"flag"
	"os"
	"testing"

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
