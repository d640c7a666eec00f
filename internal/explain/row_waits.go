package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/query"
)

// states are those in which a thread has work but cannot run, with the cause each indicates.
var states = []struct{ id, state, cause, title string }{
	{"lock", "lock", "lock_contention", "waiting for locks"},
	{"durable", "disk", "logging", "waiting for data on disk"},
	{"disk", "disk", "io_saturation", "waiting for disks"},
	{"queue", "cpu", Queueing, "waiting for a CPU"},
}

// waits returns a row for each kind of waiting, as sampled by a walk over the threads.
func waits(l *Ledger) (out []row) {
	for _, s := range states {
		r := row{Row: Row{ID: s.id, Title: s.title, Part: Wait}}
		v, all := 0.0, true
		var in []string
		for _, e := range l.events(WaitSamples) {
			if e.Label("state") != s.state || l.counted[e] <= 0 {
				continue
			}
			if c := l.cause(e, Circumstances{}); c == nil || c.Name != s.cause {
				all = false
				continue
			}
			r.event = e
			v += l.counted[e]
			in = append(in, e.Label("call"))
		}
		if v <= 0 {
			continue
		}
		more := []string{query.MatchersFor("state", s.state)}
		if !all {
			slices.Sort(in)
			more = append(more, fmt.Sprintf("call=~%q", strings.Join(slices.Compact(in), "|")))
		}
		r.Time = l.waited(s.state, v)
		r.Evidence = []query.Evidence{{Text: "threads " + s.title, Value: v, Expr: "sum(" + l.process.Rate(WaitSamples, more...) + ")"}}
		out = append(out, r)
	}
	return out
}
