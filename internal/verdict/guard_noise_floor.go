package verdict

import (
	"math"

	"github.com/teescope/teescope/internal/metric"
)

var noiseFloor = Guard{
	ID:     "noise-floor",
	Doc:    "The claimed difference is smaller than identical arms have shown on this host (A/A calibration).",
	Effect: "inconclusive; a note if this host and job have no calibration",
	Help:   "calibrate this workload on this host (teescope bench calibrate), and stop other work on the host until the noise floor is below the effect",
	check: func(p *guardRun) {
		if p.e.Design.Calibration {
			return
		}
		for _, k := range p.contests {
			c := p.comparison(k, p.e.Design.Primary)
			if c == nil || c.Cost == nil || c.Low == nil || c.High == nil {
				continue
			}
			f, ok := p.o.Calibration.covers(p.e, k)
			if !ok {
				p.unknown(scope{}, "whether the difference exceeds what identical arms show: there is no A/A calibration of this host and job")
				continue
			}
			floor := p.floor(k)
			if (*c.Low > 1 || *c.High < 1) && math.Abs(math.Log(*c.Cost)) <= math.Log1p(floor) {
				p.report(doubt, k.scope().withMetric(c.Metric), values{"cost_ratio": *c.Cost, "noise_floor": floor},
					"a cost of %s%s is within the noise floor of %s, which %d pairs of identical arms showed", metric.Times(*c.Cost), inCase(k.cas.ID), metric.Percent(floor), f.Pairs)
			}
		}
	},
}
