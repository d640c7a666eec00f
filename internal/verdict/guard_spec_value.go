package verdict

import (
	"fmt"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/result"
)

var specValue = Guard{
	ID:     "spec-value",
	Doc:    "A value comes from a vendor's specification or from literature; it was not measured here. Such values are shown next to measurements and never compared.",
	Effect: "invalid, without a ratio",
	Help:   "measure the value, or list it under references",
	check: func(p *guardRun) {
		type kind struct {
			scope
			source result.Provenance
		}
		seen := map[kind]int{}
		var order []kind
		var example []float64
		for i := range p.e.Runs {
			r := &p.e.Runs[i]
			for _, m := range r.Metrics {
				if m.Value == nil || m.Source == result.Measured || m.Source == result.Derived {
					continue
				}
				k := kind{scope{cas: r.Case, arm: r.Env, metric: m.Name}, m.Source}
				if seen[k]++; seen[k] == 1 {
					order, example = append(order, k), append(example, *m.Value)
				}
			}
		}
		for i, k := range order {
			what := fmt.Sprintf("%s of %s in %s (%s, in %s)", k.metric, k.cas, k.arm, p.value(example[i], k.metric), metric.Plural(seen[k], "run"))
			v := values{"value": example[i], "runs": float64(seen[k])}
			if k.source == "" {
				p.report(withdraw, k.scope, v, "%s has no stated origin", what)
				continue
			}
			p.report(withdraw, k.scope, v, "%s is presented as a measurement but comes from %s", what, k.source)
		}
	},
}
