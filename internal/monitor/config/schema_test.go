package config

import (
	"bytes"
	"flag"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/invopop/jsonschema"
	httpconfig "github.com/prometheus/common/config"
	validator "github.com/santhosh-tekuri/jsonschema/v6"
	"gopkg.in/yaml.v3"

	"github.com/teescope/teescope/internal/probe/sources"
	"github.com/teescope/teescope/internal/schematest"
)

var update = flag.Bool("update", false, "write the schema")

// TestConfigSchema generates the schema from the types, their comments and constants.
func TestConfigSchema(t *testing.T) {
	b, err := schematest.Document{Title: "teescope configuration", Value: &Config{}, Packages: []string{"monitor/config", "findings", "observe", "probe", "web"}, Internal: "../..",
		YAML: true, Enums: true, Special: scalars}.Schema()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("config.schema.json", b, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(b, Schema) {
		t.Error("config.schema.json is not what the types say; run `make generate`")
	}
}

// scalars are the types that decode themselves from YAML.
func scalars(t reflect.Type) *jsonschema.Schema {
	switch t {
	case reflect.TypeFor[time.Duration]():
		return &jsonschema.Schema{Type: "string", Pattern: `^([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h)`, Examples: []any{"15s", "5m"}}
	case reflect.TypeFor[yaml.Node](): // an amount with its unit, or one of Prometheus' sections
		return &jsonschema.Schema{}
	case reflect.TypeFor[httpconfig.URL]():
		return &jsonschema.Schema{Type: "string"}
	case reflect.TypeFor[httpconfig.TLSVersion]():
		s := &jsonschema.Schema{Type: "string"}
		for _, name := range slices.Sorted(maps.Keys(httpconfig.TLSVersions)) {
			s.Enum = append(s.Enum, name)
		}
		return s
	case reflect.TypeFor[httpconfig.Headers]():
		r := jsonschema.Reflector{FieldNameTag: "yaml", RequiredFromJSONSchemaTags: true, DoNotReference: true, Anonymous: true}
		s := r.Reflect(map[string]httpconfig.Header{})
		s.Version = ""
		return s
	}
	return nil
}

// TestConfigMatchesItsSchema: schema and program accept every configuration shown in
// the documents, and both refuse the same mistakes.
func TestConfigMatchesItsSchema(t *testing.T) {
	doc, err := validator.UnmarshalJSON(bytes.NewReader(Schema))
	if err != nil {
		t.Fatal(err)
	}
	c := validator.NewCompiler()
	if err := c.AddResource("config.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("config.json")
	if err != nil {
		t.Fatal(err)
	}
	check := func(text string) error {
		var v any
		if err := yaml.Unmarshal([]byte(text), &v); err != nil {
			t.Fatal(err)
		}
		return schema.Validate(v)
	}
	examples := map[string]string{"no key": "{}"}
	for _, file := range []string{"README.md", "docs/budget.md", "docs/explain.md", "docs/findings.md", "docs/rules.md"} {
		for _, e := range yamlBlocks(t, "../../../"+file) {
			key, _, _ := strings.Cut(e, ":")
			examples[file+" "+key] = e
		}
	}
	for _, want := range []string{"README.md scrape_configs", "docs/budget.md sources", "docs/explain.md requests", "docs/findings.md notify", "docs/findings.md dashboards", "docs/rules.md analysis"} {
		if examples[want] == "" {
			t.Errorf("no example of %s", want)
		}
	}
	for name, text := range examples {
		if err := check(text); err != nil {
			t.Errorf("%s: the schema refuses it: %v", name, err)
		}
		if _, err := Parse([]byte(text), ".", sources.All); err != nil {
			t.Errorf("%s: the program refuses it: %v", name, err)
		}
	}
	for name, text := range map[string]string{
		"an unknown section":  "surces: {}",
		"an unknown key":      "analysis: {evry: 15s}",
		"no time":             "analysis: {every: soon}",
		"no switch":           "sources: {syscalls: {on: sometimes}}",
		"no severity":         "notify: {min_severity: grave}",
		"a severity of rules": "analysis: {own: [{name: a, expr: up, above: 1, severity: grave}]}",
		"an unknown kind":     "dashboards: [{name: a, panels: [{title: b, query: up, kind: pie}]}]",
		"a TLS of no version": "notify: {webhooks: [{url: https://a.example, tls_config: {min_version: TLS9}}]}",
		"a header with a key": "notify: {webhooks: [{url: https://a.example, http_headers: {X-A: {valeus: [a]}}}]}",
		"a list for a text":   "requests: [{process: [a], app: redis, address: 127.0.0.1:1}]",
	} {
		t.Run(name, func(t *testing.T) {
			if check(text) == nil {
				t.Errorf("%s: the schema takes %s", name, text)
			}
			if _, err := Parse([]byte(text), ".", sources.All); err == nil {
				t.Errorf("%s: the program takes %s", name, text)
			}
		})
	}
}

// yamlBlocks are the examples in a document.
func yamlBlocks(t *testing.T, file string) []string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for i, part := range strings.Split(string(b), "```") {
		if text, ok := strings.CutPrefix(part, "yaml\n"); ok && i%2 == 1 {
			out = append(out, text)
		}
	}
	return out
}
