package explain

// guestExits are the virtualization exceptions of a confidential guest, each with a call
// to the hypervisor, by reason.
var guestExits = machineKind{
	reads: []machineSeries{{name: GuestExceptions, by: "reason"}},
	rows: func(l *Ledger) []Row {
		return l.byLabel(Row{ID: "guest_exits", Title: "exceptions that call the hypervisor", Cause: "guest_exit_storm"}, GuestExceptions, "reason", "1/s",
			"at least: each at the cost of CPUID, the simplest exception that the hypervisor answers")
	},
}
