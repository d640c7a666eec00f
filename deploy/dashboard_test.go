package deploy

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
)

type dashboard struct {
	UID, Title string
	Panels     []struct {
		ID         int
		Title      string
		Type       string
		Datasource struct{ UID string }
		Targets    []struct{ Expr string }
	}
	Annotations struct {
		List []struct{ Name, Expr string }
	}
	Templating struct {
		List []struct {
			Name  string
			Query any // a word, or an object with a query of its own
		}
	}
}

// emitted are the names of all metrics: those of the generated list, and those of
// benchmark results in OpenMetrics, of which the format's golden files have all.
func emitted(t *testing.T) map[string]bool {
	t.Helper()
	known := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-zA-Z_:][a-zA-Z0-9_:]*)`").FindAllStringSubmatch(string(read(t, "../docs/metrics.md")), -1) {
		known[m[1]] = true
	}
	golden, err := filepath.Glob("../internal/report/formats/testdata/*.openmetrics")
	if err != nil || len(golden) == 0 || len(known) == 0 {
		t.Fatalf("docs/metrics.md lists %d metrics, and %d golden files have benchmark results: %v", len(known), len(golden), err)
	}
	for _, file := range golden {
		for _, m := range regexp.MustCompile(`(?m)^(teescope_bench\w*)\{`).FindAllStringSubmatch(string(read(t, file)), -1) {
			known[m[1]] = true
		}
	}
	return known
}

// TestDashboards parses every query and looks its metrics up in the generated
// list, so that a dashboard cannot ask for what nothing emits.
func TestDashboards(t *testing.T) {
	known, uids := emitted(t), map[string]bool{}
	files, err := filepath.Glob("grafana/dashboards/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no dashboards: %v", err)
	}
	for _, name := range files {
		var d dashboard
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(b, &d); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if d.UID == "" || uids[d.UID] {
			t.Errorf("%s: uid %q is empty or another dashboard's", name, d.UID)
		}
		uids[d.UID] = true
		variables := map[string]bool{"__rate_interval": true}
		for _, v := range d.Templating.List {
			variables[v.Name] = true
			q, _ := v.Query.(map[string]any)
			if text, ok := q["query"].(string); ok {
				selector := labelValues.FindStringSubmatch(text)
				if selector == nil {
					t.Errorf("%s: variable %s: %q is no label_values(SELECTOR, LABEL)", name, v.Name, text)
					continue
				}
				checkExpr(t, name+": variable "+v.Name, selector[1], variables, known)
			}
		}
		if len(d.Annotations.List) == 0 {
			t.Errorf("%s: findings are not marked", name)
		}
		for _, a := range d.Annotations.List {
			checkExpr(t, name+": annotation "+a.Name, a.Expr, variables, known)
		}
		seen := map[int]bool{}
		queries := 0
		for _, p := range d.Panels {
			if seen[p.ID] {
				t.Errorf("%s: %s: panel id %d is used twice", name, p.Title, p.ID)
			}
			seen[p.ID] = true
			if p.Type != "row" && len(p.Targets) == 0 {
				t.Errorf("%s: %s: no query", name, p.Title)
			}
			for _, q := range p.Targets {
				queries++
				checkExpr(t, name+": "+p.Title, q.Expr, variables, known)
			}
		}
		if queries == 0 {
			t.Errorf("%s: no panel has a query", name)
		}
	}
}

// labelValues is the query of a variable, with its selector.
var labelValues = regexp.MustCompile(`^label_values\((.+), \w+\)$`)

var variable = regexp.MustCompile(`\$\{?(\w+)\}?`)

func checkExpr(t *testing.T, where, expr string, variables, known map[string]bool) {
	t.Helper()
	plain := variable.ReplaceAllStringFunc(expr, func(s string) string {
		v := variable.FindStringSubmatch(s)[1]
		if !variables[v] {
			t.Errorf("%s: no variable $%s", where, v)
		}
		if strings.HasSuffix(v, "interval") {
			return "1m"
		}
		return "x"
	})
	e, err := parser.NewParser(parser.Options{}).ParseExpr(plain)
	if err != nil {
		t.Errorf("%s: %s: %v", where, expr, err)
		return
	}
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		v, ok := n.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		if v.Name == "" {
			checkNames(t, where, v, known)
			return nil
		}
		base := v.Name
		for _, part := range []string{"_bucket", "_sum", "_count"} { // the series of a histogram
			if b, ok := strings.CutSuffix(v.Name, part); ok && known[b] {
				base = b
			}
		}
		if !known[base] {
			t.Errorf("%s: nothing emits %s", where, v.Name)
		}
		return nil
	})
}

// checkNames holds for a selector of several metrics: some metric matches it.
func checkNames(t *testing.T, where string, v *parser.VectorSelector, known map[string]bool) {
	t.Helper()
	for _, m := range v.LabelMatchers {
		if m.Name != "__name__" {
			continue
		}
		for name := range known {
			if m.Matches(name) {
				return
			}
		}
	}
	t.Errorf("%s: no metric matches %s", where, v)
}
