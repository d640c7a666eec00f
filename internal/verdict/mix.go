package verdict

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/stats"
)

// Count is how often something happened per operation in the runs of a point.
type Count struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	Runs   int     `json:"runs"`

	events float64 // that were seen in a run, at most; 0 where no run says it
}

// Shift is a counter whose number per operation is another one.
type Shift struct {
	Counter string `json:"counter"` // as PromQL writes it, without the process
	Before  Count  `json:"before"`
	After   Count  `json:"after"`
}

// MixChange is a point whose program does other things than that of the point
// before it: other system calls, other faults.
type MixChange struct {
	Index int    `json:"index"`
	Label string `json:"label"`
	// Shifts are sorted by the size of the difference.
	Shifts []Shift `json:"shifts"`
}

// A counter has shifted between two points where no run of the one is within the
// range of the other's, with at least shiftRuns each; where the medians differ by
// shiftRatio of the larger; and by shiftShare of all that its metric counted, so
// that a rare call at the start of a program is not news. What happens less than once
// an operation must have been seen shiftEvents times in a run: one or two events more or
// less are chance (the standard deviation of a count is its root).
const (
	shiftRuns   = 3
	shiftRatio  = 0.2
	shiftShare  = 0.05
	shiftEvents = 10
)

// mixChanges compares each point with the one before it. Points whose counters
// were not attached are passed over.
func mixChanges(points []Point) (out []MixChange) {
	last := -1
	for i := range points {
		if len(points[i].Counters) == 0 {
			continue
		}
		if last >= 0 {
			if s := shifts(points[last].Counters, points[i].Counters); len(s) > 0 {
				out = append(out, MixChange{Index: i, Label: points[i].Label, Shifts: s})
			}
		}
		last = i
	}
	return out
}

// shifts are the counters that differ between two points.
func shifts(a, b map[string]Count) (out []Shift) {
	totals := map[string]float64{} // by metric, the larger of both points
	for _, m := range []map[string]Count{a, b} {
		sum := map[string]float64{}
		for name, c := range m {
			sum[family(name)] += c.Median
		}
		for f, v := range sum {
			totals[f] = max(totals[f], v)
		}
	}
	names := maps.Clone(a)
	maps.Copy(names, b)
	for name := range names {
		x, okX := countOf(a, name)
		y, okY := countOf(b, name)
		diff := math.Abs(x.Median - y.Median)
		if okX && okY && !chance(x, y) && x.Runs >= shiftRuns && y.Runs >= shiftRuns && (x.Max < y.Min || y.Max < x.Min) &&
			diff >= shiftRatio*max(x.Median, y.Median) && diff >= shiftShare*totals[family(name)] {
			out = append(out, Shift{Counter: name, Before: x, After: y})
		}
	}
	slices.SortFunc(out, func(p, q Shift) int {
		if d := math.Abs(q.After.Median-q.Before.Median) - math.Abs(p.After.Median-p.Before.Median); d != 0 {
			return int(math.Copysign(1, d))
		}
		return strings.Compare(p.Counter, q.Counter)
	})
	return out
}

// chance reports whether two counts are of so few events that their difference says nothing.
func chance(x, y Count) bool {
	seen := max(x.events, y.events)
	return max(x.Median, y.Median) < 1 && seen > 0 && seen < shiftEvents
}

// countOf is a point's count of a counter. Where others of its metric were
// counted, one that has no entry was never seen: that is a 0 that was measured.
func countOf(m map[string]Count, name string) (Count, bool) {
	if c, ok := m[name]; ok {
		return c, true
	}
	for other, c := range m {
		if family(other) == family(name) {
			return Count{Runs: c.Runs}, true
		}
	}
	return Count{}, false
}

func family(counter string) string {
	name, _, _ := strings.Cut(counter, "{")
	return name
}

// counters are the counts per operation of an arm's usable runs: of those counters
// of events that see all of the workload, summed over its processes. CPU time and
// preemptions are left out: they tell of the machine as much as of the program.
// The sum over a metric's labels is left out where the parts are known.
func (p *pass) counters(c *result.Case, env string) map[string]Count {
	values, events := map[string][]float64{}, map[string]float64{}
	runs := map[string]int{} // in which each metric was counted
	for _, r := range p.runs(c.ID, env) {
		if r.Status == result.Failed {
			continue
		}
		sums, seen := map[string]float64{}, map[string]float64{}
		for _, k := range r.Counters {
			if k.PerOperation != nil && k.Trust == result.Full && k.Labels["kind"] != "involuntary" && !strings.HasSuffix(k.Name, "_seconds_total") {
				sums[withoutProcess(k)] += *k.PerOperation
				if k.Value != nil {
					seen[withoutProcess(k)] += *k.Value
				}
			}
		}
		for name := range sums {
			if f := family(name); f != name {
				delete(sums, f)
			}
		}
		counted := map[string]bool{} // a run without a metric says nothing of its counters
		for name := range sums {
			counted[family(name)] = true
			if values[name] == nil { // one that appears for the first time was 0 in the runs before
				values[name] = make([]float64, runs[family(name)])
			}
		}
		for name := range values {
			if counted[family(name)] {
				values[name] = append(values[name], sums[name])
				events[name] = max(events[name], seen[name])
			}
		}
		for f := range counted {
			runs[f]++
		}
	}
	out := map[string]Count{}
	for name, v := range values {
		out[name] = Count{Median: stats.Median(v), Min: slices.Min(v), Max: slices.Max(v), Runs: len(v), events: events[name]}
	}
	return out
}

func withoutProcess(c result.Counter) string {
	var labels []string
	for _, k := range slices.Sorted(maps.Keys(c.Labels)) {
		if k != "process" {
			labels = append(labels, fmt.Sprintf("%s=%q", k, c.Labels[k]))
		}
	}
	if labels == nil {
		return c.Name
	}
	return c.Name + "{" + strings.Join(labels, ",") + "}"
}
