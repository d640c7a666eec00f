package explain

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/stats"
)

// Count is how often something happened per operation in the runs of an arm.
type Count struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	Runs   int     `json:"runs"`

	seen float64 // events in a run, at most; 0 if no run states it
}

// Shift is an event whose number per operation has changed between two results.
type Shift struct {
	Event  Event `json:"counter"`
	Before Count `json:"before"`
	After  Count `json:"after"`
}

// An event has shifted if no run of one result is within the range of the other's, with at least shiftRuns runs each;
// if the medians differ by shiftRatio of the larger; and if they differ by shiftShare of all that its metric counted,
// so a rare call at the start of a program is not news. An event that happens less than once per operation must have
// occurred shiftEvents times in a run: one or two events more or less are chance (the standard deviation of a count
// is its root).
const (
	shiftRuns   = 3
	shiftRatio  = 0.2
	shiftShare  = 0.05
	shiftEvents = 10
)

// Shifts returns the events that differ between two results, the largest difference first.
func Shifts(before, after map[Event]Count) (out []Shift) {
	totals := map[string]float64{} // by metric, the larger of both
	for _, counts := range []map[Event]Count{before, after} {
		sum := map[string]float64{}
		for e, c := range counts {
			sum[e.Metric] += c.Median
		}
		for name, v := range sum {
			totals[name] = max(totals[name], v)
		}
	}
	events := maps.Clone(before)
	maps.Copy(events, after)
	for e := range events {
		x, okX := CountOf(before, e)
		y, okY := CountOf(after, e)
		diff := math.Abs(x.Median - y.Median)
		if okX && okY && !chance(x, y) && x.Runs >= shiftRuns && y.Runs >= shiftRuns && (x.Max < y.Min || y.Max < x.Min) &&
			diff >= shiftRatio*max(x.Median, y.Median) && diff >= shiftShare*totals[e.Metric] {
			out = append(out, Shift{Event: e, Before: x, After: y})
		}
	}
	size := func(s Shift) float64 { return math.Abs(s.After.Median - s.Before.Median) }
	slices.SortFunc(out, func(p, q Shift) int { return cmp.Or(cmp.Compare(size(q), size(p)), p.Event.compare(q.Event)) })
	return out
}

// chance reports whether two counts are of so few events that their difference means nothing.
func chance(x, y Count) bool {
	seen := max(x.seen, y.seen)
	return max(x.Median, y.Median) < 1 && seen > 0 && seen < shiftEvents
}

// CountOf returns a result's count of an event. If other events of its metric were counted, an event without an entry
// never happened: that is a measured 0.
func CountOf(counts map[Event]Count, e Event) (Count, bool) {
	if c, ok := counts[e]; ok {
		return c, true
	}
	for other, c := range counts {
		if other.Metric == e.Metric {
			return Count{Runs: c.Runs}, true
		}
	}
	return Count{}, false
}

// Counts returns what the usable runs of an arm did per operation, by the event counters that see the whole workload.
// CPU time and preemptions are left out: they depend on the machine as much as on the program. A metric's total is
// left out if its kinds are known.
func Counts(runs []*result.Run) map[Event]Count {
	values, seen := map[Event][]float64{}, map[Event]float64{}
	made := map[string]int{} // runs in which each metric was counted
	for _, r := range runs {
		counted := operations(r)
		maps.DeleteFunc(counted, func(e Event, o operation) bool {
			return o.partial || e.Label("kind") == "involuntary" || strings.HasSuffix(e.Metric, "_seconds_total")
		})
		metrics := map[string]bool{} // a run without a metric says nothing about its events
		for e := range counted {
			metrics[e.Metric] = true
			if e != e.Total() {
				delete(counted, e.Total())
			}
		}
		for e := range counted {
			if values[e] == nil { // one that appears for the first time was 0 in the runs before
				values[e] = make([]float64, made[e.Metric])
			}
		}
		for e := range values {
			if metrics[e.Metric] {
				values[e] = append(values[e], counted[e].each)
				seen[e] = max(seen[e], counted[e].seen)
			}
		}
		for name := range metrics {
			made[name]++
		}
	}
	out := map[Event]Count{}
	for e, v := range values {
		out[e] = Count{Median: stats.Median(v), Min: slices.Min(v), Max: slices.Max(v), Runs: len(v), seen: seen[e]}
	}
	return out
}
