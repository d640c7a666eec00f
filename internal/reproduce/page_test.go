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
	p, err := Compose(s, NewResults(docs, map[string]string{"a": "a.json", "bb": "b.json"}, nil), func(string) ([]byte, error) { return nil, nil })
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
		"nothing was run": {nil, map[State]int{NoResult: 3, NoAnswer: 2}, []string{"no result yet: `teescope bench run e1`", "no result has it", "5 published values: 3 not run yet, 2 hardware. A cost above 1 is worse."}},
		"in a TEE": {[]*result.Experiment{measuredCups("a", "guest", "tdx", 0.001, 0.0012, 1.2)}, map[State]int{Answered: 3, NoAnswer: 2},
			[]string{"| small | seconds | 1 ms | 1.2 ms (1.2x [1.080, 1.32], grade A) |", "guest costs 1.2x", "| native | guest (tdx) |", "From a.json"}},
		"in gVisor": {[]*result.Experiment{measuredCups("a", "runsc", "none", 0.001, 0.0012, 1.2)}, map[State]int{Answered: 1, StandIn: 2, NoAnswer: 2},
			[]string{"Not tested here: no TEE took part."}},
		"an arm that came later": {[]*result.Experiment{measuredCups("a", "runsc", "none", 0.001, 0.0012, 1.2), measuredCups("bb", "guest", "tdx", 0.001, 0.0015, 1.5)},
			map[State]int{Answered: 3, NoAnswer: 2}, []string{"| native | guest (tdx) | runsc |", "From b.json, a.json", "native, guest (tdx) from b.json; runsc from a.json"}},
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

