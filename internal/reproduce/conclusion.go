package reproduce

import (
	"fmt"
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/stats"
)

// manyCases are as many sentences about two environments as nobody reads one after the other.
const manyCases = 4

// armConclusions returns what our comparisons in a table say: the sentence of each comparison or, for many that differ only in their case,
// one sentence about all of them.
func (pt *PageTable) armConclusions() (out []string) {
	var groups [][]*MeasuredArm
	for i := range pt.Ours {
		for k := range pt.Ours[i].Arms {
			x := &pt.Ours[i].Arms[k]
			c := x.Comparison
			if c == nil || !c.Primary || x.Sentence == "" {
				continue
			}
			g := slices.IndexFunc(groups, func(g []*MeasuredArm) bool {
				o := g[0].Comparison
				return o.Treatment == c.Treatment && o.Baseline == c.Baseline && o.Metric == c.Metric && g[0].File == x.File
			})
			switch {
			case g < 0:
				groups = append(groups, []*MeasuredArm{x})
			case !slices.ContainsFunc(groups[g], func(o *MeasuredArm) bool { return o.Comparison.Case == c.Case }):
				groups[g] = append(groups[g], x)
			}
		}
	}
	for _, g := range groups {
		if len(g) >= manyCases {
			out = append(out, summarizeCases(g))
			continue
		}
		for _, x := range g {
			out = append(out, asSentence(x.Sentence, x.Comparison))
		}
	}
	return out
}

// asSentence ends a headline with a full stop and begins it with a capital, unless it begins with the name of an environment.
func asSentence(headline string, c *result.Comparison) string {
	if !strings.HasPrefix(headline, c.Treatment+" ") && !strings.HasPrefix(headline, c.Baseline+" ") {
		headline = strings.ToUpper(headline[:1]) + headline[1:]
	}
	return headline + "."
}

// summarizeCases says what the comparisons of two environments in several cases have in common.
func summarizeCases(cases []*MeasuredArm) string {
	c := cases[0].Comparison
	var costs []float64
	decided, refused := 0, 0
	for _, x := range cases {
		switch {
		case x.Comparison.Verdict == stats.Invalid || x.Comparison.Cost == nil:
			refused++
			continue
		case x.Comparison.Verdict != stats.Inconclusive:
			decided++
		}
		costs = append(costs, *x.Comparison.Cost)
	}
	out := fmt.Sprintf("%s against %s (%s): ", c.Treatment, c.Baseline, metric.Words(c.Metric))
	if len(costs) == 0 {
		return out + fmt.Sprintf("all %d comparisons are refused. The first: %s.", len(cases), cases[0].Sentence)
	}
	span := fmt.Sprintf("of %s to %s in %s", metric.Times(slices.Min(costs)), metric.Times(slices.Max(costs)), metric.Plural(len(costs), "case"))
	if c.StandIn != "" { // it has a ratio, and no verdict
		return "stand-in: " + out + "ratio " + span + ". " + asSentence(strings.TrimSuffix(c.StandIn, "."), c)
	}
	out += fmt.Sprintf("cost ratio %s, of which %d %s decided", span, decided, verbOf(decided))
	if refused > 0 {
		out += fmt.Sprintf("; %s more %s refused", metric.Plural(refused, "case"), verbOf(refused))
	}
	return out + "."
}

// verbOf is the verb for a number of things.
func verbOf(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}
