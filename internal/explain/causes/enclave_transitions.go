package causes

import "github.com/teescope/teescope/internal/explain"

// EnclaveTransitions are calls into enclaves and out of them.
var EnclaveTransitions = explain.Cause{
	Name:   "enclave_transitions",
	What:   "calls into and out of enclaves",
	Fix:    "do more work per call, or use calls without transitions",
	Doing:  "entering and leaving its enclaves{often}",
	Remedy: "Do more work per call (larger buffers, batches, a clock and locks inside the enclave). Most system calls of the process are calls out of the enclave: they show what the process requests from its host. Use calls without transitions: switchless calls of the Intel SDK, sgx.insecure__rpc_thread_num in Gramine.",
	Matches: func(e explain.Event, _ explain.Circumstances) bool {
		return e.Metric == explain.EnclaveEntries || e.Metric == explain.EnclaveExits
	},
}
