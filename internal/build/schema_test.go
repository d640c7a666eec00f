package build

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/teescope/teescope/internal/schematest"
)

var update = flag.Bool("update", false, "write the schema again")

// TestSchema makes the schema from the type, its comments and constants.
func TestSchema(t *testing.T) {
	b, err := schematest.Document{Title: "teescope version", Value: &Info{}, Packages: []string{"build"}, Enums: true}.Schema()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("version.schema.json", b, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(b, Schema) {
		t.Error("version.schema.json is not what the type says; run `make generate`")
	}
}

// TestInfoMatchesItsSchema: the schema accepts what every kind of program prints, with all that it can say and with the least, and refuses
// what it cannot say.
func TestInfoMatchesItsSchema(t *testing.T) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("version.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("version.json")
	if err != nil {
		t.Fatal(err)
	}
	check := func(text string) error {
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		return schema.Validate(v)
	}
	for _, kind := range []Kind{Full, Agent, Client} {
		var out bytes.Buffer
		command := Command(&out, kind, "3.15.0")
		command.SetArgs([]string{"--json"})
		if err := command.Execute(); err != nil {
			t.Fatal(err)
		}
		if err := check(out.String()); err != nil {
			t.Errorf("the schema refuses what %s prints: %v\n%s", kind, err, &out)
		}
	}
	at := time.Date(2026, 11, 30, 4, 5, 6, 0, time.UTC)
	b, err := json.Marshal(Info{Version: "v0.1.0", Commit: ptr("abc"), CommittedAt: &at, Modified: ptr(false), Go: "go1.26.0", OS: "linux", Arch: "arm64", Kind: Full, Prometheus: ptr("3.15.0")})
	if err != nil {
		t.Fatal(err)
	}
	whole := string(b)
	if err := check(whole); err != nil {
		t.Errorf("the schema refuses %s: %v", whole, err)
	}
	for old, wrong := range map[string]string{`"full"`: `"half"`, `"modified":false`: `"modified":"no"`, `"commit":"abc"`: `"commit":1`, `"2026-11-30T04:05:06Z"`: `"yesterday"`, `"version":`: `"release":`} {
		if bad := strings.Replace(whole, old, wrong, 1); bad == whole || check(bad) == nil {
			t.Errorf("%s in the place of %s is taken: %s", wrong, old, bad)
		}
	}
}
