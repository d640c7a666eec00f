package sources

import (
	"strconv"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/probe/bpf"
	"github.com/teescope/teescope/internal/probe/estimate"
)

var (
	syscallsTotal = counter("tee_syscalls_total",
		"System calls entered since the monitor started, by process name and call; compat is any call of a 32-bit program (tracepoint raw_syscalls:sys_enter).",
		"process", "syscall")
	pidSyscalls = counter("tee_pid_syscalls_total",
		"System calls entered since the source was narrowed to process ids, by id, name of the process now and call; also included in tee_syscalls_total (tracepoint raw_syscalls:sys_enter).",
		"pid", "process", "syscall")
	syscallDuration = &metric.Desc{Name: "tee_syscall_duration_seconds", Kind: metric.Histogram, Labels: []string{"syscall"},
		Help: "Time in seconds from entering a system call to its return, including waiting, by call: the first 63 calls seen, other for the rest; level latency only (tracepoints raw_syscalls:sys_enter and sys_exit)."}
)

var syscallLevels = []probe.Level{
	{Name: "count", Doc: "numbers of calls"},
	{Name: "latency", Doc: "also how long calls take: costs about four times as much"},
}

// ioOperations are the operations in which the kernel counts calls for a process
// (fs/read_write.c).
var ioOperations = map[string][]string{
	"read": {"read"}, "pread64": {"read"}, "readv": {"read"}, "preadv": {"read"}, "preadv2": {"read"},
	"write": {"write"}, "pwrite64": {"write"}, "writev": {"write"}, "pwritev": {"write"}, "pwritev2": {"write"},
	"sendfile": {"write", "read"}, "copy_file_range": {"write", "read"},
}

// ioTotals are the kernel's own counts of calls that read or write.
var ioTotals = estimate.Exact{Counter: syscallsTotal, Total: ioCalls, Of: func(labels []string) (out [][]string) {
	process, call := labels[0], labels[1]
	if process == bpf.Other { // names that found no place, not the same ones in both sources
		return nil
	}
	for _, operation := range ioOperations[call] {
		out = append(out, []string{process, operation})
	}
	return out
}, Beside: func(labels []string) [][]string {
	return [][]string{{labels[0], "read"}, {labels[0], "write"}}
}}

var syscalls = probe.Source{
	Name:    "syscalls",
	Doc:     "System calls by process and call, counted in the kernel",
	Metrics: []*metric.Desc{syscallsTotal, syscallDuration, pidSyscalls, retiredEvents},
	Levels:  syscallLevels,
	Exact:   &ioTotals,
	Needs:   processNeeds,
	Kernels: "Linux 5.15 and later with CONFIG_DEBUG_INFO_BTF",
	Cost: "per call: see the table of event costs in docs/lab/performance.md. " +
		"64 kB for each CPU for counts and 54 kB for times, at most 8 MiB each, and 1.5 MB",
	Blind: "system calls made by an enclave's runtime look like the process's own; calls that a library OS such as Gramine handles inside an enclave or that a guest of gVisor makes never reach the kernel; calls that do not return (exit) have no duration",
	Open: openByProcess(bpf.Syscalls, syscallLevels, func(c *counters, emit emitter) uint64 {
		counts := bpf.SyscallCounts{Counters: c.Counters}
		folded := counts.ByProcess(func(process, syscall string, n uint64) {
			emit.send(syscallsTotal, float64(n), c.label(process, syscall)...)
		})
		counts.Own(func(pid int, process, syscall string, n uint64) {
			emit.send(pidSyscalls, float64(n), c.label(strconv.Itoa(pid), process, syscall)...)
		})
		if c.Level() > 0 {
			counts.Times(func(syscall string, l *bpf.Latency) {
				emit(metric.Sample{Desc: syscallDuration, Labels: c.label(syscall), Hist: histogram(l)})
			})
		}
		return folded
	}),
}
