package explain

// gpuStaging are transfers of cards in confidential mode, which are encrypted on their
// way through bounce buffers.
var gpuStaging = machineKind{
	reads: []machineSeries{{name: StagedBytes, gauge: true}},
	rows: func(l *Ledger) []Row {
		return l.copied(Row{ID: "gpu_staging", Title: "bytes encrypted to and from GPUs"}, event(StagedBytes), "sum("+l.mean(StagedBytes)+")",
			"at least: one copy of each byte within the nearest cache; encrypting it comes on top")
	},
}
