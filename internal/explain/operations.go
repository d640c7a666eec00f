package explain

import (
	"encoding"

	"github.com/teescope/teescope/internal/result"
)

var _ encoding.TextMarshaler = Event{}

// MarshalText implements encoding.TextMarshaler, so that JSON objects can have events
// as keys.
func (e Event) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

// operation is what a run counted of an event.
type operation struct {
	each    float64 // per operation
	seen    float64 // in the whole run; 0 where it does not say
	partial bool    // the counter sees only a part of the workload, or others too
}

// operations sums a run's counters over the processes of the workload, which have
// other names in other environments. A failed run has none. A total of a metric
// stands beside its kinds; without one, the sum over processes is the total. Host-wide
// counters are never among them: they count everything else on the machine too.
func operations(r *result.Run) map[Event]operation {
	out := map[Event]operation{}
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

// in is a run's count of an event. The source names only the kinds of events that
// there were: beside a total, one that is not named was none.
func (e Event) in(run map[Event]operation) (float64, bool) {
	o, ok := run[e]
	if !ok {
		_, ok = run[e.Total()]
	}
	return o.each, ok
}
