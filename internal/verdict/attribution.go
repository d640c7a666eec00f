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
		base, treat := map[string][]float64{}, map[string][]float64{}
		partial := map[string]bool{}
		deltas := map[string][]float64{}
		for _, d := range k.duos {
			if !k.used(d) {
				continue
			}
			b, t := perOperation(d.base, partial), perOperation(d.treat, partial)
			for name, v := range b {
				base[name] = append(base[name], v)
			}
			for name, v := range t {
				treat[name] = append(treat[name], v)
				if w, ok := b[name]; ok {
					deltas[name] = append(deltas[name], v-w)
				}
			}
		}
		if k.unpaired {
			for name := range treat {
				if base[name] != nil {
					deltas[name] = []float64{stats.Median(treat[name]) - stats.Median(base[name])}
				}
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
