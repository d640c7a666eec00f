package verdict

import (
	"fmt"
	"math"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/stats"
)

var suspectBaseline = Guard{
	ID:     "suspect-baseline",
	Doc:    "The efficiency of scaling is above 105 %, which is more than linear: the value with the fewest processors is an outlier. The message gives the absolute ratio to the baseline too.",
	Effect: "inconclusive for the case with the fewest processors; a warning for the others",
	Help:   "measure the smallest case again with more pairs and a fixed clock rate; report absolute ratios, not efficiency",
	check: func(p *pass) {
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
					if b != env.ID && !math.IsNaN(r1+rN) {
						absolute = fmt.Sprintf("; against %s it is %s at %s=%g and %s at %g", b, metric.Percent(r1), s.name, first.x, metric.Percent(rN), s.x)
					}
					sc := scope{arm: env.ID}
					v := values{"speedup": speedup, "efficiency": efficiency}
					format := "%s: %s=%g gives %s times %s=%g, an efficiency of %s: suspect the value at %g%s"
					args := []any{env.ID, s.name, s.x, metric.Digits(speedup), s.name, first.x, metric.Percent(efficiency), first.x, absolute}
					p.say(doubt, sc.in(first.cas.ID), v, format, args...)
					p.say(warn, sc.in(s.cas.ID), v, format, args...)
				}
			}
		}
	},
}
