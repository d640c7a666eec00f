package report

import (
	"math"
	"testing"

	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/stats"
)

// TestAverages: a mean is geometric, over all cases, and missing where a case has no cost that counts. An inconclusive case counts and is not
// decided. A result with one case, or without any cost, has no averages.
func TestAverages(t *testing.T) {
	of := func(cases int, change func(c *result.Comparison)) []Average {
		e := &result.Experiment{Environments: []result.Environment{{ID: "native", Role: result.Baseline}, {ID: "vm"}},
			Workload: result.Workload{Metrics: []result.MetricDesc{{Name: "seconds", Unit: "seconds", Better: "lower"}}}}
		for i := range cases {
			cost, id := []float64{1, 4, 16}[i], []string{"a", "b", "c"}[i]
			low, high := cost*0.9, cost*1.1
			e.Cases = append(e.Cases, result.Case{ID: id})
			e.Comparisons = append(e.Comparisons, result.Comparison{Baseline: "native", Treatment: "vm", Case: id, Metric: "seconds", Primary: true, Verdict: stats.Cost, Cost: &cost, CostLow: &low, CostHigh: &high})
		}
		change(&e.Comparisons[0])
		return averages(e)
	}
	keep := func(*result.Comparison) {}
	if got := of(3, keep); len(got) != 1 || math.Abs(got[0].Mean-4) > 1e-9 || got[0].Lowest != 1 || got[0].Highest != 16 || got[0].Decided != 3 || got[0].cell().Text != "4x" {
		t.Errorf("three cases: %+v", got)
	}
	if got := of(3, func(c *result.Comparison) { c.Verdict = stats.Inconclusive }); math.Abs(got[0].Mean-4) > 1e-9 || got[0].Decided != 2 {
		t.Errorf("with an inconclusive case: %+v", got)
	}
	for name, change := range map[string]func(c *result.Comparison){
		"refused": func(c *result.Comparison) { c.Verdict = stats.Invalid },
		"a bound": func(c *result.Comparison) { c.Bound = result.AtLeast },
		"no cost": func(c *result.Comparison) { c.Cost = nil },
		"below 0": func(c *result.Comparison) { *c.Cost = -1 },
	} {
		t.Run(name, func(t *testing.T) {
			if got := of(3, change); len(got) != 1 || got[0].cell().Reason == "" || got[0].Cases != 2 || got[0].Lowest != 4 {
				t.Errorf("%s: %+v", name, got)
			}
		})
	}
	if got := of(1, keep); got != nil {
		t.Errorf("one case: %+v", got)
	}
	if got := of(3, func(c *result.Comparison) { c.StandIn = "emulated" }); got[0].cell().Text != "stand-in 4x" {
		t.Errorf("a stand-in: %+v", got)
	}
}
