package bpf

//go:generate go tool bpf2go -cc clang -strip llvm-strip -target bpfel -go-package bpf switches switches.bpf.c -- -O2 -g -Wall -Werror -mcpu=v3

// Cells of a process in switches.bpf.c, and those of a row.
const (
	voluntary = iota
	involuntary
	cpuNS
	switchKinds

	switchRuns = allSlots * switchKinds
	wakeups    = histCells
)

// switchSlots has the CPU time after the switches.
var switchSlots = slotCells{each: switchKinds, events: cpuNS}

// Switches counts context switches and CPU time by process, and at level 1 how
// long threads wait for a CPU.
var Switches = &Program{
	Name: "switches",
	spec: spec{
		load: loadSwitches,
		hooks: []hook{
			{name: "sched:sched_switch", variants: []variant{
				{"sched_switch_btf", typed},
				{"sched_switch_raw", raw("sched_switch")},
			}},
			{name: "sched:sched_wakeup", variants: []variant{{"sched_wakeup_btf", typed}}, from: 1},
			{name: "sched:sched_wakeup_new", variants: []variant{{"sched_wakeup_new_btf", typed}}, from: 1},
		},
		levels: 2,
		sized: map[string]func(int) uint32{
			"cache":   cacheEntries,
			"running": func(cpus int) uint32 { return uint32(cpus) },
		},
	},
	layout: layout{
		row:    switchRuns + 8,
		more:   map[string]int{"times": wakeups + 5},
		read:   []string{"counts", "names", "times"},
		tell:   []string{"cache", "control", "wanted"},
		reset:  []string{"running"},
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
// from its threads and the CPU time in nanoseconds that they had used when
// they left the CPU, since the program was attached. It returns how many
// switches were folded.
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

// RunQueue is how long threads that could run waited for a CPU.
func (c SwitchCounts) RunQueue() *Latency {
	var l Latency
	c.banked("times").addTo(&l, 0)
	return &l
}
