package explain

import "github.com/teescope/teescope/internal/findings"

// gpuStaging are transfers of cards in confidential mode, which are encrypted on their
// way through bounce buffers.
var gpuStaging = machineKind{
	reads: []machineSeries{{name: StagedBytes, gauge: true}},
	rows: func(l *Ledger) []Row {
		v := l.shared[event(StagedBytes)]
		if v <= 0 {
			return nil
		}
		rate := exactly(v)
		return []Row{{ID: "gpu_staging", Title: "bytes encrypted to and from GPUs", Part: Kernel, Rate: &rate, Reason: notPriced,
			Evidence: []findings.Evidence{{Text: "bytes of cards in confidential mode", Value: v, Unit: "bytes/s", Expr: "sum(" + l.mean(StagedBytes) + ")"}}}}
	},
}
