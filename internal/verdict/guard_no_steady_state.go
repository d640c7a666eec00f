package verdict

import (
	"github.com/teescope/teescope/internal/result"
)

func unsteady(r *result.Run) bool { return r.Warmup != nil && !r.Warmup.Steady }

var noSteadyState = Guard{
	ID:     "no-steady-state",
	Doc:    "Runs never reached a steady state, so their mean is the mean of a warm-up. They give no ratio.",
	Effect: "invalid if at least half of an arm's runs never reached a steady state, otherwise a warning",
	Help:   "make the runs longer; the series in the report shows what keeps changing",
	check: func(p *guardRun) {
		for cas, arm := range p.each {
			runs, n, blind := p.runs(cas.ID, arm), 0, ""
			for _, r := range runs {
				if unsteady(r) {
					n++
				}
				if r.Warmup == nil && r.Missing["warmup"] != "" {
					blind = r.Missing["warmup"]
				}
			}
			s := scope{cas: cas.ID, arm: arm}
			v := values{"unsteady": float64(n), "runs": float64(len(runs))}
			switch {
			case blind != "":
				p.unknown(s, "whether the runs%s in %s reached a steady state: %s", ofCase(cas.ID), arm, blind)
			case 2*n >= len(runs) && n > 0:
				p.report(withdraw, s, v, "%d of %d runs%s in %s reached no steady state", n, len(runs), ofCase(cas.ID), arm)
			case n > 0:
				left := map[bool]string{true: "is left out: it", false: "are left out: they"}[n == 1]
				p.report(warn, s, v, "%d of %d runs%s in %s %s reached no steady state", n, len(runs), ofCase(cas.ID), arm, left)
			}
		}
	},
}
