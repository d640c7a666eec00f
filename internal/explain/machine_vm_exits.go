package explain

import (
	"maps"
	"slices"
)

// vmExits is the time from exits of the host's virtual machines to their next entries, by the machines' protection.
// It includes waiting for a CPU; halted guests are left out.
var vmExits = machineKind{
	reads: histogram(VMExitTime, "type", notHalted),
	rows: func(l *Ledger) (out []Row) {
		types := map[string]bool{}
		for _, e := range eventsIn(l.shared, VMExitTime+"_count") {
			types[e.Label("type")] = true
		}
		for _, kind := range slices.Sorted(maps.Keys(types)) {
			if r, ok := l.timed("vm_exits:"+kind, "exits of virtual machines, type "+kind, histogram(VMExitTime, "", notHalted), with("type", kind), matchers("type", kind)); ok {
				r.Cause = "vm_exit_storm"
				out = append(out, r)
			}
		}
		return out
	},
}

// notHalted leaves out guests that have nothing to do.
const notHalted = `handled!="halted"`
