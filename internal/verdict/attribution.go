package verdict

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/stats"
)

// attribute lists, for every contest and counter, by how much the arms differ
// per operation: the median over the pairs in use (of unpaired arms, the
// difference of medians), with what that is at its price, the dearest first. A
// counter that one arm did not give, or that sees nothing of the workload, makes
// no row: absent, never 0.
func (p *pass) attribute() []result.Attribution {
	var out []result.Attribution
	for _, k := range p.contests {
		rows := k.deltas()
		rows = p.price(rows)
		slices.SortStableFunc(rows, func(a, b result.Attribution) int {
			return cmp.Or(cmp.Compare(weight(&b), weight(&a)), cmp.Compare(moved(&b), moved(&a)), strings.Compare(a.Counter, b.Counter))
		})
		out = append(out, rows...)
	}
	return out
}

// weight is the time that a row is about; rows without a price come after all.
func weight(a *result.Attribution) float64 {
	if a.Seconds == nil {
		return -1
	}
	return math.Abs(*a.Seconds)
}

// moved is a difference beside what both arms have, between 0 and 1.
func moved(a *result.Attribution) float64 {
	if most := max(math.Abs(*a.Base), math.Abs(*a.Base+a.Delta)); most > 0 {
		return math.Abs(a.Delta) / most
	}
	return 0
}

// deltas are the rows of a contest, without prices.
func (k *contest) deltas() []result.Attribution {
	var out []result.Attribution
	var bases, treats []map[string]float64
	partial := map[string]bool{}
	for _, d := range k.duos {
		if k.used(d) {
			bases, treats = append(bases, perOperation(d.base, partial)), append(treats, perOperation(d.treat, partial))
		}
	}
	names := named(bases)
	maps.Copy(names, named(treats))
	for name := range names {
		var base, treat, deltas []float64
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
				deltas = append(deltas, t-b)
			}
		}
		if len(base) == 0 || len(treat) == 0 {
			continue // beside no total, what an arm does not name is not known
		}
		if k.unpaired {
			deltas = []float64{stats.Median(treat) - stats.Median(base)}
		}
		if len(deltas) == 0 {
			continue // no pair has it in both arms
		}
		was := stats.Median(base)
		row := result.Attribution{Baseline: k.base.ID, Treatment: k.treat.ID, Case: k.cas.ID, Counter: name, Base: &was, Delta: stats.Median(deltas)}
		if partial[name] {
			row.Reason = partly
		}
		out = append(out, row)
	}
	return out
}

// partly is said of counters that do not count the workload and nothing else.
const partly = "the counter sees only part of the workload, or others too"

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

// perOperation sums a run's counters over the processes of the workload, which go
// by other names in other environments, and notes those that see only a part.
func perOperation(r *result.Run, partial map[string]bool) map[string]float64 {
	out := map[string]float64{}
	if r == nil || r.Status == result.Failed {
		return out
	}
	totals := map[string]bool{} // given beside the series of processes
	for _, c := range r.Counters {
		totals[c.Name] = totals[c.Name] || len(c.Labels) == 0
	}
	for _, c := range r.Counters {
		if c.PerOperation == nil || c.Trust == result.None {
			continue
		}
		var labels []string
		for _, l := range slices.Sorted(maps.Keys(c.Labels)) {
			if l != "process" {
				labels = append(labels, fmt.Sprintf("%s=%q", l, c.Labels[l]))
			}
		}
		name := c.Name
		if labels != nil {
			name += "{" + strings.Join(labels, ",") + "}"
		} else if len(c.Labels) > 0 && totals[c.Name] {
			continue
		}
		out[name] += *c.PerOperation
		partial[name] = partial[name] || c.Trust == result.Partial
	}
	return out
}
