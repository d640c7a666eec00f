package verdict

import (
	"math"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/stats"
)

var outliers = Guard{
	ID:     "outliers",
	Doc:    "Runs lie far from the others of their arm (modified z-score of the logarithm above 3.5; a warning above 10). Outliers are shown and never deleted.",
	Effect: "a note or a warning; the estimator is robust against a few outliers",
	Help:   "read the run's interference and raw output; with more pairs, a single outlier matters less",
	check: func(p *guardRun) {
		for cas, env := range p.each {
			runs, x := p.logs(cas.ID, env)
			for i, z := range stats.Flags(x) {
				if !(math.Abs(z) > stats.NoteScore) || len(x) < stats.MinPairs {
					continue
				}
				e := tell
				if math.Abs(z) > stats.WarnScore {
					e = warn
				}
				p.report(e, scope{cas: cas.ID, arm: env, metric: p.e.Design.Primary}, values{"value": math.Exp(x[i]), "z": z},
					"run %s has %s; the median%s in %s is %s (modified z-score %s)", runs[i].ID, p.value(math.Exp(x[i]), p.e.Design.Primary), ofCase(cas.ID), env, p.value(math.Exp(stats.Median(x)), p.e.Design.Primary), metric.Digits(z))
			}
		}
	},
}

// logs returns the logarithms of the primary metric of a case in an arm.
func (p *guardRun) logs(cas, env string) ([]*result.Run, []float64) {
	var runs []*result.Run
	var x []float64
	for _, r := range p.runs(cas, env) {
		if v, ok := value(r, p.e.Design.Primary); ok && v > 0 {
			runs, x = append(runs, r), append(x, math.Log(v))
		}
	}
	return runs, x
}
