package verdict

import (
	"github.com/teescope/teescope/internal/result"
)

var failedRuns = Guard{
	ID:     "failed-runs",
	Doc:    "Runs failed or gave no value of the primary metric. The remaining runs may be the lucky ones: if an arm lost more than a fifth of its runs, the rest is not representative.",
	Effect: "inconclusive if an arm lost more than a fifth of its runs, otherwise a warning",
	Help:   "read why the runs failed; a job that fails in one arm only is a result of its own",
	check: func(p *guardRun) {
		for cas, arm := range p.each {
			runs, lost, why := p.runs(cas.ID, arm), 0, ""
			for _, r := range runs {
				m := r.Metric(p.e.Design.Primary)
				if unsteady(r) || r.Status != result.Failed && m != nil && m.Value != nil {
					continue
				}
				lost, why = lost+1, reason(r, m)
			}
			if lost == 0 || lost == len(runs) { // all: missing-metric reports it
				continue
			}
			e := warn
			if 5*lost > len(runs) {
				e = doubt
			}
			p.report(e, scope{cas: cas.ID, arm: arm}, values{"lost": float64(lost), "runs": float64(len(runs))},
				"%d of %d runs%s in %s gave no value; reason of the last failure: %s", lost, len(runs), ofCase(cas.ID), arm, why)
		}
	},
}
