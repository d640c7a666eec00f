package verdict

import (
	"fmt"
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/stats"
)

// whatDecides says what keeps a comparison from a verdict, "" if nothing does or it was refused. More pairs are named only where
// the spread, or their small number, is all that blocks. The number of pairs finds a difference as large as the margin
// four times in five, so it is likely, and not certain, that they decide.
func whatDecides(e *result.Experiment, c *result.Comparison) string {
	switch {
	case !c.Primary || c.StandIn != "" || c.Verdict == stats.Invalid:
		return ""
	case c.Verdict != stats.Inconclusive && c.Cost != nil:
		return ""
	}
	if why := blocker(e, c); why != "" {
		return "more pairs would not decide the verdict: " + why
	}
	return c.Deciding()
}

// blocker names what else than spread keeps a comparison from a verdict; "" if nothing does. The reason that decided is the
// first of a comparison. If it is a guard's message, that guard blocks; where there are too few valid pairs, what cost the
// others theirs does.
func blocker(e *result.Experiment, c *result.Comparison) string {
	if first(c.Reasons) == "" {
		return ""
	}
	if slices.Contains(c.Reasons, stats.WithinFloor) {
		return stats.WithinFloor
	}
	for _, reason := range c.Reasons {
		for i := range e.Guards {
			g := &e.Guards[i]
			if g.Level != result.Warn || g.Message != reason {
				continue
			}
			if say := blocks[g.ID]; say != nil && withdrew(g, c) {
				return say(g)
			}
		}
	}
	return ""
}

// withdrew reports whether a guard's message, which is a warning, withdrew the verdict.
func withdrew(g *result.Guard, c *result.Comparison) bool {
	if first(c.Reasons) == g.Message {
		return true
	}
	// Several guards may doubt; too few pairs come first, and more of them would be disturbed like these.
	return g.ID == disturbed.ID && g.Values["factor"] > 0 && c.Low == nil
}

// blocks has the words for each guard that can withdraw a verdict and that more pairs do not silence.
var blocks = map[string]func(*result.Guard) string{
	"disturbed": func(g *result.Guard) string {
		most := max(g.Values["baseline"], g.Values["treatment"])
		switch {
		case g.Values["factor"] == 0:
			return "the verdict depends on whether disturbed pairs are used"
		case strings.HasPrefix(g.Message, "steal"):
			return fmt.Sprintf("the hypervisor took %s of the CPU time", metric.Percent(most))
		}
		return fmt.Sprintf("other programs used %s of the CPUs", metric.Percent(most))
	},
	"failed-runs": func(g *result.Guard) string {
		return fmt.Sprintf("%.0f of %.0f runs of an arm failed", g.Values["lost"], g.Values["runs"])
	},
	"clock-source":     func(*result.Guard) string { return "two clocks disagree" },
	"bimodal":          func(*result.Guard) string { return "the runs fall into two groups" },
	"suspect-baseline": func(*result.Guard) string { return "the runs with the fewest processors were probably too slow" },
	"noise-floor":      func(*result.Guard) string { return stats.WithinFloor },
}

// ShortOfPairs reports whether a comparison has fewer valid, undisturbed pairs of the primary metric than were planned.
func ShortOfPairs(e *result.Experiment, o Options) bool {
	p := newPass(e, Options{Limits: o.Limits})
	for _, k := range p.contests {
		valid := 0
		for _, d := range k.pairs {
			_, base := value(d.base, e.Design.Primary)
			_, treat := value(d.treat, e.Design.Primary)
			if base && treat && d.cause == "" {
				valid++
			}
		}
		if valid < e.Design.PairsPlanned {
			return true
		}
	}
	return false
}
