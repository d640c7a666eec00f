package rules

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/store/storetest"
)

const ownLoad = `load 5s
  depth{job="a",instance="vm1",queue="in"} 9x120
  depth{job="a",instance="vm1",queue="out$1\"<b>"} 3x100 7x20
  depth{job="a",instance="vm1",queue="new"} _x110 20x10
  depth{job="a",instance="vm1",queue="dip"} 9x87 1x4 9x28
  teescope_source_coverage_ratio{job="a",instance="vm1",source="partly"} 1x100 0.5x20
  teescope_source_coverage_ratio{job="a",instance="vm1",source="fully"} 1x120
`

// evaluateOwn evaluates once at 10m, as a monitor past its first window.
func evaluateOwn(t *testing.T, o Own) (findings.RuleStat, []findings.Record, *storetest.Store, time.Time) {
	t.Helper()
	at := time.Unix(600, 0)
	st := storetest.Load(t, ownLoad)
	opts := findings.DefaultOptions()
	opts.Now, opts.Started = func() time.Time { return at }, time.Unix(0, 0)
	w := max(o.For, opts.Windows.Short)
	opts.PerRule = map[string]findings.Windows{o.Name: {Long: w, Short: w}}
	e := findings.New([]*findings.Rule{o.Rule()}, st, opts)
	e.Evaluate(t.Context())
	return e.Rules()[0], e.Records(), st, at
}

// TestOwnEstimate: a value from a source that counted only part of the events has Medium confidence.
func TestOwnEstimate(t *testing.T) {
	for source, want := range map[string]findings.Confidence{"partly": findings.Medium, "fully": findings.High, "": findings.High} {
		t.Run(source, func(t *testing.T) {
			o := Own{Name: "deep_queue", Title: "Deep queue", Expr: `depth{queue="in"}`, Needs: []string{"depth"}, Limit: 5, Severity: findings.Warning}
			if source != "" {
				o.Sources = []string{"other", source}
			}
			_, recs, _, _ := evaluateOwn(t, o)
			if len(recs) != 1 || recs[0].Confidence != want {
				t.Errorf("source %q: %+v, want one finding of confidence %s", source, recs, want)
			}
		})
	}
}

func TestOwn(t *testing.T) {
	base := Own{Name: "deep_queue", Title: "Deep queue", Expr: "depth", Needs: []string{"depth"}, Limit: 5, Severity: findings.Warning}
	for _, tt := range []struct {
		name   string
		change func(*Own)
		want   []string // titles, ordered
	}{
		{"now", func(*Own) {}, []string{
			"Deep queue: 20 of vm1 new, above 5.",
			"Deep queue: 7 of vm1 out$1\"<b>, above 5.",
			"Deep queue: 9 of vm1 dip, above 5.",
			"Deep queue: 9 of vm1 in, above 5.",
		}},
		{"for a while", func(o *Own) { o.For, o.Subject = 5*time.Minute, "queue" }, []string{"Deep queue: 9 of in, above 5 for 5m."}},
		{"not for long enough", func(o *Own) { o.For, o.Limit = time.Minute, 15 }, nil}, // "new" is 50 s old
		{"for long enough", func(o *Own) { o.For, o.Limit, o.Subject = 45*time.Second, 15, "queue" }, []string{"Deep queue: 20 of new, above 15 for 45s."}},
		{"below", func(o *Own) {
			o.Below, o.Limit, o.Unit = true, 0.1, "ratio"
			o.Expr = "depth / 100"
			o.Subject = "{queue} of {instance}, {nothing}"
		},
			[]string{
				"Deep queue: 7 % of out$1\"<b> of vm1,, below 10 %.",
				"Deep queue: 9 % of dip of vm1,, below 10 %.",
				"Deep queue: 9 % of in of vm1,, below 10 %.",
			}},
		{"the worst stays", func(o *Own) { o.Subject = "instance" }, []string{"Deep queue: 20 of vm1, above 5."}},
		{"the worst below", func(o *Own) { o.Subject, o.Below, o.Limit = "instance", true, 8 }, []string{"Deep queue: 7 of vm1, below 8."}},
		{"no labels", func(o *Own) { o.Expr, o.Unit = "sum(depth)", "1/s" }, []string{"Deep queue: 45/s of deep_queue, above 5/s."}},
		{"infinite beside a number", func(o *Own) {
			o.Expr, o.Subject = `depth / (depth != 9) or depth{queue="in"} / 0`, "queue"
			o.Limit = 0
		}, []string{
			"Deep queue: 1 of new, above 0.",
			"Deep queue: 1 of out$1\"<b>, above 0.",
		}},
		{"silent", func(o *Own) { o.Limit = 50 }, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := base
			tt.change(&o)
			stat, recs, st, at := evaluateOwn(t, o)
			var titles []string
			for _, r := range recs {
				titles = append(titles, r.Title)
				if r.Remedy == "" || r.Reference == "" || r.Severity != o.Severity {
					t.Errorf("%+v", r.Finding)
				}
				for _, ev := range r.Evidence {
					points, err := st.Query(t.Context(), ev.Expr, at)
					if err != nil || len(points) != 1 || points[0].Value != ev.Value {
						t.Errorf("evidence %s gives %v, %v; want the one value %v", ev.Expr, points, err, ev.Value)
					}
				}
				if n := len(r.Evidence); n == 0 || o.For > 0 && n < 2 {
					t.Errorf("%d pieces of evidence", n)
				}
			}
			slices.Sort(titles)
			if !slices.Equal(titles, tt.want) {
				t.Errorf("rule is %s (%s) and says\n%s\nwant\n%s", stat.Answer, stat.Reason, strings.Join(titles, "\n"), strings.Join(tt.want, "\n"))
			}
		})
	}
}

// TestOwnEnded: a finding whose series ended reports its last value.
func TestOwnEnded(t *testing.T) {
	o := Own{Name: "deep_queue", Title: "Deep queue", Expr: `depth{queue="in"} and on () (vector(time()) < 600)`, Subject: "queue", Limit: 5, For: time.Minute}
	_, recs, _, _ := evaluateOwn(t, o)
	if want := "Deep queue: 9 of in, above 5 for 1m."; len(recs) != 1 || recs[0].Title != want {
		t.Errorf("got %+v, want %s", recs, want)
	}
}

func TestOwnCannotTell(t *testing.T) {
	for want, o := range map[string]Own{
		"the metric absent_metric has no reading": {Name: "a", Expr: "absent_metric", Needs: []string{"absent_metric"}},
		"depth / 0 is infinite for ":              {Name: "d", Expr: "depth / 0"},
		"it does not parse":                       {Name: "b", Expr: "sum(", Broken: errors.New("it does not parse")},
		"query (sum()":                            {Name: "c", Expr: "sum("},
	} {
		t.Run(want, func(t *testing.T) {
			if stat, recs, _, _ := evaluateOwn(t, o); stat.Answer != findings.CannotTell || !strings.HasPrefix(stat.Reason, want) || len(recs) != 0 {
				t.Errorf("%s is %s: %s; want %s", o.Name, stat.Answer, stat.Reason, want)
			}
		})
	}
}
