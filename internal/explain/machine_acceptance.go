package explain

// acceptance is memory that a confidential guest accepts (takes into its protection) on first use. Accepting a page
// clears it, so each byte is written at least once.
var acceptance = machineKind{
	reads: []machineSeries{{name: AcceptedBytes}},
	rows: func(l *Ledger) []Row {
		return l.copied(Row{ID: "acceptance", Title: "bytes of memory accepted"}, event(AcceptedBytes), "sum("+l.machineRate(AcceptedBytes)+")",
			"at least: one pass over each byte within the nearest cache; the call that accepts a page comes on top")
	},
}
