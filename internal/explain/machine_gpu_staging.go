package explain

// gpuStaging are transfers of cards in confidential mode, which are encrypted on their
// way through bounce buffers.
var gpuStaging = machineKind{
	reads: []machineSeries{{name: StagedBytes, gauge: true}},
	rows: func(l *Ledger) []Row {
		return l.copied(Row{ID: "gpu_staging", Title: "bytes copied to and from GPUs, encrypted", Advice: keepOnCard}, event(StagedBytes), "sum("+l.machine.Mean(StagedBytes)+")",
			"at least: one copy of each byte within the nearest cache, without its encryption")
	},
}

const keepOnCard = "Move less between host and card: keep weights and caches on the card, and copy in large batches from pinned memory."
