package causes

import "github.com/teescope/teescope/internal/explain"

// GuestExitStorm is a storm of calls of a confidential guest to its hypervisor.
var GuestExitStorm = explain.Cause{
	Name:    "guest_exit_storm",
	What:    "calling the hypervisor",
	Fix:     "find the code in the guest that does what only the hypervisor can",
	Doing:   "calling the hypervisor{often}",
	Remedy:  "Find the code with `bpftrace -e 'kprobe:tdx_handle_virt_exception { @[kstack, ustack] = count(); }'` in the guest.",
	Matches: func(e explain.Event, _ explain.Circumstances) bool { return e.Metric == explain.GuestExceptions },
}
