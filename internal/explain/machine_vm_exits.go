package explain

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/query"
)

// vmExits is the time from exits of the host's virtual machines to their next entries, by the machines' protection.
// It includes waiting for a CPU; halted guests are left out. Below it is how often they exit for each reason, and what
// confidential guests then call their host for.
var vmExits = machineKind{
	reads: append(histogram(VMExitTime, "type", notHalted),
		machineSeries{name: VMExits, by: "type, reason"}, machineSeries{name: VMGuestCalls, by: "type, reason"}, machineSeries{name: VMTDCalls, by: "type, reason"}),
	rows: func(l *Ledger) (out []Row) {
		types := map[string]bool{}
		for _, name := range []string{VMExitTime + "_count", VMExits} {
			for _, e := range eventsIn(l.shared, name) {
				types[e.Label("type")] = true
			}
		}
		for _, kind := range slices.Sorted(maps.Keys(types)) {
			id, title := "vm_exits:"+kind, "exits of virtual machines, type "+kind
			r, timed := l.timed(id, title, histogram(VMExitTime, "", notHalted), labelIs("type", kind), query.MatchersFor("type", kind))
			if !timed {
				r = l.untimedExits(id, title, kind)
			}
			if r.Rate == nil {
				continue
			}
			r.Cause, r.Rows = "vm_exit_storm", l.exitReasons(id, kind)
			r.Advice = l.exitAdvice(r.Cause, r.Rows)
			out = append(out, r)
		}
		return out
	},
}

// exitAdvice returns what to do about the most frequent reason. A confidential guest's calls are of one reason to the
// processor, and so their own most frequent reason is taken.
func (l *Ledger) exitAdvice(cause string, parts []Row) string {
	c := l.named(cause)
	if c == nil || c.ByReason == nil || len(parts) == 0 {
		return ""
	}
	reason := parts[0].Title
	if reason == "vmgexit" || reason == "tdcall" {
		for _, p := range parts {
			if call, ok := strings.CutPrefix(p.Title, called); ok && c.ByReason(call) != "" {
				reason = call
				break
			}
		}
	}
	return strings.TrimSpace(c.ByReason(reason) + " " + c.Remedy)
}

// notHalted leaves out guests that have nothing to do.
const notHalted = `handled!="halted"`

// untimedExits returns the row of exits whose time is not measured, which takes the source's level of detail latency.
func (l *Ledger) untimedExits(id, title, kind string) Row {
	v := 0.0
	for _, e := range eventsIn(l.shared, VMExits) {
		if e.Label("type") == kind {
			v += l.shared[e]
		}
	}
	if !(v > 0) {
		return Row{}
	}
	rate := l.counts(VMExits, v)
	return Row{ID: id, Title: title, Part: Kernel, Rate: &rate, Reason: notPriced + ": set the source kvm to level latency to measure it; halts of idle guests are included",
		Evidence: []query.Evidence{perSecond(title, v, l.machine.Rate(VMExits, query.MatchersFor("type", kind)))}}
}

// called goes before the reason of a confidential guest's call.
const called = "call: "

// mostReasons is how many reasons a row shows, the most frequent ones.
const mostReasons = 8

// exitReasons returns how often virtual machines of a type exit for each reason. The time of one is not known by
// reason, and so the parts have none.
func (l *Ledger) exitReasons(id, kind string) (out []Row) {
	for _, side := range []struct{ metric, what string }{{VMExits, ""}, {VMGuestCalls, called}, {VMTDCalls, called}} {
		var part []Row
		for _, e := range eventsIn(l.shared, side.metric) {
			reason, v := e.Label("reason"), l.shared[e]
			if e.Label("type") != kind || !(v > 0) {
				continue
			}
			rate, title := l.counts(side.metric, v), side.what+reason
			part = append(part, Row{ID: id + ":" + title, Title: title, Part: Kernel, Rate: &rate,
				Evidence: []query.Evidence{perSecond(title, v, l.machine.Rate(side.metric, query.MatchersFor("type", kind, "reason", reason)))}})
		}
		slices.SortStableFunc(part, func(a, b Row) int { return cmp.Compare(b.Rate.Value, a.Rate.Value) })
		out = append(out, part[:min(mostReasons, len(part))]...)
	}
	return out
}
