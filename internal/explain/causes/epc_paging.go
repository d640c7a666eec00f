package causes

import "github.com/teescope/teescope/internal/explain"

// EPCPaging is enclave pages that are evicted and loaded back, because the EPC is too small for the enclaves.
var EPCPaging = explain.Cause{
	Name:  "epc_paging",
	What:  "loading enclave pages back into the EPC",
	Fix:   "make the working sets of the enclaves fit into the EPC",
	Doing: "waiting for enclave pages to be loaded back into the EPC{often}",
	Remedy: "Make the enclaves' working sets fit into the EPC: run fewer or smaller enclaves at a time, use a smaller heap (sgx.enclave_size in Gramine, kernel_heap_size in Occlum), " +
		"and keep data outside the enclave, encrypted by the application, if it need not be inside. Reserve more EPC in the firmware (PRMRR size) where the processor allows it.",
	Matches: func(e explain.Event, c explain.Circumstances) bool {
		return c.Paging && e.Metric == explain.EnclaveFaults || e.Metric == explain.LoadedBack
	},
}
