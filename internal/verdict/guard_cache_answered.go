package verdict

import (
	"math"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/stats"
)

var cacheAnswered = Guard{
	ID: "cache-answered",
	Doc: "The block layer saw fewer requests than the job asked for (metric block_layer_ratio below 0.9): a cache answered, not the device. " +
		"An arm without a view of the block layer, such as gVisor, is compared by the bytes that the disks of its machine moved during the runs.",
	Effect: "invalid if only one arm is affected; a warning if both arms are affected, or if the arms are declared to differ in a parameter of the job; a note if the block layer could not be observed",
	Help:   "use direct I/O and a file twice the size of memory, and drop the caches before each run; to compare caches, make both arms cached",
	check: func(p *guardRun) {
		name := p.named("block_layer_ratio")
		if name == "" {
			return
		}
		for _, k := range p.contests {
			b, t := p.median(k.cas, k.base.ID, name), p.median(k.cas, k.treat.ID, name)
			if math.IsNaN(b) || math.IsNaN(t) {
				b, t = p.deviceShares(k, b, t)
			}
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

// deviceShares fills in what the block layer of one arm did not show, from the counters of the machine on which both arms ran. They see
// the job's disk if they show that the other arm's bytes came from it; otherwise nothing is known.
func (p *guardRun) deviceShares(k *armComparison, base, treat float64) (b, t float64) {
	if k.base.Hardware.Serial == "" || k.base.Hardware.Serial != k.treat.Hardware.Serial {
		return base, treat
	}
	onBase, onTreat := p.deviceShare(k.cas.ID, k.base.ID), p.deviceShare(k.cas.ID, k.treat.ID)
	switch {
	case math.IsNaN(treat) && base >= cacheAnswers && onBase >= cacheAnswers:
		return base, onTreat
	case math.IsNaN(base) && treat >= cacheAnswers && onTreat >= cacheAnswers:
		return onBase, treat
	}
	return base, treat
}

// deviceShare is the share of a job's bytes that the disks of its machine moved during the runs. It is an upper bound, because other
// programs' bytes are in it; NaN where the runs lack either number.
func (p *guardRun) deviceShare(cas, env string) float64 {
	var x []float64
	for _, r := range p.runs(cas, env) {
		bytes, operations := 0.0, 0.0
		for _, way := range []string{"read", "write"} {
			b, ok := value(r, p.named(way+"_bytes_per_second"))
			n, counted := value(r, p.named(way+"_operations_per_second"))
			if ok && counted {
				bytes, operations = bytes+b, operations+n
			}
		}
		moved, seen := movedPerOperation(r)
		if seen && bytes > 0 && operations > 0 {
			x = append(x, moved/(bytes/operations))
		}
	}
	return stats.Median(x)
}

// movedPerOperation adds up the bytes that the machine's disks read and wrote during a run, for each of its operations.
func movedPerOperation(r *result.Run) (bytes float64, seen bool) {
	for i := range r.Counters {
		c := &r.Counters[i]
		if way := c.Labels["operation"]; c.Name == "tee_block_bytes_total" && c.Scope == "machine" && c.PerOperation != nil && (way == "read" || way == "write") {
			bytes, seen = bytes+*c.PerOperation, true
		}
	}
	return bytes, seen
}