// TestRowsAreArms: a row that is an arm of the document has its own numbers; one whose arm did not run says so, and a stand-in is shown once.
func TestRowsAreArms(t *testing.T) {
	s, err := Load("cups", []byte(`
title: Cups
citation: somewhere
tables:
  - id: t
    title: Cups by kettle
    kind: table
    experiment: e1
    case: size=1
    metric: seconds
    columns: [{name: time, unit: ms}]
    rows:
      - {name: stove, arm: plain, published: ["1"]}
      - {name: copper, arm: tdx, env: copper, published: ["2"]}
      - {name: steel, arm: tdx, env: steel, published: ["3"]}
`))
	if err != nil {
		t.Fatal(err)
	}
	const stove = "| stove | seconds | 1 ms |  |"
	for name, c := range map[string]struct {
		label, kind string
		rows        []string
	}{
		"both stand in": {"runsc", "none", []string{stove, "| copper (not run: no arm copper) | seconds |  | 1.2 ms (1.2x [1.080, 1.32], grade A) |",
			"| steel | seconds | not run: no arm steel; its stand-in runsc is above | |"}},
		"one ran":              {"steel", "tdx", []string{stove, "| copper | seconds | not run: no arm copper | |", "| steel | seconds |  | 1.2 ms (1.2x [1.080, 1.32], grade A) |"}},
		"an arm of no row ran": {"iron", "tdx", []string{"| stove | seconds | 1 ms | 1.2 ms (1.2x [1.080, 1.32], grade A) |", "| copper | seconds | not run: no arm copper | |", "| steel | seconds | not run: no arm steel | |"}},
	} {
		t.Run(name, func(t *testing.T) {
			e := measuredCups("a", c.label, c.kind, 0.001, 0.0012, 1.2)
			p, err := Compose(s, NewResults([]*result.Experiment{e}, nil, nil), nil)
			if err != nil {
				t.Fatal(err)
			}
			if md := string(p.Markdown()); !strings.Contains(md, strings.Join(c.rows, "\n")) {
				t.Errorf("no rows\n%s\nin\n%s", strings.Join(c.rows, "\n"), md)
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

// TestAverage: the mean of a ratio over cases is geometric, says how many cases it has, and is refused unless all are decided. Comparisons
// with another environment than the result's first are no part of it.
func TestAverage(t *testing.T) {
	a := Answer{Experiment: "e1", Case: AllCases, Metric: "seconds", Arm: Cost, TEE: "tdx"}
	lookup := func(e *result.Experiment) (State, string) {
		m := NewResults([]*result.Experiment{e}, nil, nil).Lookup("all", a)
		return fill(a, &m), m.text("guest (tdx)")
	}
	e := measuredCups("a", "guest", "tdx", 0.001, 0.004, 4)
	e.Cases = append(e.Cases, result.Case{ID: "size=2"})
	if state, text := lookup(e); state != Refused || text != "refused: 1 of 2 cases decided" {
		t.Errorf("one case of two: %s %q", state, text)
	}
	second, other := e.Comparisons[0], e.Comparisons[0]
	one, nine := 1.0, 9.0
	second.Case, second.Cost = "size=2", &one
	other.Baseline, other.Cost = "runsc", &nine
	e.Comparisons = append([]result.Comparison{other}, append(e.Comparisons, second)...)
	if state, text := lookup(e); state != Answered || text != "2x, mean of 2 of 2 cases" {
		t.Errorf("%s %q", state, text)
	}
	e.Comparisons[2].Verdict = stats.Inconclusive
	if state, _ := lookup(e); state != Refused {
		t.Errorf("with an inconclusive case: %s", state)
	}
	r := NewResults([]*result.Experiment{measuredCups("a", "guest", "tdx", 0.001, 0.004, 4)}, nil, nil)
	r.Cases = func(string) int { return 10 }
	if m := r.Lookup("all", a); m.text("guest (tdx)") != "refused: 1 of 10 cases decided" {
		t.Errorf("of a result with one case of ten: %q", m.text("guest (tdx)"))
	}
}

// TestState: what goes before what, for plain values, costs and values that are shown as text.
func TestState(t *testing.T) {
	value := Answer{Experiment: "e1", Case: "size=1", Metric: "seconds", Arm: "tdx"}
	cost := Answer{Experiment: "e1", Case: "size=1", Metric: "seconds", Arm: Cost, TEE: "tdx"}
	ratio := value
	ratio.Relative = "size=1"
	counted := value
	counted.Metric = "machine:tee_context_switches_total"
	named := Answer{Experiment: "e1", Case: "size=1", Metric: "seconds", Arm: Cost, Env: "guest"}
	sgx := cost
	sgx.TEE = "sgx"
	ofEnv := value
	ofEnv.Env = "runsc"
	refuse := func(e *result.Experiment) { e.Comparisons[0].Verdict = stats.Invalid }
	for name, c := range map[string]struct {
		a      Answer
		kind   string
		change func(e *result.Experiment)
		want   State
	}{
		"a value":                          {value, "tdx", nil, Answered},
		"a value of a refused comparison":  {value, "tdx", refuse, Refused},
		"a cost of a refused comparison":   {cost, "tdx", refuse, Refused},
		"a ratio":                          {ratio, "tdx", nil, Answered},
		"a ratio of a refused comparison":  {ratio, "tdx", refuse, Refused},
		"a count that no run made":         {counted, "tdx", nil, NoValue},
		"a count of a refused comparison":  {counted, "tdx", refuse, Refused},
		"a stand-in":                       {cost, "none", nil, StandIn},
		"a ratio of a stand-in":            {ratio, "none", nil, StandIn},
		"a refused stand-in":               {cost, "none", refuse, Refused},
		"a named environment without TEE":  {named, "none", nil, Answered},
		"the cost of another kind of TEE":  {sgx, "tdx", nil, ArmMissing},
		"no arm of the name, any stand-in": {ofEnv, "none", nil, StandIn},
		"an arm of the name stands in": {ofEnv, "none", func(e *result.Experiment) {
			e.Environments = append(e.Environments, result.Environment{ID: "runsc", Role: result.Treatment, TEE: result.TEE{Type: "none"}})
		}, NoValue},
		"emulated": {value, "tdx", func(e *result.Experiment) { e.Environments[1].StandsFor = "a TDX guest" }, StandIn},
	} {
		t.Run(name, func(t *testing.T) {
			e := measuredCups("a", "guest", c.kind, 0.001, 0.0012, 1.2)
			if c.change != nil {
				c.change(e)
			}
			m := NewResults([]*result.Experiment{e}, nil, nil).Lookup("row", c.a)
			if got := fill(c.a, &m); got != c.want {
				t.Errorf("%s: %s, want %s: %+v", name, got, c.want, m.Arms)
			}
		})
	}
}

// TestPasses: the result of a pass, or of anything else with a suffix, does not answer for the experiment; a part of it does.
func TestPasses(t *testing.T) {
	e := measuredCups("a", "guest", "tdx", 0.001, 0.0012, 1.2)
	e.Name = "e1-equal-load"
	a := Answer{Experiment: "e1", Case: "size=1", Metric: "seconds", Arm: Plain}
	m := NewResults([]*result.Experiment{e}, nil, nil).Lookup("row", a)
	if fill(a, &m) != NoResult {
		t.Errorf("a pass answers: %+v", m)
	}
	m = NewResults([]*result.Experiment{e}, nil, func(string) string { return "e1" }).Lookup("row", a)
	if fill(a, &m) != Answered {
		t.Errorf("a part does not answer: %+v", m)
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
	if !strings.Contains(d, "&lt;b&gt;") || strings.Contains(d, "<b>") || strings.Count(d, `height="12"`) != 3 || !strings.Contains(d, "no result has it") {
		t.Errorf("the drawing is\n%s", d)
	}
	e := measuredCups("a", "guest", "tdx", 0.001, 0.0012, 1.2)
	e.Runs = nil
	p, err = Compose(s, NewResults([]*result.Experiment{e}, nil, nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	if d := string(p.Tables[0].Drawing()); !strings.Contains(d, "here: see the table") {
		t.Errorf("a table without values has the drawing\n%s", d)
	}
	if composed(t).Tables[0].Drawing() != "" {
		t.Error("a table has a drawing")
	}
}
