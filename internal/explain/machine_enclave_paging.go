package explain

import "github.com/teescope/teescope/internal/findings"

// enclavePaging is the eviction of enclave pages, by ksgxd and by threads that need a page at once. For these threads
// it is part of their faults on enclave memory.
var enclavePaging = machineKind{
	reads: append(histogram(ReclaimTime, "context", ""), machineSeries{name: ReclaimerCPU}),
	rows: func(l *Ledger) (out []Row) {
		series := histogram(ReclaimTime, "", "")
		if r, ok := l.timed("reclaim", "batches of EPC pages evicted by threads in need", series, with("context", "direct"), matchers("context", "direct")); ok {
			r.Cause = "epc_paging"
			out = append(out, r)
		}
		if v := l.shared[event(ReclaimerCPU)]; v > 0 {
			out = append(out, Row{ID: "ksgxd", Title: "evicting EPC pages in the background (ksgxd)", Part: Kernel, Time: exactly(v), Cause: "epc_paging",
				Evidence: []findings.Evidence{cores("CPU time of ksgxd", v, l.machineRate(ReclaimerCPU))}})
		}
		return out
	},
}
