package verdict

import (
	"fmt"
	"math"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/stats"
)

var suspectBaseline = Guard{
	ID:     "suspect-baseline",
	Doc:    "An arm gained more than proportionally from more processors (an efficiency above 105 %), so its runs with the fewest processors were probably too slow. The message names the arm and gives its cost ratio to the first environment at both ends.",
	Effect: "inconclusive for the case with the fewest processors; a warning for the others",
	Help:   "measure the smallest case again with more pairs and a fixed clock rate; report absolute ratios, not efficiency",
	check: func(p *guardRun) {
		d := p.primary()
		if better(d) == 0 {
			return
		}
		for _, env := range p.e.Environments {
			for _, ladder := range p.sweeps(p.o.Scaling) {
				first := ladder[0]
				one := p.median(first.cas, env.ID, d.Name)
				for _, s := range ladder[1:] {
					many := p.median(s.cas, env.ID, d.Name)
					speedup := many / one
					if better(d) < 0 {
						speedup = one / many
					}
					efficiency := speedup / (s.x / first.x)
					if !(efficiency > stats.MaxEfficiency) { // also true for NaN, which missing-metric reports
						continue
					}
					absolute := ""
					b := p.e.Environments[0].ID
					r1, rN := one/p.median(first.cas, b, d.Name), many/p.median(s.cas, b, d.Name)
					if better(d) > 0 {
						r1, rN = 1/r1, 1/rN
					}
					if b != env.ID && !math.IsNaN(r1+rN) {
						absolute = fmt.Sprintf("; against %s the cost ratio of its medians is %s at %s=%g and %s at %g", b, metric.Times(r1), s.name, first.x, metric.Times(rN), s.x)
					}
					sc := scope{arm: env.ID}
					v := values{"speedup": speedup, "efficiency": efficiency}
					format := "%s is %s times as fast with %s=%g as with %s=%g, an efficiency of %s, so its runs with %s=%g were probably too slow%s"
					args := []any{env.ID, metric.Digits(speedup), s.name, s.x, s.name, first.x, metric.Percent(efficiency), s.name, first.x, absolute}
					p.report(doubt, sc.in(first.cas.ID), v, format, args...)
					p.report(warn, sc.in(s.cas.ID), v, format, args...)
				}
			}
		}
	},
}
