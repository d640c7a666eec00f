package explain

// bounceBuffers are copies between private memory and memory that devices reach
// (https://docs.kernel.org/core-api/swiotlb.html).
var bounceBuffers = machineKind{
	reads: []machineSeries{{name: BouncedBytes, by: "device"}},
	rows: func(l *Ledger) []Row {
		return l.byLabel(Row{ID: "bounce_buffers", Title: "bytes through bounce buffers", Cause: "bounce_buffers"}, BouncedBytes, "device", "bytes/s",
			"at least: one copy of each byte within the nearest cache; what is read is copied twice")
	},
}
