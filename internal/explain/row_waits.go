package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/metric"
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
		r.Rows = l.waitedObjects(r.Row, s.state, in)
		out = append(out, r)
	}
	return out
}

// leastObject is the part of a row's time from which a lock or a file has a row of its own below it.
const leastObject = 0.05

// waitedObjects returns the locks and files that a row's time was spent waiting for, the longest first. calls are those of
// the row. A lock or a file that is not known has no row.
func (l *Ledger) waitedObjects(whole Row, state string, calls []string) (out []Row) {
	series := map[string]string{"lock": LockWaits, "disk": FileWaits}[state]
	if series == "" {
		return nil
	}
	for _, e := range l.events(series) {
		v := l.counted[e]
		id, name, labels := e.Label("lock"), lockTitle(e), []string{"lock", e.Label("lock")}
		if state == "disk" {
			id = e.Label("call") + ":" + e.Label("device") + ":" + e.Label("inode")
			name, labels = fileTitle(e), []string{"call", e.Label("call"), "device", e.Label("device"), "inode", e.Label("inode")}
		}
		if name == "" || v < leastObject*whole.Time.Value || state == "disk" && !slices.Contains(calls, e.Label("call")) {
			continue
		}
		out = append(out, Row{ID: whole.ID + ":" + id, Title: name, Part: Wait, Time: l.waited(state, v),
			Evidence: []query.Evidence{{Text: "threads that wait for it", Value: v, Expr: "sum(" + l.process.Rate(series, query.MatchersFor(labels...)) + ")"}}})
	}
	slices.SortStableFunc(out, func(a, b Row) int { return cmp.Compare(b.Time.Value, a.Time.Value) })
	return out
}

// lockTitle names a lock in words; "" for those that have no series of their own.
func lockTitle(e Event) string {
	if e.Label("lock") == folded {
		return ""
	}
	return metric.LockWords(e.Label("lock"))
}

// fileTitle names a file in words; "" for those that have no series of their own.
func fileTitle(e Event) string {
	if e.Label("inode") == folded {
		return ""
	}
	return fmt.Sprintf("inode %s on %s, %s", e.Label("inode"), e.Label("device"), e.Label("call"))
}
