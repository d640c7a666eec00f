package explain

import (
	"cmp"
	"maps"
	"slices"

	"github.com/teescope/teescope/internal/query"
)

// regions returns a row for each region that the sampling clock distinguishes, including its system calls.
func regions(l *Ledger) (out []row) {
	times := map[string]float64{}
	for _, e := range l.events(CPUSamples) {
		if inRegion(e) {
			times[e.Label("call")] += l.counted[e]
		}
	}
	for _, name := range slices.Sorted(maps.Keys(times)) {
		r := row{Row: Row{event: event(CPUSamples, "call", name), ID: "region:" + name, Title: cmp.Or(Regions[name], name), Part: User, Time: l.sampled("cpu", times[name]),
			Evidence: []query.Evidence{cores("CPU time in "+name+", its system calls included", times[name], l.process.Rate(CPUSamples, query.MatchersFor("call", name)))}}}
		if v := l.kindlessTotal(HandshakeCount); name == "tls_handshake" && v > 0 {
			rate := exactly(v)
			r.Rate, r.Unit = &rate, measured(r.Time, rate, "handshakes")
			r.Evidence = append(r.Evidence, perSecond("TLS handshakes", v, l.process.Rate(HandshakeCount)))
		}
		out = append(out, r)
	}
	return out
}

// otherModes returns a row for CPU time outside programs and the kernel's work for them.
func otherModes(l *Ledger) (out []row) {
	for _, m := range []struct{ mode, id, title string }{
		{"interrupt", "interrupts", "interrupts"},
		{"thread", "thread", "kernel thread"},
	} {
		if v := l.total(CPUSamples, labelIs("mode", m.mode)); v > 0 {
			r := row{Row: Row{ID: m.id, Title: m.title, Part: Kernel, Time: l.sampled("cpu", v), Evidence: l.modeEvidence(m.mode)}}
			l.lessBounces(&r, m.mode, "")
			out = append(out, r)
		}
	}
	return out
}
