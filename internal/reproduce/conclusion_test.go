package reproduce

import (
	"testing"

	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/stats"
)

// TestArmConclusions: an arm that a table compares in many cases gets one sentence, not one for each case.
func TestArmConclusions(t *testing.T) {
	arm := func(env, kase string, cost float64, verdict stats.Verdict) MeasuredArm {
		c := &result.Comparison{Treatment: env, Baseline: "native", Case: kase, Metric: "messages_per_second", Primary: true, Verdict: verdict}
		if cost > 0 {
			c.Cost = &cost
		}
		return MeasuredArm{Label: env, Comparison: c, Sentence: env + " says " + kase}
	}
	for name, c := range map[string]struct {
		rows [][]MeasuredArm
		want []string
	}{
		"one case": {[][]MeasuredArm{{arm("runsc", "n=1", 1.25, stats.Cost)}}, []string{"runsc says n=1."}},
		"the same case in two rows": {[][]MeasuredArm{{arm("runsc", "n=1", 1.25, stats.Cost)}, {arm("runsc", "n=1", 1.25, stats.Cost)}},
			[]string{"runsc says n=1."}},
		"several cases, two arms": {[][]MeasuredArm{
			{arm("runsc", "n=1", 1.25, stats.Cost), arm("guest", "n=1", 3, stats.Cost)},
			{arm("runsc", "n=2", 1.5, stats.Inconclusive)},
			{arm("runsc", "n=4", 0, stats.Invalid)}},
			[]string{"runsc against native (messages per second): cost ratio of 1.25x to 1.5x in 2 cases, of which 1 is decided; 1 case more is refused.", "guest says n=1."}},
		"all refused": {[][]MeasuredArm{{arm("runsc", "n=1", 0, stats.Invalid)}, {arm("runsc", "n=2", 0, stats.Invalid)}},
			[]string{"runsc against native (messages per second): all 2 comparisons are refused. The first: runsc says n=1."}},
		"an arm that stands in has no cost": {[][]MeasuredArm{{standIn(arm("runsc", "n=1", 2, stats.Cost))}, {standIn(arm("runsc", "n=2", 3, stats.Cost))}},
			[]string{"runsc against native (messages per second): ratio of 2x to 3x in 2 cases, of which 2 are decided."}},
	} {
		t.Run(name, func(t *testing.T) {
			pt := &PageTable{}
			for _, arms := range c.rows {
				pt.Ours = append(pt.Ours, Measured{Arms: arms})
			}
			got := pt.armConclusions()
			if len(got) != len(c.want) {
				t.Fatalf("%q, want %q", got, c.want)
			}
			for i := range got {
				if got[i] != c.want[i] {
					t.Errorf("%q, want %q", got[i], c.want[i])
				}
			}
		})
	}
}

func standIn(x MeasuredArm) MeasuredArm {
	x.Comparison.StandIn = "an emulated guest"
	return x
}
