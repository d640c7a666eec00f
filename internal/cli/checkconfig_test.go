package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/teescope/teescope/internal/probe/sources"
)

// TestCheckConfig: the line and the key of a fault, and an exit status for scripts.
func TestCheckConfig(t *testing.T) {
	for text, want := range map[string]struct {
		code  int
		words string
	}{
		"":                            {exitOK, "no fault"},
		"analysis: {every: 30s}\n":    {exitOK, "no fault"},
		"notify:\n  min_severty: a\n": {exitRegression, "line 2: min_severty is not a known key"},
		"analysis:\n  own:\n  - {name: a, title: A, expr: 'up(', above: 1}\n":                      {exitRegression, "line 3: analysis.own[0].expr: rule a is not checked"},
		"analysis:\n  own:\n  - {name: a, title: A, expr: 'ours_total > 1', above: 1, unit: ''}\n": {exitOK, "rule a reads ours_total"},
		"a: [\n": {exitRegression, "line 1"},
	} {
		file := filepath.Join(t.TempDir(), "c.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		out, errs, code := run(t, "check-config", file, "--probes", t.TempDir())
		if code != want.code || !strings.Contains(out+errs, want.words) {
			t.Errorf("%q: status %d, %q and %q; want %d, %q", text, code, out, errs, want.code, want.words)
		}
	}
	if _, errs, code := run(t, "check-config", filepath.Join(t.TempDir(), "none.yaml")); code != exitUsage || !strings.Contains(errs, "none.yaml") {
		t.Errorf("without a file: status %d, %q", code, errs)
	}
	file := filepath.Join(t.TempDir(), "agent.yaml")
	if err := os.WriteFile(file, []byte("notify: {min_severity: info}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, errs, code := run(t, "check-config", "--agent", file, "--probes", t.TempDir()); code != exitRegression || !strings.Contains(errs, "line 1: notify") {
		t.Errorf("of an agent: status %d, %q", code, errs)
	}
}

// TestCheckConfigOfAPipe: what can be read once is read once.
func TestCheckConfigOfAPipe(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	_, err = w.WriteString("notify: {min_severty: a}\n")
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	out, errs, code := run(t, "check-config", fmt.Sprintf("/proc/self/fd/%d", r.Fd()), "--probes", t.TempDir())
	if code != exitRegression || !strings.Contains(errs, "min_severty is not a known key") {
		t.Errorf("status %d, %q and %q", code, out, errs)
	}
}

// TestCheckConfigReadsNoSecrets: the files of tls_config are read, so that a wrong one is a fault; other secrets are not.
func TestCheckConfigReadsNoSecrets(t *testing.T) {
	for settings, want := range map[string]int{
		"basic_auth: {username: u, password_file: /none}": exitOK,
		"authorization: {credentials_file: /none}":        exitOK,
		"headers_from: {X-Token: /none}":                  exitOK,
		"tls_config: {ca_file: /none}":                    exitRegression,
		"tls_config: {cert_file: /none, key_file: /none}": exitRegression,
	} {
		file := filepath.Join(t.TempDir(), "c.yaml")
		text := "notify: {webhooks: [{url: 'https://127.0.0.1:1/', " + settings + "}]}\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, errs, code := run(t, "check-config", file, "--probes", t.TempDir()); code != want {
			t.Errorf("%s: status %d, %q and %q; want %d", settings, code, out, errs, want)
		}
	}
}

// switchedOff begins a line of the sample that is switched off; prose has one space after its mark.
var switchedOff = regexp.MustCompile(`(?m)^#([^ \n]|  )`)

// TestSampleConfig: the sample is valid as it is and with every key switched on, and it has every key of the schema. Of Prometheus' own
// sections and HTTP settings, the keys below the first are not ours.
func TestSampleConfig(t *testing.T) {
	b, err := os.ReadFile("../../deploy/teescope.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(b), "\n\n")
	all := switchedOff.ReplaceAllString(text, "$1")
	for name, text := range map[string]string{"as it is": string(b), "with every key": all} {
		if _, err := parseConfig([]byte(text), t.TempDir(), sources.All); err != nil {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
	}
	var have any
	if err := yaml.Unmarshal([]byte(all), &have); err != nil {
		t.Fatal(err)
	}
	var schema map[string]any
	if err := json.Unmarshal(configSchema, &schema); err != nil {
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
