package explain

import "github.com/teescope/teescope/internal/findings"

// guestExits are the virtualization exceptions of a confidential guest, each with a call
// to the hypervisor, by reason.
var guestExits = machineKind{
	reads: []machineSeries{{name: GuestExceptions, by: "reason"}},
	rows: func(l *Ledger) []Row {
		all := Row{ID: "guest_exits", Title: "exceptions that call the hypervisor", Part: Kernel, Cause: "guest_exit_storm"}
		total := 0.0
		for _, e := range eventsIn(l.shared, GuestExceptions) {
			v := l.shared[e]
			if v <= 0 {
				continue
			}
			rate := exactly(v)
			reason := e.Label("reason")
			r := Row{ID: "guest_exits:" + reason, Title: plain(reason), Part: Kernel, Rate: &rate,
				Evidence: []findings.Evidence{perSecond("exceptions for "+reason, v, l.machineRate(GuestExceptions, matchers("reason", reason)))}}
			l.priceAll(&r, e)
			r.Reason = "" // the whole's says it
			total += v
			all.Rows = append(all.Rows, r)
		}
		if total == 0 {
			return nil
		}
		rate := exactly(total)
		all.Rate = &rate
		all.Evidence = []findings.Evidence{perSecond("exceptions that call the hypervisor", total, l.machineRate(GuestExceptions))}
		l.priceAll(&all, event(GuestExceptions))
		if all.Unit != nil && all.Reason == "" {
			all.Reason = "at least: each at the price of CPUID, the least that the hypervisor answers"
		}
		return []Row{all}
	},
}
