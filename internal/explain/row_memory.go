package explain

import (
	"fmt"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/query"
)

// MemoryCost is how much slower memory is than that of a declared baseline.
const MemoryCost = "tee_memory_cost_ratio"

// memory returns a row for the encryption of memory. It is not an event but a factor on the process's own computing,
// an unknown part of which waits for memory. So it has a bound and no share.
func memory(l *Ledger) []row {
	worst, at := Amount{}, Event{}
	for e, factor := range l.memory {
		known := 0 < factor.Low && factor.Low <= factor.Value && factor.Value <= factor.High
		if known && (factor.Value > worst.Value || factor.Value == worst.Value && e.compare(at) < 0) {
			worst, at = factor, e
		}
	}
	if worst.Value == 0 || !l.has(CPUSamples) {
		return nil
	}
	access, size := at.Label("access"), at.Label("size")
	r := Row{ID: "memory_encryption", Title: "memory encryption", Part: User, TEE: true, Evidence: []query.Evidence{{
		Text: fmt.Sprintf("cost of memory against the baseline (%s, %s)", access, size), Value: worst.Value, Unit: "ratio",
		Expr: fmt.Sprintf("avg(%s)", l.machine.Mean(MemoryCost, query.MatchersFor("access", access, "size", size, "bound", "median")))}}}
	beside := fmt.Sprintf("a memory access takes %s as long as in the declared baseline (%s, %s)", metric.TimesOf(worst.Value, worst.Low, worst.High), access, size)
	if worst.Low <= 1 {
		r.Reason = beside + ": it may cost nothing"
	} else {
		user := l.sampled("cpu", l.total(CPUSamples, labelIs("mode", "user")))
		r.Reason = fmt.Sprintf("%s. That is at most %s of user code (%s), if all of it waited for memory; accesses that hit a cache cost nothing more",
			beside, metric.Percent(1-1/worst.High), metric.Value(user.High*(1-1/worst.High), "cores"))
	}
	return []row{{Row: r}}
}

// takeMemory keeps one number of the cost of memory.
func (l *Ledger) takeMemory(p metric.Point) {
	e := event(MemoryCost, "access", p.Labels["access"], "size", p.Labels["size"])
	l.memory[e] = l.memory[e].bounded(p)
}
