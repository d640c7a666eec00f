package verdict

import (
	"math"

	"github.com/teescope/teescope/internal/metric"
)

var retried = Guard{
	ID:     "retried",
	Doc:    "More than 1 % of the requests were sent twice (retried_ratio above 0.01), because the server had closed the connection that they went out on. Their times contain the first attempt.",
	Effect: "a warning: the times of these requests describe the connection, not the answer",
	Help:   "let the server keep its connections open, or use more warm-up requests: after the first such request each has a connection of its own",
	check: func(p *pass) {
		name := p.named("retried_ratio")
		if name == "" {
			return
		}
		for cas, env := range p.each {
			switch v := p.median(cas, env, name); {
			case math.IsNaN(v):
				p.unknown(scope{cas: cas.ID, arm: env}, "whether requests of %s were sent twice in %s: no run has %s", cas.ID, env, name)
			case v > sentAgain:
				p.say(warn, scope{cas: cas.ID, arm: env}, values{"ratio": v}, "%s of the requests of %s were sent twice in %s", metric.Percent(v), cas.ID, env)
			}
		}
	},
}
