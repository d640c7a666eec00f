package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/teescope/teescope/internal/await"
)

// TestOwnRules: of the user's rules one holds, one has an expression that PromQL refuses, and one reads a metric that
// does not exist. The last two are named in the log with their lines and are not checked; the first still opens its
// finding, and a built-in rule that is off is gone.
func TestOwnRules(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "teescope.yaml")
	if err := os.WriteFile(file, []byte(`analysis:
  every: 1s
  rules:
    pressure: {off: true}
    syscall_storm: {thresholds: {rate: 1M/s}}
  own:
  - name: uptime
    title: Machine runs
    expr: node_time_seconds - node_boot_time_seconds
    above: 1s
    for: 10s
    severity: info
    subject: "{instance}, a machine"
  - {name: refused, expr: "sum(", above: 1}
  - {name: nobodys, expr: nobodys_metric, above: 20 %}
  close_after: 5s
`), 0o644); err != nil {
		t.Fatal(err)
	}
	m := startMonitor(t, "monitor", "--interval", "1s", "--config", file)
	for _, want := range []string{"line 14: analysis.own[1].expr: rule refused is not checked", "line 15: analysis.own[2].expr: rule nobodys reads nobodys_metric"} {
		await.Event(t, "the log names the rule", func() error { // its output may arrive late
			if !strings.Contains(m.Err.String(), want) {
				return fmt.Errorf("the log lacks %q:\n%s", want, m.Err)
			}
			return nil
		})
	}
	await.Event(t, "the rule that holds opens its finding", func() error {
		for _, f := range m.findings(t) {
			if f.Rule == "uptime" && f.State == "open" && strings.HasSuffix(f.Subject, ", a machine") && strings.HasSuffix(f.Title, "above 1 s for 10s.") {
				return nil
			}
		}
		return fmt.Errorf("none among %+v", m.findings(t))
	})
	await.Event(t, "each rule says what it found", func() error { // one cannot tell while a reading is late
		body, err := fetch(m.url + "/api/teescope/v1/findings")
		if err != nil {
			return err
		}
		conforms(t, body, "findings")
		var a struct {
			Rules []struct{ Name, Answer, Reason string }
		}
		if err := json.Unmarshal([]byte(body), &a); err != nil {
			t.Fatal(err)
		}
		reasons := map[string]string{}
		for _, r := range a.Rules {
			reasons[r.Name] = r.Answer + ": " + r.Reason
		}
		for name, want := range map[string]string{
			"refused": "cannot tell: parse the expression",
			"nobodys": "cannot tell: the metric nobodys_metric has no reading in the last 1m: neither a source of this monitor nor a scraped target emits this metric",
			"uptime":  "fires",
		} {
			if !strings.HasPrefix(reasons[name], want) {
				return fmt.Errorf("rule %s is %q, want %q", name, reasons[name], want)
			}
		}
		if r, there := reasons["pressure"]; there {
			t.Errorf("a rule that is off is %s", r)
		}
		return nil
	})

	// Changed rules and thresholds apply once the file has been read again.
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.NewReplacer("pressure: {off: true}", "pressure: {off: false}", "above: 1s", "above: 1000000h").Replace(string(b))
	if err := os.WriteFile(file, []byte(changed), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := m.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	await.Event(t, "the rule that was off looks, and the finding closes", func() error {
		body, err := fetch(m.url + "/api/teescope/v1/findings")
		if err != nil || !strings.Contains(body, `"name":"pressure"`) {
			return fmt.Errorf("no rule pressure: %v; the log is:\n%s", err, m.Err)
		}
		for _, f := range m.findings(t) {
			if f.Rule == "uptime" && f.State == "open" {
				return fmt.Errorf("still open: %+v", f)
			}
		}
		return nil
	})
}

// conforms checks an answer of the API with the schema that the program prints.
func conforms(t *testing.T, answer, document string) {
	t.Helper()
	printed, errs, code := run(t, "schema", document)
	if code != 0 {
		t.Fatalf("schema %s: status %d: %s", document, code, errs)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	var docs [2]any
	for i, text := range []string{printed, answer} {
		var err error
		if docs[i], err = jsonschema.UnmarshalJSON(strings.NewReader(text)); err != nil {
			t.Fatalf("%v in %s", err, text)
		}
	}
	if err := c.AddResource(document, docs[0]); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile(document)
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(docs[1]); err != nil {
		t.Errorf("%v in %s", err, answer)
	}
}
