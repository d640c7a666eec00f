package explain

import (
	"encoding"

	"github.com/teescope/teescope/internal/result"
)

var _ encoding.TextMarshaler = Event{}

// MarshalText implements encoding.TextMarshaler, so JSON objects can have events as keys.
func (e Event) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

// operation is a run's count of an event.
type operation struct {
	each    float64 // per operation
	seen    float64 // in the whole run; 0 if unknown
	partial bool    // the counter sees only part of the workload, or other programs too
}

// operations sums a run's counters over the processes of the workload, whose names differ between environments. A
// failed run has none. A metric's total is listed with its kinds; if the run gives none, it is the sum over
// processes. Host-wide counters are never included: they count all other programs on the machine too.
func operations(r *result.Run) map[Event]operation {
	out := map[Event]operation{}
	if r == nil || r.Status == result.Failed {
		return out
	}
	totals := map[string]bool{} // given in addition to the series of processes
	for _, c := range r.Counters {
		totals[c.Name] = totals[c.Name] || len(c.Labels) == 0
	}
	for _, c := range r.Counters {
		if c.PerOperation == nil || c.Trust == result.None {
			continue
		}
		e := EventOf(c.Name, c.Labels)
		if e == e.Total() && len(c.Labels) > 0 && totals[c.Name] {
			continue
		}
		o := out[e]
		o.each += *c.PerOperation
		if c.Value != nil {
			o.seen += *c.Value
		}
		o.partial = o.partial || c.Trust == result.Partial
		out[e] = o
	}
	return out
}

// in returns a run's count of an event. The source names only kinds that occurred: next to a total, a kind that is
// not named is 0.
func (e Event) in(run map[Event]operation) (float64, bool) {
	o, ok := run[e]
	if !ok {
		_, ok = run[e.Total()]
	}
	return o.each, ok
}
