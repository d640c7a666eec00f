package bench

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/stats"
)

// Pass is an experiment that follows from the one before it: the same cases in the same
// arms, under a load that is a share of the slower arm's capacity. Latencies are only
// comparable under equal load: at its own capacity every arm has a queue, and the
// faster one serves more.
type Pass struct {
	Name string `yaml:"name"`
	// Loads are shares of the slower arm's capacity, each of which is a case.
	Loads []Share `yaml:"loads"`
	// Params override those of the first experiment, Pairs its pairs.
	Params map[string]string `yaml:"params"`
	Pairs  int               `yaml:"pairs"`
	// Primary names the metric of the verdict; "" is the workload's own.
	Primary string  `yaml:"primary"`
	Margin  Percent `yaml:"margin"`
}

// Share is a ratio above 0, written as 80% or 0.8; above 100% it exceeds the capacity,
// for a sweep through saturation.
type Share float64

// mostShare bounds the load of a saturation sweep.
const mostShare = 10

// UnmarshalYAML reads the notation.
func (s *Share) UnmarshalYAML(n *yaml.Node) error {
	num, pct := strings.CutSuffix(n.Value, "%")
	v, err := metric.ParseNumber(num)
	if pct {
		v /= 100
	}
	if err != nil || !(v > 0 && v <= mostShare) {
		return fmt.Errorf("line %d: load %q: want a share like 50%% or 0.5", n.Line, n.Value)
	}
	*s = Share(v)
	return nil
}

func (s Share) String() string { return strconv.FormatFloat(100*float64(s), 'g', 4, 64) + "%" }

// rateParam is the parameter by which open-loop workloads are offered a rate in
// requests per second.
const rateParam = "rate"

// check returns what is wrong with a pass of an experiment.
func (t *Pass) check() error {
	switch {
	case t.Name == "" || strings.ContainsAny(t.Name, "/ "):
		return fmt.Errorf("then: name %q: want a name without spaces and slashes", t.Name)
	case len(t.Loads) == 0:
		return fmt.Errorf("then %s: loads are missing, as in [50%%, 80%%]", t.Name)
	case t.Pairs < 0:
		return fmt.Errorf("then %s: pairs: %d: want 1 or more, or 0 for as many pairs as the experiment has", t.Name, t.Pairs)
	}
	for i, load := range t.Loads {
		if slices.Contains(t.Loads[:i], load) {
			return fmt.Errorf("then %s: load %s is given twice", t.Name, load)
		}
	}
	if _, twice := t.Params[rateParam]; twice {
		return fmt.Errorf("then %s: remove rate from params, because teescope computes the rate from loads", t.Name)
	}
	return nil
}

// passesOf and plannedOf convert the passes of a plan to the document's form and back.
func passesOf(planned []Pass) []result.Pass {
	var out []result.Pass
	for _, t := range planned {
		loads := make([]float64, len(t.Loads))
		for i, load := range t.Loads {
			loads[i] = float64(load)
		}
		out = append(out, result.Pass{Name: t.Name, Loads: loads, Params: t.Params, Pairs: t.Pairs, Primary: t.Primary, Margin: float64(t.Margin)})
	}
	return out
}

func plannedOf(passes []result.Pass) []Pass {
	var out []Pass
	for _, t := range passes {
		loads := make([]Share, len(t.Loads))
		for i, load := range t.Loads {
			loads[i] = Share(load)
		}
		out = append(out, Pass{Name: t.Name, Loads: loads, Params: t.Params, Pairs: t.Pairs, Primary: t.Primary, Margin: Percent(t.Margin)})
	}
	return out
}

// Runs is the number of runs of a pass.
func (t *Pass) Runs(p *Plan) int {
	return len(p.Cases) * len(t.Loads) * len(p.Arms) * cmp.Or(t.Pairs, p.Pairs)
}

// Next is the plan of a pass, from the document of the experiment before it. A case
// without a capacity in some arm is an error.
func (t *Pass) Next(p *Plan, doc *result.Experiment) (*Plan, error) {
	return t.after(p, func(cas string) (float64, error) { return slowest(doc, p, cas) })
}

