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

// Switches counts context switches and CPU time by process, and at level 1 how
// long threads wait for a CPU.
var Switches = &Program{
	Name:      "switches",
	load:      loadSwitches,
	processes: true,
	source:    sourceSwitches,
	levels:    2,
	row:       switchRuns + 8,
	more:      map[string]int{"times": wakeups + 5},
	read:      []string{"counts", "names", "times"},
	tell:      []string{"cache", "control", "wanted"},
	sized: map[string]func(int) uint32{
		"cache":   cacheEntries,
		"running": func(cpus int) uint32 { return uint32(cpus) },
	},
	hooks: []hook{
		{name: "sched:sched_switch", variants: []variant{
			{"sched_switch_btf", typed},
			{"sched_switch_raw", raw("sched_switch")},
		}},
		{name: "sched:sched_wakeup", variants: []variant{{"sched_wakeup_btf", typed}}, from: 1},
		{name: "sched:sched_wakeup_new", variants: []variant{{"sched_wakeup_new_btf", typed}}, from: 1},
	},
	reset:  []string{"running"},
	events: func(_ *Counters, row counts) uint64 { return row.sum(switchRuns) },
	totals: func(c *Counters, sums []uint64) {
		for slot := range sums {
			n := c.counts().switches(slot)
			sums[slot] += n[voluntary] + n[involuntary]
		}
	},
	forget: func(c *Counters, gone map[int]bool) (events uint64, err error) {
		for slot := range gone {
			n := c.counts().switches(slot)
			events += n[voluntary] + n[involuntary]
			for i := range switchKinds {
				c.counts().clear(slot*switchKinds + i)
			}
		}
		return events, nil
	},
}

// Switches emits for each process the voluntary and involuntary switches away
// from its threads and the CPU time in nanoseconds that they had used when
// they left the CPU, since the program was attached. It returns how many
// switches were folded.
func (c *Counters) Switches(emit func(process string, voluntary, involuntary, ns uint64)) (folded uint64) {
	kernel.Lock()
	defer kernel.Unlock()
	cells, raw := c.counts(), c.maps["names"]
	var sum [slots][switchKinds]uint64
	c.Retired = c.retired
	for slot := range slots {
		n := cells.switches(slot)
		switch all := n[voluntary] + n[involuntary]; {
		case all+n[cpuNS] == 0:
			continue
		case limbo(slot):
			c.Retired += all
			continue
		case slot == otherSlot:
			folded = all
		}
		s := &sum[c.names.of(raw, slot)]
		for i := range s {
			s[i] += n[i]
		}
	}
	for slot, s := range sum {
		if s != [switchKinds]uint64{} {
			emit(c.names.label[slot], s[voluntary], s[involuntary], s[cpuNS])
		}
	}
	return folded
}

// switches are the cells of a slot.
func (c counts) switches(slot int) (n [switchKinds]uint64) {
	for i := range n {
		n[i] = c.sum(slot*switchKinds + i)
	}
	return n
}

// OwnSwitches emits the same for each process that is counted on its own.
func (c *Counters) OwnSwitches(emit func(pid int, process string, voluntary, involuntary, ns uint64)) {
	kernel.Lock()
	defer kernel.Unlock()
	c.eachOwner(func(slot int, o *owner) {
		n := c.counts().switches(slot)
		emit(o.pid, o.name, n[voluntary], n[involuntary], n[cpuNS])
	})
}

// RunQueue is how long threads that could run waited for a CPU.
func (c *Counters) RunQueue() *Latency {
	var l Latency
	c.banked("times").addTo(&l, 0)
	return &l
}
