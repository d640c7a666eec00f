package verdict

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/stats"
)

// Sweep is the cost of one environment at several settings of one parameter.
type Sweep struct {
	Treatment, Baseline string
	Others              string // the other parameters of the sweep, "" where there are none
	Settings            []stats.Setting
	Cases               []string // by setting
	Refused             int      // settings whose comparison is invalid
}

// Sweeps returns the primary metric's comparisons in which a parameter has several
// values.
func Sweeps(e *result.Experiment, param string) ([]Sweep, error) {
	cases := map[string]result.Case{}
	swept := map[string]map[string]bool{} // the values of each parameter
	for _, c := range e.Cases {
		cases[c.ID] = c
		for name, v := range c.Params {
			if swept[name] == nil {
				swept[name] = map[string]bool{}
			}
			swept[name][v] = true
		}
	}
	maps.DeleteFunc(swept, func(_ string, v map[string]bool) bool { return len(v) < 2 })
	if swept[param] == nil {
		return nil, fmt.Errorf("the result has fewer than two values of this parameter; parameters with several values: %s", cmp.Or(strings.Join(slices.Sorted(maps.Keys(swept)), ", "), "nothing"))
	}
	by := map[string]*Sweep{}
	for _, c := range e.Comparisons {
		if !c.Primary {
			continue
		}
		params := cases[c.Case].Params
		x, err := metric.ParseSize(params[param])
		if err != nil {
			return nil, fmt.Errorf("case %s: %w", c.Case, err)
		}
		var others []string
		for _, name := range slices.Sorted(maps.Keys(swept)) {
			if name != param {
				others = append(others, name+"="+params[name])
			}
		}
		s := Sweep{Treatment: c.Treatment, Baseline: c.Baseline, Others: strings.Join(others, " ")}
		key := s.Treatment + "\x00" + s.Baseline + "\x00" + s.Others
		if by[key] == nil {
			by[key] = &s
		}
		if c.Verdict == stats.Invalid || c.Cost == nil {
			by[key].Refused++
			continue
		}
		by[key].Settings = append(by[key].Settings, stats.Setting{X: x, Y: *c.Cost, Pairs: c.Pairs})
		by[key].Cases = append(by[key].Cases, c.Case)
	}
	if len(by) == 0 {
		return nil, errors.New("the result has no comparison; a cost needs two environments")
	}
	var out []Sweep
	for _, key := range slices.Sorted(maps.Keys(by)) {
		out = append(out, *by[key])
	}
	return out, nil
}

// Followers lists the counters whose difference per operation correlates with the cost
// over the settings, strongest first.
func (s Sweep) Followers(e *result.Experiment) (out []string) {
	deltas := map[string]map[string]float64{}
	for _, a := range e.Attribution {
		if a.Treatment == s.Treatment && a.Baseline == s.Baseline {
			if deltas[a.Counter] == nil {
				deltas[a.Counter] = map[string]float64{}
			}
			deltas[a.Counter][a.Case] = a.Delta
		}
	}
	type follower struct {
		counter string
		rho, p  float64
	}
	var all []follower
	var ps []float64
	for _, counter := range slices.Sorted(maps.Keys(deltas)) {
		var x, y []float64
		for i, c := range s.Cases {
			if d, ok := deltas[counter][c]; ok {
				x, y = append(x, d), append(y, s.Settings[i].Y)
			}
		}
		if rho, p := stats.RankCorrelation(x, y); !math.IsNaN(rho) {
			all, ps = append(all, follower{counter, rho, p}), append(ps, p)
		}
	}
	for i, p := range stats.Holm(ps) {
		all[i].p = p
	}
	slices.SortStableFunc(all, func(a, b follower) int { return cmp.Compare(math.Abs(b.rho), math.Abs(a.rho)) })
	for _, f := range all[:min(5, len(all))] {
		out = append(out, fmt.Sprintf("%s per operation follows the cost: rank correlation %s, p = %s (corrected for %d counters)", f.counter, metric.Digits(f.rho), metric.Digits(f.p), len(all)))
	}
	return out
}
