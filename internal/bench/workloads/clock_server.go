package workloads

import "github.com/teescope/teescope/internal/bench"

// clockServer reads the clock for each request, as Redis does in each iteration of its event
// loop, through the vDSO or by a system call. TEEMon (Middleware 2020, section 6.5) found that
// system calls halved the throughput of Redis in an enclave runtime.
var clockServer = knownCause(bench.Workload{
	Name:    "clock-server",
	Doc:     "A server that reads the clock for each request, through the vDSO or by system calls: slow for a known cause.",
	Version: 1,
	Params: []bench.Param{
		{Name: "clock", Default: "vdso", Values: []string{"vdso", "syscall"}, Subject: true, Doc: "How the server reads the clock. vdso: in user space. syscall: by a system call."},
		{Name: "reads", Default: "16", Doc: "Number of times that the server reads the clock for each request."},
	},
}, "4", "8", "clockserver", "reads")
