package sources

import (
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/probe/bpf"
)

var syscallsTotal = counter("tee_syscalls_total",
	"System calls entered since the monitor started, by process name and call; compat is any call of a 32-bit program (tracepoint raw_syscalls:sys_enter).",
	"process", "syscall")

var syscalls = probe.Source{
	Name:    "syscalls",
	Doc:     "system calls by process and call, counted in the kernel",
	Metrics: []*metric.Desc{syscallsTotal},
	Open: openProgram(bpf.Syscalls, func(c *counters, emit emitter) uint64 {
		return c.Syscalls(func(process, syscall string, n uint64) {
			emit.send(syscallsTotal, float64(n), c.label(process, syscall)...)
		})
	}),
}
