package reproduce

import (
	"fmt"
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
		"few cases": {[][]MeasuredArm{{arm("runsc", "n=1", 1.25, stats.Cost)}, {arm("runsc", "n=2", 1.5, stats.Cost)}, {arm("runsc", "n=4", 0, stats.Invalid)}},
			[]string{"runsc says n=1.", "runsc says n=2.", "runsc says n=4."}},
		"many cases, two arms": {[][]MeasuredArm{
			{arm("runsc", "n=1", 1.25, stats.Cost), arm("guest", "n=1", 3, stats.Cost)},
			{arm("runsc", "n=2", 1.5, stats.Inconclusive)},
			{arm("runsc", "n=4", 1.4, stats.Cost)},
			{arm("runsc", "n=8", 0, stats.Invalid)}},
			[]string{"runsc against native (messages per second): cost ratio of 1.25x to 1.5x in 3 cases, of which 2 are decided; 1 case more is refused.", "guest says n=1."}},
		"all refused": {cases(4, func(kase string) MeasuredArm { return arm("runsc", kase, 0, stats.Invalid) }),
			[]string{"runsc against native (messages per second): all 4 comparisons are refused. The first: runsc says n=1."}},
		"an arm that stands in has no cost": {cases(4, func(kase string) MeasuredArm {
			x := arm("runsc", kase, 2, stats.Cost)
			x.Comparison.StandIn = "the guest is emulated"
			return x
		}), []string{"stand-in: runsc against native (messages per second): ratio of 2x to 2x in 4 cases. The guest is emulated."}},
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

// cases are n rows with an arm for one case each.
func cases(n int, arm func(kase string) MeasuredArm) (out [][]MeasuredArm) {
	for i := range n {
		out = append(out, []MeasuredArm{arm(fmt.Sprintf("n=%d", i+1))})
	}
	return out
}
