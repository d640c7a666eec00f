package bpf

//go:generate go tool bpf2go -cc clang -strip llvm-strip -target bpfel -go-package bpf switches switches.bpf.c -- -O2 -g -Wall -Werror -mcpu=v3

// Cells of a process in switches.bpf.c.
const (
	voluntary = iota
	involuntary
	cpuNS
	idle
	switchKinds
)

// Switches counts context switches and CPU time by process.
var Switches = &Program{
	Name:      "switches",
	load:      loadSwitches,
	processes: true,
	row:       slots * switchKinds,
	read:      []string{"counts", "names"},
	sized: map[string]func(int) uint32{
		"cache":   cacheEntries,
		"running": func(cpus int) uint32 { return uint32(cpus) },
	},
	hooks: []hook{{
		name: "sched:sched_switch",
		variants: []variant{
			{"sched_switch_btf", typed},
			{"sched_switch_raw", raw("sched_switch")},
		},
	}},
	reset: []string{"running"},
	events: func(_ *Counters, row counts) uint64 {
		n := row.sum(otherSlot*switchKinds + idle)
		for slot := range slots {
			n += row.sum(slot*switchKinds+voluntary) + row.sum(slot*switchKinds+involuntary)
		}
		return n
	},
}

// Switches emits for each process the voluntary and involuntary switches away
// from its threads and the CPU time in nanoseconds that they had used when
// they left the CPU, since the program was attached. It returns how many
// switches were folded.
func (c *Counters) Switches(emit func(process string, voluntary, involuntary, ns uint64)) (folded uint64) {
	cells, raw := c.counts(), c.maps["names"]
	var sum [slots][3]uint64
	for slot := range slots {
		v, i, ns := cells.sum(slot*switchKinds+voluntary), cells.sum(slot*switchKinds+involuntary), cells.sum(slot*switchKinds+cpuNS)
		if v+i+ns == 0 {
			continue
		}
		if slot == otherSlot {
			folded = v + i
		}
		s := &sum[c.names.of(raw, slot)]
		s[0], s[1], s[2] = s[0]+v, s[1]+i, s[2]+ns
	}
	for slot, s := range sum {
		if s[0]+s[1]+s[2] > 0 {
			emit(c.names.label[slot], s[0], s[1], s[2])
		}
	}
	return folded
}
