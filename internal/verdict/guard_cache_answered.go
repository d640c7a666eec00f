package verdict

import (
	"math"

	"github.com/teescope/teescope/internal/metric"
)

var cacheAnswered = Guard{
	ID:     "cache-answered",
	Doc:    "The block layer saw fewer requests than the job asked for (metric block_layer_ratio below 0.9): a cache answered, not the device.",
	Effect: "invalid if only one arm is affected; a warning if both are, or if the arms are declared to differ in a parameter of the job; a note if the block layer could not be observed",
	Help:   "use direct I/O and a file twice the size of memory, and drop the caches before each run; to compare caches, make both arms cached",
	check: func(p *guardRun) {
		name := p.named("block_layer_ratio")
		if name == "" {
			return
		}
		for _, k := range p.contests {
			b, t := p.median(k.cas, k.base.ID, name), p.median(k.cas, k.treat.ID, name)
			v := values{"baseline": b, "treatment": t}
			switch {
			case math.IsNaN(b) || math.IsNaN(t):
				p.unknown(k.scope(), "whether a cache answered%s: the block layer of %s was not measured", inCase(k.cas.ID), pick(math.IsNaN(b), k.base.ID, k.treat.ID))
			case b < cacheAnswers && t < cacheAnswers:
				p.report(warn, k.scope(), v, "a cache answered in both arms%s: the devices saw only %s and %s of the requests", ofCase(k.cas.ID), metric.Percent(b), metric.Percent(t))
			case (b < cacheAnswers || t < cacheAnswers) && p.e.Design.Subject != "" && p.e.Design.Subject != "environment":
				p.report(warn, k.scope(), v, "a cache answered for %s%s: the devices saw %s and %s of the requests; the arms are declared to differ in %s",
					pick(b < t, k.base.ID, k.treat.ID), inCase(k.cas.ID), metric.Percent(b), metric.Percent(t), p.e.Design.Subject)
			case b < cacheAnswers || t < cacheAnswers:
				p.report(refuse, k.scope(), v, "a cache answered for %s%s: the devices saw %s of the requests in %s and %s in %s",
					pick(b < t, k.base.ID, k.treat.ID), inCase(k.cas.ID), metric.Percent(b), k.base.ID, metric.Percent(t), k.treat.ID)
			}
		}
	},
}
