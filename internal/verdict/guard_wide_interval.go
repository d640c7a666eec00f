package verdict

import (
	"fmt"
	"slices"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/stats"
)

var wideInterval = Guard{
	ID:     "wide-interval",
	Doc:    "The interval contains 1 and reaches beyond the margin, so neither a cost nor equivalence can be claimed. The message says which effect these pairs would have found, and how many pairs would probably give a verdict.",
	Effect: "only a note: the interval alone already makes the verdict inconclusive",
	Help:   "run the stated number of pairs, or choose a wider margin before looking at the result",
	check: func(p *guardRun) {
		for i := range p.e.Comparisons {
			c := &p.e.Comparisons[i]
			if !c.Primary || c.Low == nil || !(*c.Low < 1 && *c.High > 1) || *c.Low > 1/(1+c.Margin) && *c.High < 1+c.Margin {
				continue
			}
			if c.Verdict != stats.Inconclusive { // the 90 % interval lies within the margin
				continue
			}
			v := values{"low": *c.Low, "high": *c.High, "pairs_needed": float64(c.PairsNeeded)}
			p.report(tell, scope{cas: c.Case, base: c.Baseline, treat: c.Treatment, metric: c.Metric}, v,
				"%s against %s%s has a cost ratio of %s, with a margin of %s%s", c.Treatment, c.Baseline, inCase(c.Case), costRatio(c, better(p.e.Desc(c.Metric))), metric.Percent(c.Margin), p.outlook(c))
		}
	},
}

// outlook says what the pairs of an open comparison find and, if no guard doubts it for another reason, how many would
// probably decide it.
func (p *guardRun) outlook(c *result.Comparison) string {
	s := ""
	if c.MDE != nil {
		s = fmt.Sprintf("; %s would detect a difference of %s with a probability of 80 %%", metric.Plural(c.Pairs, c.Replicate()), metric.Percent(*c.MDE))
	}
	doubted := slices.ContainsFunc(p.spoken, func(f spoken) bool { return f.effect == doubt && f.ID != tooFewPairs.ID && f.scope.has(c) })
	if pairs := c.Deciding(); pairs != "" && !doubted {
		s += "; " + pairs
	}
	return s
}
