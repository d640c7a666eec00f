package explain

import (
	"maps"
	"slices"

	"github.com/teescope/teescope/internal/query"
)

// callID begins the id of a system call's row.
const callID = "syscall:"

// folded is the name under which calls are counted when the table of names is full. Their time is in the rows of
// their own calls.
const folded = "other"

// calls returns a row for each system call: its sampled time, and below it the cost of entering and leaving the
// kernel. Without samples, that price is all there is.
func calls(l *Ledger) []row {
	if !l.has(CPUSamples) {
		return pricedCalls(l)
	}
	names := map[string]bool{}
	for _, e := range l.events(CPUSamples) {
		// Kernel time without a call is unexplained and stays in the rest.
		if e.Label("mode") == "kernel" && e.Label("call") != "" && !inRegion(e) {
			names[e.Label("call")] = true
		}
	}
	unseen, hides := l.unit("syscall_unseen")
	for _, e := range l.events(CallCount) {
		if name := e.Label("syscall"); name != "" && hides && l.counted[e] > 0 {
			names[name] = true
		}
	}
	var out []row
	for _, name := range slices.Sorted(maps.Keys(names)) {
		e := event(CallCount, "syscall", name)
		r := row{Row: Row{event: e, ID: callID + name, Title: name, Part: Kernel, Evidence: l.cpuEvidence("kernel", name)}}
		r.Time = l.sampled("cpu", l.counted[event(CPUSamples, "mode", "kernel", "call", name)])
		l.lessBounces(&r, "kernel", name)
		if v := l.counted[e]; v > 0 && r.Time.Value >= 0 {
			rate, exact := l.callRate(e)
			if exact {
				r.Evidence = append(r.Evidence, perSecond(name+" calls, as the kernel counts them", rate.Value, l.process.Rate("tee_process_io_calls_total", query.MatchersFor("operation", operationOf(name)))))
			}
			r.unseen(rate, unseen, hides)
			r.Rate = &rate
			r.Evidence = append(r.Evidence, l.callEvidence(e))
			switch {
			case name == folded:
				r.Title = "calls not distinguished"
			case l.partly(e):
			default:
				r.Unit = measured(r.Time, rate, "these calls")
				if entry, ok := l.entry(e, rate); ok {
					r.Rows = splitTime(r.Time, entry, Row{ID: "inside:" + name, Title: "the call's own work", Part: Kernel})
				}
			}
		}
		out = append(out, r)
	}
	return out
}

// The calls that the kernel counts as reads and as writes of a process (proc_pid_io(5)), and those that count as both.
var ioCallsOf = map[string][]string{
	"read":  {"read", "pread64", "readv", "preadv", "preadv2"},
	"write": {"write", "pwrite64", "writev", "pwritev", "pwritev2"},
}

var copyCalls = []string{"sendfile", "copy_file_range", "splice", "compat", folded}

// operationOf returns the operation of which the kernel counts a call, "" for none.
func operationOf(call string) string {
	for operation, calls := range ioCallsOf {
		if slices.Contains(calls, call) {
			return operation
		}
	}
	return ""
}

// callRate returns a call's rate, and whether it is the kernel's own count. That has it where no other call of the
// process adds to the count, and where the estimate does not contradict it: refused calls are not in it.
func (l *Ledger) callRate(e Event) (rate Amount, exact bool) {
	rate = l.rated("syscalls", l.counted[e])
	operation := operationOf(e.Label("syscall"))
	n := l.ioCalls[operation]
	if operation == "" || rate.Low == rate.High || n < rate.Low || n > rate.High {
		return rate, false
	}
	others := l.total(CallCount, func(o Event) bool {
		name := o.Label("syscall")
		return o != e && (slices.Contains(ioCallsOf[operation], name) || slices.Contains(copyCalls, name))
	})
	if others > 0 {
		return rate, false
	}
	return exactly(n), true
}

// partly reports whether some of a call's time is in the row of a region that may have made it: then its time and its
// rate are not of the same calls. Regions make ordinary calls, which indicate no cause, and ask for randomness.
func (l *Ledger) partly(e Event) bool {
	within := l.total(CPUSamples, func(e Event) bool { return e.Label("mode") == "kernel" && inRegion(e) })
	return within > 0 && (l.cause(e, Circumstances{}) == nil || e.Label("syscall") == "getrandom")
}

// entry prices entering and leaving a call: the cost of a call that does nothing.
func (l *Ledger) entry(e Event, rate Amount) (Row, bool) {
	return l.priced("entry:"+e.Label("syscall"), "kernel entry and exit", l.price(e), rate, l.callEvidence(e))
}

func pricedCalls(l *Ledger) (out []row) {
	for _, e := range l.events(CallCount) {
		name := e.Label("syscall")
		if v := l.counted[e]; v > 0 && name != "" {
			if entry, ok := l.entry(e, l.rated("syscalls", v)); ok {
				entry.event, entry.ID, entry.Title = e, callID+name, name+" (entry only)"
				out = append(out, row{Row: entry})
			}
		}
	}
	return out
}

func (l *Ledger) callEvidence(e Event) query.Evidence {
	call := e.Label("syscall")
	return perSecond(call+" calls", l.counted[e], l.process.Rate(CallCount, query.MatchersFor("syscall", call)))
}
