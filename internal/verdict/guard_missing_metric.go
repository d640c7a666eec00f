package verdict

import (
	"math"

	"github.com/teescope/teescope/internal/result"
)

var missingMetric = Guard{
	ID:     "missing-metric",
	Doc:    "An arm has no usable value of the primary metric, or the metric has no direction. A missing value is never 0 and never fine.",
	Effect: "invalid",
	Help:   "read the runs' missing_reason and raw output; choose another primary metric if the workload does not report this one",
	check: func(p *guardRun) {
		name := p.e.Design.Primary
		if d := p.primary(); better(d) == 0 {
			p.report(refuse, scope{}, nil, "the primary metric %q is not declared with a direction, so nothing can be worse or better", name)
			return
		}
		for _, k := range p.contests {
			for _, arm := range []string{k.base.ID, k.treat.ID} {
				got, why, odd := 0, noRuns, math.NaN()
				for _, r := range p.runs(k.cas.ID, arm) {
					m := r.Metric(name)
					switch {
					case m == nil || m.Value == nil:
						if w := reason(r, m); w != noReason || why == noRuns {
							why = w
						}
					case !(*m.Value > 0):
						odd = *m.Value
					default:
						got++
					}
				}
				if !math.IsNaN(odd) {
					p.report(withdraw, k.scope().withMetric(name), values{"value": odd}, "%s%s in %s is %s: a ratio needs values above 0", p.e.Label(name), ofCase(k.cas.ID), arm, p.value(odd, name))
				}
				if got == 0 && math.IsNaN(odd) {
					p.report(refuse, k.scope(), nil, "no run%s in %s has %s: %s", ofCase(k.cas.ID), arm, name, why)
				}
			}
		}
	},
}

const noRuns = "there are no runs"

// reason returns why a run has no value.
func reason(r *result.Run, m *result.Metric) string {
	switch {
	case r.Status == result.Failed && r.Reason != "":
		return r.Reason
	case m != nil && m.Reason != "":
		return m.Reason
	case r.Missing["metrics"] != "":
		return r.Missing["metrics"]
	}
	return noReason
}
