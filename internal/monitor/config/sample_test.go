package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/teescope/teescope/internal/probe/sources"
)

// switchedOff begins a line of the sample that is switched off; prose has one space after its mark.
var switchedOff = regexp.MustCompile(`(?m)^#([^ \n]|  )`)

// TestSampleConfig: the sample is valid as it is and with every key switched on, and it has every key of the schema. Of Prometheus' own
// sections and HTTP settings, the keys below the first are not ours.
func TestSampleConfig(t *testing.T) {
	b, err := os.ReadFile("../../../deploy/teescope.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(b), "\n\n")
	all := switchedOff.ReplaceAllString(text, "$1")
	for name, text := range map[string]string{"as it is": string(b), "with every key": all} {
		t.Run(name, func(t *testing.T) {
			if _, err := Parse([]byte(text), t.TempDir(), sources.All); err != nil {
				t.Errorf("%s: %v\n%s", name, err, text)
			}
		})
	}
	var have any
	if err := yaml.Unmarshal([]byte(all), &have); err != nil {
		t.Fatal(err)
	}
	var schema map[string]any
	if err := json.Unmarshal(Schema, &schema); err != nil {
		t.Fatal(err)
	}
	k := keys{defs: schema["$defs"].(map[string]any), used: map[string]map[string]bool{}}
	k.walk(schema, have)
	delete(k.used, "")
	if len(k.used) < 8 {
		t.Fatalf("only %d kinds of sections are used", len(k.used))
	}
	for _, def := range slices.Sorted(maps.Keys(k.used)) {
		if !strings.HasSuffix(def, "Config") && !slices.Contains([]string{"config", "Setting", "Dashboard", "Panel"}, def) || strings.HasPrefix(def, "TLS") {
			continue
		}
		for name := range k.defs[def].(map[string]any)["properties"].(map[string]any) {
			if !k.used[def][name] && name != "bearer_token" {
				t.Errorf("deploy/teescope.yaml has no %s of %s", name, def)
			}
		}
	}
}

// keys are those of a document, by the definition of the schema that they belong to.
type keys struct {
	defs map[string]any
	used map[string]map[string]bool
}

func (k keys) walk(schema any, v any) {
	s, ok := schema.(map[string]any)
	if !ok {
		return
	}
	name := ""
	if ref, ok := s["$ref"].(string); ok {
		name = strings.TrimPrefix(ref, "#/$defs/")
		s = k.defs[name].(map[string]any)
	}
	if k.used[name] == nil {
		k.used[name] = map[string]bool{}
	}
	for _, either := range []string{"anyOf", "oneOf"} {
		list, _ := s[either].([]any)
		for _, o := range list {
			k.walk(o, v)
		}
	}
	switch v := v.(type) {
	case []any:
		for _, x := range v {
			k.walk(s["items"], x)
		}
	case map[string]any:
		properties, _ := s["properties"].(map[string]any)
		for key, x := range v {
			k.used[name][fmt.Sprint(key)] = true
			if p, ok := properties[key]; ok {
				k.walk(p, x)
			} else {
				k.walk(s["additionalProperties"], x)
			}
		}
	}
}
