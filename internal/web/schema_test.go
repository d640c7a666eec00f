package web

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/query"
	"github.com/teescope/teescope/internal/schematest"
)

// TestFindingsSchema makes the schema from the types, their comments and constants.
func TestFindingsSchema(t *testing.T) {
	b, err := schematest.Document{Title: "teescope findings", Value: &Findings{}, Packages: []string{"web", "findings", "query", "rivals"}, Enums: true}.Schema()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("findings.schema.json", b, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(b, FindingsSchema) {
		t.Error("findings.schema.json is not what the types say; run `make generate`")
	}
}

// TestFindingsMatchTheirSchema: the schema accepts the API's answers and rejects what a finding cannot be.
func TestFindingsMatchTheirSchema(t *testing.T) {
	until := time.UnixMilli(9000)
	h := served(func(o *Options) {
		o.Findings = func(context.Context, query.Machine) (Findings, error) {
			return Findings{Rules: []findings.RuleStat{{Name: "heat", Answer: findings.CannotTell, Reason: "no metric", Needs: []string{"heat"}}}, At: until,
				Problems: findings.Problems([]findings.Record{{ID: "b", State: findings.Open, Finding: findings.Finding{Severity: findings.Warning}}}),
				Summary:  findings.Summarize(nil, nil, until, time.Time{})}, nil
		}
		o.History = func(context.Context, findings.Filter) ([]findings.Record, error) {
			return []findings.Record{
				{ID: "a", State: findings.Closed, Since: time.UnixMilli(1000), LastSeen: until, Until: &until, Silenced: "s",
					Finding: findings.Finding{Rule: "heat", Machine: query.Machine{Job: "agents", Instance: "node-2"}, Subject: "redis", Title: "Hot.", Severity: findings.Warning, Confidence: findings.Low,
						Share: &[2]float64{0.1, 0.2}, Cost: "A tenth.", Evidence: []query.Evidence{{Text: "it is", Expr: "up"}}}},
				{ID: "b", State: findings.Open, Finding: findings.Finding{Severity: findings.Info, Confidence: findings.High}},
			}, nil
		}
	})
	schema := compile(t, FindingsSchema)
	check := func(answer string) error {
		t.Helper()
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(answer))
		if err != nil {
			t.Fatal(err)
		}
		return schema.Validate(v)
	}
	for _, target := range []string{"findings", "findings?limit=3"} {
		w := do(h, "GET", "/api/teescope/v1/"+target, "")
		if err := check(w.Body.String()); w.Code != 200 || err != nil {
			t.Errorf("%s: %d: %v\n%s", target, w.Code, err, w.Body)
		}
	}
	good := do(h, "GET", "/api/teescope/v1/findings?limit=3", "").Body.String()
	for old, wrong := range map[string]string{`"warning"`: `"grave"`, `"state":"open"`: `"state":1`, `[0.1,0.2]`: `[0.1]`, `"subject":`: `"object":`} {
		bad := strings.ReplaceAll(good, old, wrong)
		if bad == good || check(bad) == nil {
			t.Errorf("%s in the place of %s is taken: %s", wrong, old, bad)
		}
	}
}

func compile(t *testing.T, text []byte) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}
