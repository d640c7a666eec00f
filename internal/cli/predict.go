package cli

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/explain"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/stats"
)

// sweep is the cost of one environment at several settings of one parameter.
type sweep struct {
	treatment, baseline string
	others              string // the other parameters of the sweep, "" where there are none
	settings            []stats.Setting
	cases               []string
	refused             int // settings whose comparison is invalid
}

// predict prints the predicted cost of each environment at a setting that was not
// measured ("size=48MiB"), and the counters that follow the cost; or after a change of what
// the TEE does ("transitions=0.1x").
func predict(e *result.Experiment, setting string) (string, error) {
	change, ok, err := explain.ParseChange(setting)
	if err != nil {
		return "", fmt.Errorf("--predict %s: %w", setting, err)
	}
	if ok {
		return predictChange(e, change)
	}
	param, value, ok := strings.Cut(setting, "=")
	if !ok {
		return "", fmt.Errorf("--predict %q: want PARAM=VALUE, like size=48MiB", setting)
	}
	x, err := parameter(value)
	if err != nil {
		return "", fmt.Errorf("--predict %s: %w", param, err)
	}
	sweeps, err := sweepsOf(e, param)
	if err != nil {
		return "", fmt.Errorf("--predict %s: %w", param, err)
	}
	var t text
	for _, s := range sweeps {
		about := fmt.Sprintf("%s against %s", s.treatment, s.baseline)
		if s.others != "" {
			about += ", " + s.others
		}
		if s.refused > 0 {
			about += fmt.Sprintf(" (invalid comparisons left out: %d)", s.refused)
		}
		p, err := stats.Predict(s.settings, x, 0.95)
		if err != nil {
			t.Wrap("", fmt.Sprintf("%s: no prediction: %v", about, err))
			continue
		}
		where := ""
		if p.Beyond {
			where = ", outside the measured settings"
		}
		t.Wrap("", fmt.Sprintf("%s: predicted cost at %s: %s (95 %% prediction interval)%s.",
			about, setting, metric.TimesOf(p.Value, max(0, p.Low), p.High), where))
		t.Wrap("  ", fmt.Sprintf("fitted to %d settings as %s (y: cost, x: setting); leaving one out, the fit misses it by %s", len(s.settings), p.Curve, metric.Percent(p.Error)))
		for _, c := range s.follow(e) {
			t.Wrap("  ", c)
		}
	}
	return t.String(), nil
}

// predictChange prints the predicted costs after a change.
func predictChange(e *result.Experiment, change explain.Change) (string, error) {
	var t text
	all := known.Predict(e, change, parameter)
	if len(all) == 0 {
		return "", fmt.Errorf("--predict %s: the result has no comparison; a cost needs two environments", change.Lever)
	}
	for _, p := range all {
		about := strings.TrimSuffix(fmt.Sprintf("%s against %s, %s", p.Treatment, p.Baseline, p.Case), ", ")
		if p.Refused != "" {
			t.Wrap("", fmt.Sprintf("%s: no prediction: %s.", about, p.Refused))
			continue
		}
		cost := metric.TimesOf(p.Cost.Value, p.Cost.Low, p.Cost.High)
		if p.Bounds {
			cost = "between " + metric.Times(p.Cost.Low) + " and " + metric.Times(p.Cost.High)
		}
		t.Wrap("", fmt.Sprintf("%s: predicted cost with %s of %s: %s; it was %s.", about, metric.Times(change.Factor), change.Lever, cost,
			metric.TimesOf(p.Now.Value, p.Now.Low, p.Now.High)))
		for _, a := range p.Assumes {
			t.Wrap("  ", "assumes: "+a)
		}
	}
	return t.String(), nil
}

// sweepsOf returns the primary metric's comparisons in which a parameter has several
// values.
func sweepsOf(e *result.Experiment, param string) ([]sweep, error) {
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
		return nil, fmt.Errorf("the result has fewer than two values of it; parameters with several values: %s", cmp.Or(strings.Join(slices.Sorted(maps.Keys(swept)), ", "), "nothing"))
	}
	by := map[string]*sweep{}
	for _, c := range e.Comparisons {
		if !c.Primary {
			continue
		}
		params := cases[c.Case].Params
		x, err := parameter(params[param])
		if err != nil {
			return nil, fmt.Errorf("case %s: %w", c.Case, err)
		}
		var others []string
		for _, name := range slices.Sorted(maps.Keys(swept)) {
			if name != param {
				others = append(others, name+"="+params[name])
			}
		}
		s := sweep{treatment: c.Treatment, baseline: c.Baseline, others: strings.Join(others, " ")}
		key := s.treatment + "\x00" + s.baseline + "\x00" + s.others
		if by[key] == nil {
			by[key] = &s
		}
		if c.Verdict == stats.Invalid || c.Cost == nil {
			by[key].refused++
			continue
		}
		by[key].settings = append(by[key].settings, stats.Setting{X: x, Y: *c.Cost, Pairs: c.Pairs})
		by[key].cases = append(by[key].cases, c.Case)
	}
	if len(by) == 0 {
		return nil, errors.New("the result has no comparison; a cost needs two environments")
	}
	var out []sweep
	for _, key := range slices.Sorted(maps.Keys(by)) {
		out = append(out, *by[key])
	}
	return out, nil
}

// follow lists the counters whose difference per operation correlates with the cost
// over the settings, strongest first.
func (s sweep) follow(e *result.Experiment) (out []string) {
	deltas := map[string]map[string]float64{}
	for _, a := range e.Attribution {
		if a.Treatment == s.treatment && a.Baseline == s.baseline {
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
		for i, c := range s.cases {
			if d, ok := deltas[counter][c]; ok {
				x, y = append(x, d), append(y, s.settings[i].Y)
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

// multiples are the suffixes of sizes and numbers in parameters, binary as in fio.
var multiples = map[string]float64{"": 1, "B": 1, "K": 1 << 10, "KIB": 1 << 10, "M": 1 << 20, "MIB": 1 << 20, "G": 1 << 30, "GIB": 1 << 30, "T": 1 << 40, "TIB": 1 << 40}

// parameter reads a number, which may be a size.
func parameter(text string) (float64, error) {
	number := strings.TrimRight(text, "BKMGTibkmgt")
	times, ok := multiples[strings.ToUpper(text[len(number):])]
	v, err := metric.ParseNumber(number)
	if v *= times; err != nil || !ok || math.IsInf(v, 0) {
		return 0, fmt.Errorf("%q: want a number or a size like 48MiB", text)
	}
	return v, nil
}
