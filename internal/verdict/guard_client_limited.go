package verdict

import (
	"math"

	"github.com/teescope/teescope/internal/metric"
)

var clientLimited = Guard{
	ID:     "client-limited",
	Doc:    "The load generator was the bottleneck: its CPUs were busy (client_cpu_ratio above 0.9) or it sent more than 1 % of the requests late (late_ratio above 0.01).",
	Effect: "invalid",
	Help:   "give the load generator more cores, run it on another machine (--client ssh:HOST), or lower the rate",
	check: func(p *guardRun) {
		for _, r := range []struct {
			metric string
			limit  float64
			what   string
		}{{"client_cpu_ratio", clientBusy, "of its CPUs were busy"}, {"late_ratio", lateRequests, "of the requests were sent late"}} {
			name := p.named(r.metric)
			if name == "" {
				continue
			}
			for cas, env := range p.each {
				switch v := p.median(cas, env, name); {
				case math.IsNaN(v):
					p.unknown(scope{cas: cas.ID, arm: env}, "whether the load generator was the bottleneck%s in %s: no run has %s", ofCase(cas.ID), env, name)
				case v > r.limit:
					p.report(refuse, scope{cas: cas.ID, arm: env}, values{"ratio": v}, "the load generator was the bottleneck%s in %s: %s %s", ofCase(cas.ID), env, metric.Percent(v), r.what)
				}
			}
		}
	},
}
