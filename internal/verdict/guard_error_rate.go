package verdict

import (
	"math"

	"github.com/teescope/teescope/internal/metric"
)

// errorLimit is the share of failed operations above which a latency describes only the surviving operations.
const errorLimit = 0.001

var errorRate = Guard{
	ID:     "error-rate",
	Doc:    "More than 0.1 % of the operations failed. Failed operations are often the fast or the slow ones, so the rest is not representative.",
	Effect: "invalid if one arm is above the limit; a warning if both arms are above the limit, within a factor of two of each other",
	Help:   "lower the load until neither arm fails, or compare the error rates themselves",
	check: func(p *guardRun) {
		for _, k := range p.contests {
			b, errsB := p.errors(k.base.ID, k.cas.ID)
			t, errsT := p.errors(k.treat.ID, k.cas.ID)
			v := values{"baseline": b, "treatment": t}
			switch {
			case errsB+errsT == 0:
			case math.IsNaN(b) || math.IsNaN(t):
				p.unknown(k.scope(), "what share of the operations%s failed: there were %d errors in %s and %d in %s, and no count of operations", ofCase(k.cas.ID), errsB, k.base.ID, errsT, k.treat.ID)
			case max(b, t) <= errorLimit:
			case min(b, t) > errorLimit && max(b, t) <= 2*min(b, t):
				p.report(warn, k.scope(), v, "%s of the operations%s failed in %s and %s in %s", metric.Percent(b), ofCase(k.cas.ID), k.base.ID, metric.Percent(t), k.treat.ID)
			default:
				p.report(refuse, k.scope(), v, "%s of the operations%s failed in %s and %s in %s: the limit is %s", metric.Percent(b), ofCase(k.cas.ID), k.base.ID, metric.Percent(t), k.treat.ID, metric.Percent(errorLimit))
			}
		}
	},
}

// errors returns the errors of a case in an arm: as a share of its operations (NaN if those are unknown) and as a
// number.
func (p *guardRun) errors(env, cas string) (share float64, n int) {
	ops := 0.0
	for _, r := range p.runs(cas, env) {
		for _, c := range r.Errors {
			n += c
		}
		if v, ok := value(r, p.e.Workload.Operations); ok {
			ops += v
		}
	}
	switch {
	case n == 0:
		return 0, 0
	case ops == 0:
		return math.NaN(), n
	}
	return float64(n) / ops, n
}
