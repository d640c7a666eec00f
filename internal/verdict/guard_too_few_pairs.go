package verdict

import (
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/stats"
)

var tooFewPairs = Guard{
	ID:     "too-few-pairs",
	Doc:    "Fewer than 6 valid pairs. With five, the exact signed-rank test cannot reach 5 % (2/2^5 = 6.25 %), so there is no interval.",
	Effect: "inconclusive; invalid without a single pair",
	Help:   "run with --pairs 10 or more; --quick runs 6 pairs, and up to 2 spare pairs that replace pairs without a valid ratio",
	check: func(p *guardRun) {
		for _, k := range p.contests {
			c := p.comparison(k, p.e.Design.Primary)
			switch {
			case c == nil: // missing-metric reports it
			case c.Pairs == 0:
				p.report(refuse, k.scope(), values{"pairs": 0}, "no pair%s has a value in both %s and %s", ofCase(k.cas.ID), k.base.ID, k.treat.ID)
			case c.Pairs < stats.MinPairs:
				p.report(doubt, k.scope(), values{"pairs": float64(c.Pairs)}, "only %s%s; at least %d are needed", metric.Plural(c.Pairs, "valid pair"), ofCase(k.cas.ID), stats.MinPairs)
			}
		}
	},
}