// possible refuses a pass that no capacity would make possible, before the hours that
// the first experiment may take.
func (t *Pass) possible(p *Plan) error {
	const any = 1000 // requests per second
	next, err := t.after(p, func(string) (float64, error) { return any, nil })
	if err != nil {
		return err
	}
	for i := range next.Cases {
		for j := range next.Arms {
			if _, err := next.Workload.Job(next.params(&next.Cases[i], &next.Arms[j])); err != nil {
				return fmt.Errorf("then %s: workload %s: %w", t.Name, p.Workload.Name, err)
			}
		}
	}
	return nil
}

// after is the plan of a pass for the slower arm's capacity in a case.
func (t *Pass) after(p *Plan, capacity func(cas string) (float64, error)) (*Plan, error) {
	d := primaryOf(p)
	if d == nil || d.Better != metric.Higher || !slices.ContainsFunc(p.Workload.Params, func(x Param) bool { return x.Name == rateParam }) {
		return nil, fmt.Errorf("then %s: it needs a workload with the parameter `rate`, whose main metric is a capacity (higher is better); workload %s does not fit", t.Name, p.Workload.Name)
	}
	next := *p
	next.Name = p.Name + "-" + t.Name
	next.Pairs, next.Margin = cmp.Or(t.Pairs, p.Pairs), cmp.Or(float64(t.Margin), p.Margin)
	next.Seed++
	next.Cases, next.Ceilings, next.References, next.Then = nil, nil, nil, nil
	for _, c := range p.Cases {
		most, err := capacity(c.ID)
		if err != nil {
			return nil, fmt.Errorf("then %s: %w", t.Name, err)
		}
		for _, load := range t.Loads {
			params := maps.Clone(c.Params)
			maps.Copy(params, t.Params)
			params[rateParam] = round(float64(load) * most)
			full, err := Complete("workload "+p.Workload.Name, p.Workload.Params, params)
			if err != nil {
				return nil, fmt.Errorf("then %s: %w", t.Name, err)
			}
			id := "load=" + load.String()
			if c.ID != onlyCase {
				id = c.ID + "," + id
			}
			next.Cases = append(next.Cases, Case{id, full})
		}
	}
	next.Primary = cmp.Or(t.Primary, p.Workload.Primary(next.Cases[0].Params).Name)
	if !slices.ContainsFunc(next.metrics(), func(d *metric.Desc) bool { return d.Name == next.Primary }) {
		return nil, fmt.Errorf("then %s: workload %s has no metric %q", t.Name, p.Workload.Name, next.Primary)
	}
	return &next, nil
}

func primaryOf(p *Plan) *metric.Desc {
	for _, d := range p.metrics() {
		if d.Name == p.Primary {
			return d
		}
	}
	return nil
}

// slowest is the smallest of the arms' medians of the primary metric in a case.
func slowest(doc *result.Experiment, p *Plan, cas string) (float64, error) {
	least := math.Inf(1)
	for i := range p.Arms {
		var all []float64
		for j := range doc.Runs {
			r := &doc.Runs[j]
			if m := r.Metric(p.Primary); r.Case == cas && r.Env == p.Arms[i].Label && r.Status == result.OK && m != nil && m.Value != nil {
				all = append(all, *m.Value)
			}
		}
		if len(all) == 0 {
			return 0, fmt.Errorf("the capacity of %s in case %s is unknown: no run of this environment has %s", p.Arms[i].Label, cas, p.Primary)
		}
		least = min(least, stats.Median(all))
	}
	return least, nil
}

// round writes a rate with three digits, more than the precision of the capacity.
func round(v float64) string {
	last := math.Floor(math.Log10(v)) - 2 // the exponent of the third digit
	unit := math.Pow(10, last)
	return strconv.FormatFloat(math.Round(v/unit)*unit, 'f', max(0, int(-last)), 64)
}
