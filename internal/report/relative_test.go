package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/stats"
)

// joinedArms is a joined document of results with two arms each, of machines whose speed differs. slower[i] is the cost of arm
// "tee" over arm "plain" on machine i; speed[i] multiplies everything there.
func joinedArms(better string, speed, slower []float64) *result.Experiment {
	e := &result.Experiment{Name: "j", Workload: result.Workload{Name: "startup", Metrics: []result.MetricDesc{
		{Name: "took_seconds", Unit: "seconds", Better: better},
		{Name: "channel_over_tls_ratio", Unit: "ratio", Better: "lower"},
	}}, Cases: []result.Case{{ID: "default"}}}
	e.Design = result.Design{Kind: result.Unpaired, Primary: "took_seconds", Grade: result.GradeD, Margin: 0.03}
	for m := range speed {
		for arm, name := range []string{"plain", "tee"} {
			id := fmt.Sprintf("m%d/%s", m, name)
			e.Environments = append(e.Environments, result.Environment{ID: id, Joined: &result.Joined{ID: fmt.Sprint("id", m), Name: fmt.Sprint("m", m), Env: name, Kind: result.Interleaved}})
			for n := range 12 {
				noise := 1 + float64(n%5)/1000
				pair := 1 + float64(n%7)/5 // what is common to the arms of a pair
				v := speed[m] * noise * pair
				if arm == 1 {
					v *= slower[m]
				}
				if better == "higher" {
					v = 1 / v
				}
				ratio := float64(m+1) * noise
				e.Runs = append(e.Runs, result.Run{ID: fmt.Sprint(id, n), Env: id, Case: "default", Pair: n, Status: result.OK,
					Metrics: []result.Metric{{Name: "took_seconds", Value: &v}, {Name: "channel_over_tls_ratio", Value: &ratio}}})
			}
		}
	}
	return e
}

// TestRelative: between machines of different speed, the headline is the ratio of their ratios, whichever way the metric is better.
func TestRelative(t *testing.T) {
	for _, better := range []string{"lower", "higher"} {
		t.Run(better, func(t *testing.T) {
			got := relative(joinedArms(better, []float64{1, 7, 0.2}, []float64{2, 3, 2}))
			var arms, runs []Conclusion
			for _, c := range got {
				if strings.HasPrefix(c.Headline, "tee over plain (took) on startup") {
					arms = append(arms, c)
				} else if strings.HasPrefix(c.Headline, "channel over tls") {
					runs = append(runs, c)
				}
			}
			if len(arms) != 2 || len(runs) != 4 {
				t.Fatalf("%s: %+v", better, got)
			}
			for i, want := range []float64{1.5, 1} {
				var v float64
				if _, err := fmt.Sscan(arms[i].Big.Raw, &v); err != nil || math.Abs(v/want-1) > 0.005 {
					t.Errorf("%s: %s, want %v: %v", better, arms[i].Big.Raw, want, err)
				}
			}
			if c := arms[0]; c.Word != "platform difference" || !strings.Contains(c.Headline, "in m1 is 1.5x [") || !strings.HasSuffix(c.Headline, "in m0.") || !slices.Equal(c.Details[:2], []string{"The cost in m1 is 3x.", "The cost in m0 is 2x."}) {
				t.Errorf("%s: %+v", better, c)
			}
			if c := arms[1]; c.Word != string(stats.Equivalent) {
				t.Errorf("%s: an equal ratio is %q: %s", better, c.Word, c.Headline)
			}
			if c := runs[0]; !strings.Contains(c.Headline, "in m1/plain is 2x [") || !strings.Contains(c.Headline, "in m0/plain") {
				t.Errorf("%s: a ratio of runs: %s", better, c.Headline)
			}
		})
	}
}

// TestRelativeOfLittle: what cannot be compared has the reason, and what has no machine to cancel has no such headline.
func TestRelativeOfLittle(t *testing.T) {
	pair := func() *result.Experiment { return joinedArms("lower", []float64{1, 7}, []float64{2, 3}) }
	last := func(e *result.Experiment) Conclusion { c := relative(e); return c[len(c)-1] }

	e := pair()
	for i := range e.Runs {
		if e.Runs[i].Env == "m1/tee" {
			e.Runs[i].Status = result.Failed
		}
	}
	if c := last(e); c.Big.Reason == "" || !strings.Contains(c.Headline, "not compared between m1 and m0") {
		t.Errorf("all runs of an arm failed: %+v", c)
	}

	e = pair()
	e.Comparisons = []result.Comparison{{Primary: true, Case: "default", Treatment: "m1/plain", Verdict: stats.Invalid, Reasons: []string{"the answers differ"}}}
	if c := last(e); c.Word != "invalid" || !strings.Contains(c.Big.Reason, "m1/plain: the answers differ") {
		t.Errorf("refused: %+v", c)
	}

	for bound, of := range map[result.Bound]func(*result.Experiment, result.Comparison){
		result.AtMost:  func(e *result.Experiment, c result.Comparison) { e.Comparisons = []result.Comparison{c} },
		result.AtLeast: func(e *result.Experiment, c result.Comparison) { e.Environments[3].Joined.Own = []result.Comparison{c} },
	} {
		e = pair()
		of(e, result.Comparison{Primary: true, Case: "default", Baseline: "plain", Treatment: "m1/tee", Verdict: stats.Cost, Bound: bound})
		if c := last(e); c.Word != "invalid" || !strings.Contains(c.Big.Reason, "m1/tee against plain was at a limit, so their ratio is only a bound") {
			t.Errorf("%s: %+v", bound, c)
		}
	}

	e = pair()
	e.Environments[3].Joined.Own = []result.Comparison{{Primary: true, Case: "default", Treatment: "tee", Verdict: stats.Invalid, Reasons: []string{"too few runs"}}}
	if c := last(e); c.Word != "invalid" || !strings.Contains(c.Big.Reason, "m1/tee: too few runs (in its own result)") {
		t.Errorf("refused by its own result: %+v", c)
	}

	e = pair()
	for i := range e.Environments[2:] {
		e.Environments[2+i].Joined.Kind = result.Blocked
	}
	if c := last(e); c.Word != "invalid" || !strings.Contains(c.Big.Reason, "the arms of m1 did not run in interleaved pairs") {
		t.Errorf("blocked: %+v", c)
	}

	e = pair()
	e.Runs = e.Runs[:12] // of one arm of four
	if c := last(e); c.Big.Reason == "" {
		t.Errorf("no runs: %+v", c)
	}

	for name, change := range map[string]func(*result.Experiment){
		"interleaved":     func(e *result.Experiment) { e.Design.Kind = result.Interleaved },
		"not joined":      func(e *result.Experiment) { e.Environments[0].Joined = nil },
		"one result":      func(e *result.Experiment) { e.Environments = e.Environments[:2] },
		"no environments": func(e *result.Experiment) { e.Environments = nil },
		"nothing in common": func(e *result.Experiment) {
			e.Environments = e.Environments[:3]
			e.Workload.Metrics = e.Workload.Metrics[:1]
		},
		"no direction": func(e *result.Experiment) {
			e.Workload.Metrics = e.Workload.Metrics[:1]
			e.Workload.Metrics[0].Better = "none"
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := pair()
			change(e)
			if c := relative(e); len(c) > 0 {
				t.Errorf("%s: %+v", name, c)
			}
		})
	}
}
