package verdict

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/stats"
)

// attribute lists, for every contest and counter, by how much the arms differ
// per operation: the median over the pairs in use (of unpaired arms, the
// difference of medians). What one event costs is not known here, so the shares
// are null with their reason. A counter that one arm did not give, or that sees
// nothing of the workload, makes no row: absent, never 0.
func (p *pass) attribute() []result.Attribution {
	var out []result.Attribution
	for _, k := range p.contests {
		var bases, treats []map[string]float64
		partial := map[string]bool{}
		for _, d := range k.duos {
			if k.used(d) {
				bases, treats = append(bases, perOperation(d.base, partial)), append(treats, perOperation(d.treat, partial))
			}
		}
		deltas := map[string][]float64{}
		inTreat := named(treats)
		for name := range named(bases) {
			if !inTreat[name] {
				continue
			}
			var base, treat []float64
			for i := range bases {
				b, okB := count(bases[i], name)
				t, okT := count(treats[i], name)
				if okB {
					base = append(base, b)
				}
				if okT {
					treat = append(treat, t)
				}
				if okB && okT {
					deltas[name] = append(deltas[name], t-b)
				}
			}
			if k.unpaired {
				deltas[name] = []float64{stats.Median(treat) - stats.Median(base)}
			}
		}
		for _, name := range slices.Sorted(maps.Keys(deltas)) {
			why := "not calibrated"
			if partial[name] {
				why += "; the counter sees only part of the workload"
			}
			out = append(out, result.Attribution{Baseline: k.base.ID, Treatment: k.treat.ID, Case: k.cas.ID, Counter: name,
				Delta: stats.Median(deltas[name]), Reason: why})
		}
	}
	return out
}

// named are the counters that any of these runs has.
func named(runs []map[string]float64) map[string]bool {
	out := map[string]bool{}
	for _, r := range runs {
		for name := range r {
			out[name] = true
		}
	}
	return out
}

// count is a run's value of a counter. The source names only the kinds of events
// that there were: beside a total, one that is not named was none.
func count(run map[string]float64, name string) (float64, bool) {
	v, ok := run[name]
	if !ok {
		total, _, _ := strings.Cut(name, "{")
		_, ok = run[total]
	}
	return v, ok
}

// perOperation reads a run's counters, and notes those that see only a part.
func perOperation(r *result.Run, partial map[string]bool) map[string]float64 {
	out := map[string]float64{}
	if r == nil || r.Status == result.Failed {
		return out
	}
	for _, c := range r.Counters {
		if c.PerOperation == nil || c.Trust == result.None {
			continue
		}
		name := c.Name
		if len(c.Labels) > 0 {
			var ls []string
			for _, l := range slices.Sorted(maps.Keys(c.Labels)) {
				ls = append(ls, fmt.Sprintf("%s=%q", l, c.Labels[l]))
			}
			name += "{" + strings.Join(ls, ",") + "}"
		}
		out[name] = *c.PerOperation
		partial[name] = partial[name] || c.Trust == result.Partial
	}
	return out
}
