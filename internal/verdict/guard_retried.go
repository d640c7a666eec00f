package verdict

import (
	"math"

	"github.com/teescope/teescope/internal/metric"
)

var retried = Guard{
	ID:     "retried",
	Doc:    "The server closed connections, so more than 1 % of the requests were sent twice (retried_ratio above 0.01). The times of these requests include the first attempt. Or only one of the arms reused connections (new_connection_ratio).",
	Effect: "a warning: the times of these requests describe the connection, not the answer",
	Help:   "let the server keep its connections open, or use more warm-up requests, after which each request has an open connection",
	check: func(p *guardRun) {
		name := p.named("retried_ratio")
		if name == "" {
			return
		}
		if single := p.named("new_connection_ratio"); single != "" {
			for _, k := range p.contests {
				if b, t := p.median(k.cas, k.base.ID, single), p.median(k.cas, k.treat.ID, single); b != t && !math.IsNaN(b) && !math.IsNaN(t) {
					p.report(warn, k.scope(), values{"baseline": b, "treatment": t}, "only one of %s and %s reused connections%s", k.base.ID, k.treat.ID, inCase(k.cas.ID))
				}
			}
		}
		for cas, env := range p.each {
			switch v := p.median(cas, env, name); {
			case math.IsNaN(v):
				p.unknown(scope{cas: cas.ID, arm: env}, "whether requests of %s were sent twice in %s: no run has %s", cas.ID, env, name)
			case v > sentAgain:
				p.report(warn, scope{cas: cas.ID, arm: env}, values{"ratio": v}, "%s of the requests%s were sent twice in %s", metric.Percent(v), ofCase(cas.ID), env)
			}
		}
	},
}
