package cli

import (
	"fmt"
	"strings"

	"github.com/teescope/teescope/internal/explain"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/stats"
	"github.com/teescope/teescope/internal/verdict"
)

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
	x, err := metric.ParseSize(value)
	if err != nil {
		return "", fmt.Errorf("--predict %s: %w", param, err)
	}
	sweeps, err := verdict.Sweeps(e, param)
	if err != nil {
		return "", fmt.Errorf("--predict %s: %w", param, err)
	}
	var t text
	for _, s := range sweeps {
		about := fmt.Sprintf("%s against %s", s.Treatment, s.Baseline)
		if s.Others != "" {
			about += ", " + s.Others
		}
		if s.Refused > 0 {
			about += fmt.Sprintf(" (invalid comparisons left out: %d)", s.Refused)
		}
		p, err := stats.Predict(s.Settings, x, 0.95)
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
		t.Wrap("  ", fmt.Sprintf("fitted to %d settings as %s (y: cost, x: setting); fitted without one setting, the curve misses that setting by %s", len(s.Settings), p.Curve, metric.Percent(p.Error)))
		for _, c := range s.Followers(e) {
			t.Wrap("  ", c)
		}
	}
	return t.String(), nil
}

// predictChange prints the predicted costs after a change.
func predictChange(e *result.Experiment, change explain.Change) (string, error) {
	var t text
	all := known.Predict(e, change, metric.ParseSize)
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
