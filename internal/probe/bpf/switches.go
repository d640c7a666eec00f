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
	switchKinds

	switchRuns = allSlots * switchKinds
)

// switchSlots has the CPU time after the switches.
var switchSlots = slotCells{each: switchKinds, events: cpuNS}

// Switches has the context switches and the CPU time by process, as the scheduler
// counts them for each thread. Nothing runs on a switch, so there is nothing to
// estimate. Visit brings the counts up to now; the CPU time of a thread on its CPU is
// that of the scheduler's last tick.
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
		row:    switchRuns + 8,
		rare:   true,
		read:   []string{"counts", "names"},
		tell:   []string{"cache", "control", "wanted"},
		events: func(row counts) uint64 { return row.sum(switchRuns) },
	},
	filter: filter{
		slots:  switchSlots,
		source: sourceSwitches,
	},
}

// SwitchCounts reads the counters of Switches.
type SwitchCounts struct{ *Counters }

// ByProcess emits for each process the voluntary and involuntary switches away
// from its threads and their CPU time in nanoseconds, since the program was opened. It
// returns how many switches were folded.
func (c SwitchCounts) ByProcess(emit func(process string, voluntary, involuntary, ns uint64)) (folded uint64) {
	n := switchSlots.byName(c.Counters, func(process string, n []uint64) {
		emit(process, n[voluntary], n[involuntary], n[cpuNS])
	})
	return n[voluntary] + n[involuntary]
}

// Own emits the same for each process that is counted on its own.
func (c SwitchCounts) Own(emit func(pid int, process string, voluntary, involuntary, ns uint64)) {
	switchSlots.byOwner(c.Counters, func(pid int, process string, n []uint64) {
		emit(pid, process, n[voluntary], n[involuntary], n[cpuNS])
	})
}
