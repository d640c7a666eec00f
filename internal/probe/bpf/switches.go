package bpf

//go:generate go tool bpf2go -cc clang -strip llvm-strip -target bpfel -go-package bpf switches switches.bpf.c -- -O2 -g -Wall -Werror -mcpu=v3

import (
	"fmt"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// Cells of a process in switches.bpf.c, and those of a row.
const (
	voluntary = iota
	involuntary
	cpuNS
	readCalls
	writeCalls
	switchKinds
)

// switchSlots: only the switches are events; the cells after them are not.
var switchSlots = slotCells{each: switchKinds, events: cpuNS}

// Switches reads the kernel's own counts for each thread: context switches, CPU time and calls
// that read or write, summed by process. No program runs on a switch or a call, so nothing is
// estimated. Visit updates the counts; the CPU time of a running thread is that of the
// scheduler's last tick.
var Switches = &Program{
	Name: "switches",
	spec: spec{
		load: func() (*ebpf.CollectionSpec, error) {
			spec, err := loadSwitches()
			if err != nil {
				return nil, err
			}
			var now unix.Timespec
			if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
				return nil, fmt.Errorf("read the time since boot: %w", err)
			}
			return spec, spec.Variables["opened"].Set(uint64(now.Nano()))
		},
		hooks: []hook{
			{name: "iter/task", variants: []variant{{"visit", iterator}}, required: true},
			{name: "sched:sched_process_exit", variants: []variant{{"exit_btf", typed}}},
			{name: "sched:sched_process_free", variants: []variant{{"free_btf", typed}}},
		},
		sized: map[string]func(int) uint32{"cache": cacheEntries},
	},
	layout: layout{
		row:  allSlots * switchKinds,
		rare: true,
		read: []string{"counts", "names"},
		tell: []string{"cache", "control", "wanted"},
	},
	filter: filter{
		slots:  switchSlots,
		source: sourceSwitches,
	},
}

// SwitchCounts reads the counters of Switches.
type SwitchCounts struct{ *Counters }

// Switched holds the kernel's counts for the threads of a process since the program was opened.
type Switched struct {
	// Voluntary and Involuntary are the threads' context switches (nvcsw and nivcsw of
	// task_struct).
	Voluntary, Involuntary uint64
	// NS is their CPU time in nanoseconds (se.sum_exec_runtime).
	NS uint64
	// Reads and Writes are calls that read or write a file or a socket by file operations
	// (ioac.syscr and syscw, as in proc_pid_io(5)): read(2), pread(2), readv(2) and the like;
	// sendfile(2) and copy_file_range(2) count in both. Calls refused before they reach the file
	// are not included. Without CONFIG_TASK_XACCT both are 0 for all processes.
	Reads, Writes uint64
}

func switchedOf(n []uint64) Switched {
	return Switched{n[voluntary], n[involuntary], n[cpuNS], n[readCalls], n[writeCalls]}
}

// ByProcess emits the counts of each process name, and returns how many switches were folded.
func (c SwitchCounts) ByProcess(emit func(process string, n Switched)) (folded uint64) {
	n := switchSlots.byName(c.Counters, func(process string, n []uint64) { emit(process, switchedOf(n)) })
	return n[voluntary] + n[involuntary]
}

// Own emits the same for each process that is also counted individually.
func (c SwitchCounts) Own(emit func(pid int, process string, n Switched)) {
	switchSlots.byOwner(c.Counters, func(pid int, process string, n []uint64) { emit(pid, process, switchedOf(n)) })
}
