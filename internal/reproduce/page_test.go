package reproduce

import (
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/stats"
)

// measuredCups is a result of experiment e1 with a baseline and one arm, whose protection is of a kind.
func measuredCups(id, label, kind string, base, value, cost float64) *result.Experiment {
	p := func(v float64) *float64 { return &v }
	e := &result.Experiment{ID: id, Name: "e1", StartedAt: time.Unix(int64(len(id)), 0),
		Workload: result.Workload{Name: "kettle", Metrics: []result.MetricDesc{{Name: "seconds", Unit: "seconds", Better: "lower"}}},
		Cases:    []result.Case{{ID: "size=1", Params: map[string]string{"size": "1"}}},
		Environments: []result.Environment{{ID: "native", Role: result.Baseline, TEE: result.TEE{Type: "none"}},
			{ID: label, Role: result.Treatment, TEE: result.TEE{Type: kind, Active: kind != "none"}}},
		Comparisons: []result.Comparison{{Baseline: "native", Treatment: label, Case: "size=1", Metric: "seconds", Primary: true, Ratio: p(cost), Cost: p(cost), CostLow: p(cost * 0.9), CostHigh: p(cost * 1.1),
			Pairs: 6, Grade: result.GradeA, Verdict: stats.Cost, Margin: 0.03}},
	}
	for i := range 3 {
		for env, v := range map[string]float64{"native": base, label: value} {
			e.Runs = append(e.Runs, result.Run{Env: env, Case: "size=1", Pair: i, Status: result.OK, Metrics: []result.Metric{{Name: "seconds", Value: p(v), Source: result.Measured}}})
		}
	}
	return e
}

func composed(t *testing.T, docs ...*result.Experiment) *Page {
	t.Helper()
	s, err := Load("cups", []byte(good))
	if err != nil {
		t.Fatal(err)
	}
	p, err := Compose(s, NewResults(docs, map[string]string{"a": "a.json", "bb": "b.json"}, []string{"e1"}), func(string) ([]byte, error) { return nil, nil })
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestCompose: what a published value becomes without a result, with a TEE, and with something else in its place.
func TestCompose(t *testing.T) {
	for name, c := range map[string]struct {
		docs  []*result.Experiment
		want  map[State]int
		texts []string
	}{
		"nothing was run": {nil, map[State]int{NoResult: 3, NoAnswer: 2}, []string{"no result yet: `teescope bench run e1`", "nothing was run yet", "5 published values: 3 not run yet, 2 hardware."}},
		"in a TEE": {[]*result.Experiment{measuredCups("a", "guest", "tdx", 0.001, 0.0012, 1.2)}, map[State]int{Answered: 3, NoAnswer: 2},
			[]string{"| small | seconds | 1 ms | 1.2 ms (1.2x [1.080, 1.32], grade A) |", "Guest costs 1.2x", "From a.json"}},
		"in gVisor": {[]*result.Experiment{measuredCups("a", "runsc", "none", 0.001, 0.0012, 1.2)}, map[State]int{Answered: 1, StandIn: 2, NoAnswer: 2},
			[]string{"Not tested here: no TEE took part."}},
		"an arm that came later": {[]*result.Experiment{measuredCups("a", "runsc", "none", 0.001, 0.0012, 1.2), measuredCups("bb", "guest", "tdx", 0.001, 0.0015, 1.5)},
			map[State]int{Answered: 3, NoAnswer: 2}, []string{"| native | guest | runsc |", "From b.json, a.json"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := composed(t, c.docs...)
			for s, n := range c.want {
				if p.Counts[s] != n {
					t.Errorf("%d values are %s, want %d: %v", p.Counts[s], s, n, p.Counts)
				}
			}
			md := string(p.Markdown())
			html, err := p.HTML()
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range c.texts {
				if !strings.Contains(md, want) {
					t.Errorf("the page has no %q:\n%s", want, md)
				}
			}
			for _, published := range []string{"1,000 us", "1..2", "n/a"} {
				if !strings.Contains(md, published) || !strings.Contains(string(html), published) {
					t.Errorf("a page lacks the published %q", published)
				}
			}
		})
	}
}

// TestRefused: a refused comparison gives its reason and no number.
func TestRefused(t *testing.T) {
	e := measuredCups("a", "guest", "tdx", 0.001, 0.0012, 1.2)
	e.Comparisons[0].Verdict, e.Comparisons[0].Reasons = stats.Invalid, []string{"the client was the bottleneck"}
	md := string(composed(t, e).Markdown())
	if !strings.Contains(md, "the client was the bottleneck") || strings.Contains(md, "1.2x") {
		t.Errorf("a refused comparison:\n%s", md)
	}
}

// TestAverage: the mean of a ratio over cases is geometric, and leaves out what was refused.
func TestAverage(t *testing.T) {
	e := measuredCups("a", "guest", "tdx", 0.001, 0.004, 4)
	second := e.Comparisons[0]
	one := 1.0
	second.Case, second.Cost = "size=2", &one
	e.Comparisons = append(e.Comparisons, second)
	r := NewResults([]*result.Experiment{e}, nil, []string{"e1"})
	m := r.Lookup("all", Answer{Experiment: "e1", Case: AllCases, Metric: "seconds", Arm: Cost})
	if state, text := fill(Answer{Experiment: "e1", Case: AllCases, Metric: "seconds", Arm: Cost}, &m); state != Answered || text != "2x, mean of 2 cases" {
		t.Errorf("%s %q", state, text)
	}
}

// TestDrawing: a figure's bars, in two panels; names are escaped.
func TestDrawing(t *testing.T) {
	s, err := Load("cups", []byte(strings.NewReplacer("kind: table", "kind: figure", "name: small", `name: "<b>"`).Replace(good)))
	if err != nil {
		t.Fatal(err)
	}
	p, err := Compose(s, NewResults(nil, nil, nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	d := string(p.Tables[0].Drawing())
	if !strings.Contains(d, "&lt;b&gt;") || strings.Contains(d, "<b>") || strings.Count(d, `height="12"`) != 3 || !strings.Contains(d, "nothing was run yet") {
		t.Errorf("the drawing is\n%s", d)
	}
	if composed(t).Tables[0].Drawing() != "" {
		t.Error("a table has a drawing")
	}
}
