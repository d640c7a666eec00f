package explain

import "github.com/teescope/teescope/internal/query"

// bouncesTimed describes the origin of a bounce's time.
const bouncesTimed = "their time in this window, divided by their number"

// bounces returns a row for the process's time in the kernel's bounce buffer functions during its own system calls.
// Work that interrupts and kernel threads do for it is in the rows of the machine.
func bounces(l *Ledger) []row {
	time, calls := l.total(ProcessBounceTime, everything), l.total(ProcessBounceCalls, everything)
	if !(time > 0 && calls > 0) {
		return nil
	}
	whole := l.bounce(time, calls)
	whole.event = event(ProcessBounceTime)
	whole.ID, whole.Title, whole.TEE = "bounce_buffers", "bounce buffers, in its own calls", true
	for _, e := range l.events(ProcessBounceTime) {
		call := e.Label("call")
		if call == "" {
			call = plain(e.Label("mode"))
		}
		calls := l.counted[event(ProcessBounceCalls, "mode", e.Label("mode"), "call", e.Label("call"))]
		if l.counted[e] > 0 && calls > 0 {
			part := l.bounce(l.counted[e], calls, query.MatchersFor("mode", e.Label("mode"), "call", e.Label("call")))
			part.ID, part.Title = "bounce_buffers:"+call, "in "+call
			whole.Rows = append(whole.Rows, part)
		}
	}
	return []row{{Row: whole}}
}

func (l *Ledger) bounce(time, calls float64, more ...string) Row {
	rate := l.counts(ProcessBounceCalls, calls)
	return Row{Part: Kernel, Rate: &rate, Time: l.counts(ProcessBounceTime, time), Unit: &Unit{exactly(time / calls), Measured, bouncesTimed},
		Evidence: []query.Evidence{cores("time in the kernel's functions of bounce buffers", time, l.process.Rate(ProcessBounceTime, more...)),
			perSecond("calls of them", calls, l.process.Rate(ProcessBounceCalls, more...))}}
}

// lessBounces subtracts the time in bounce buffers from the row of the system call or kernel thread whose sampled
// time includes it.
func (l *Ledger) lessBounces(r *row, mode, call string) {
	v := l.counted[event(ProcessBounceTime, "mode", mode, "call", call)]
	if !(v > 0) {
		return
	}
	r.Time = r.Time.minus(l.counts(ProcessBounceTime, v))
	r.Time.Low = max(0, r.Time.Low)
	r.bounced = true
	r.Evidence = append(r.Evidence, cores("of it in bounce buffers, a row of its own", v, l.process.Rate(ProcessBounceTime, query.MatchersFor("mode", mode, "call", call))))
}
