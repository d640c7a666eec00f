package bpf

// The user-space side of switches.bpf.c: what to load, where to attach it, and how to read its counters. The kernel
// keeps context switches, CPU time, reads and writes for each thread; the program adds up what each thread has gained
// when it is visited, so nothing runs on a switch.

//go:generate ./compile.sh switches switches.bpf.c

import (
	"fmt"
	"math"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// Cells of a process in switches.bpf.c, and those of a row. The last two are starts of processes and not counts.
const (
	voluntary = iota
	involuntary
	cpuNS
	readCalls
	writeCalls
	oldestStart
	youngestEnded
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
			now, err := sinceBoot()
			if err != nil {
				return nil, err
			}
			return spec, spec.Variables["opened"].Set(now)
		},
		hooks: []hook{
			{name: "iter/task", variants: []variant{{"visit", iterator}}, required: true},
			{name: "sched:sched_process_exit", variants: []variant{{"exit_btf", typed}}},
			{name: "sched:sched_process_free", variants: []variant{{"free_btf", typed}}},
		},
		sized: map[string]func(int) uint32{"cache": cacheEntries},
	},
	layout: layout{
		row:   allSlots * switchKinds,
		rare:  true,
		fresh: []int{oldestStart},
		read:  []string{"counts", "names"},
		tell:  []string{"cache", "control", "wanted"},
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
	// Started is when the oldest living process of the name started, in nanoseconds since boot; 0 if none lives. A
	// name counts as living, too, if a process of it started and ended since the visit before: then another
	// may start at any moment. Processes that the program is not narrowed to are included.
	Started uint64
}

func switchedOf(n []uint64, since uint64) Switched {
	s := Switched{n[voluntary], n[involuntary], n[cpuNS], n[readCalls], n[writeCalls], n[oldestStart]}
	if s.Started == 0 && n[youngestEnded] > since {
		s.Started = n[youngestEnded]
	}
	return s
}

// sinceBoot returns the time since boot in nanoseconds, by the clock of a task's start_boottime.
func sinceBoot() (uint64, error) {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return 0, fmt.Errorf("read the time since boot: %w", err)
	}
	return uint64(now.Nano()), nil
}

// ByProcess emits the counts of each process name, and returns how many switches were folded.
func (c SwitchCounts) ByProcess(emit func(process string, n Switched)) (folded uint64) {
	since := c.visitedBefore()
	n := switchSlots.byName(c.Counters, func(process string, n []uint64) { emit(process, switchedOf(n, since)) })
	return n[voluntary] + n[involuntary]
}

// Own emits the same for each process that is also counted individually.
func (c SwitchCounts) Own(emit func(pid int, process string, n Switched)) {
	switchSlots.byOwner(c.Counters, func(pid int, process string, n []uint64) { emit(pid, process, switchedOf(n, math.MaxUint64)) })
}
