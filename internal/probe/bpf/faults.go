package bpf

//go:generate go tool bpf2go -cc clang -strip llvm-strip -target bpfel -go-package bpf faults faults.bpf.c -- -O2 -g -Wall -Werror -mcpu=v3

// Spaces and Causes are the label values of page faults, in the order of
// faults.bpf.c.
var (
	Spaces = [...]string{"user", "kernel"}
	Causes = [...]string{"no_page_found", "write", "instruction_fetch", "write_protection", "protection", Other}
)

const (
	faultCells = len(Spaces) * len(Causes)
	faultRuns  = allSlots * faultCells
)

// Faults counts page faults by process, space and cause; x86 only.
var Faults = &Program{
	Name:      "faults",
	load:      loadFaults,
	processes: true,
	source:    sourceFaults,
	row:       faultRuns + 8,
	read:      []string{"counts", "names"},
	tell:      []string{"cache", "control", "wanted"},
	sized:     map[string]func(int) uint32{"cache": cacheEntries},
	hooks: []hook{
		{name: "exceptions:page_fault_user", variants: []variant{
			{"page_fault_user_btf", typed},
			{"page_fault_user_raw", raw("page_fault_user")},
			{"page_fault_user_classic", classic("exceptions", "page_fault_user")},
		}},
		{name: "exceptions:page_fault_kernel", variants: []variant{
			{"page_fault_kernel_btf", typed},
			{"page_fault_kernel_raw", raw("page_fault_kernel")},
			{"page_fault_kernel_classic", classic("exceptions", "page_fault_kernel")},
		}},
	},
	events: func(_ *Counters, row counts) uint64 {
		var n uint64
		for space := range Spaces {
			n += row.sum(faultRuns + space)
		}
		return n
	},
	totals: func(c *Counters, sums []uint64) {
		for slot := range sums {
			for _, n := range c.counts().faults(slot) {
				sums[slot] += n
			}
		}
	},
	forget: func(c *Counters, gone map[int]bool) (events uint64, err error) {
		for slot := range gone {
			for i, n := range c.counts().faults(slot) {
				events += n
				c.counts().clear(slot*faultCells + i)
			}
		}
		return events, nil
	},
}

// faults are the cells of a slot.
func (c counts) faults(slot int) (n [faultCells]uint64) {
	for i := range n {
		n[i] = c.sum(slot*faultCells + i)
	}
	return n
}

// Faults emits the number of page faults for each process, space and cause
// that had any since the program was attached; space and cause are indices of
// Spaces and Causes. It returns how many were folded.
func (c *Counters) Faults(emit func(process string, space, cause int, n uint64)) (folded uint64) {
	kernel.Lock()
	defer kernel.Unlock()
	cells, raw := c.counts(), c.maps["names"]
	var sum [slots][faultCells]uint64
	c.Retired = c.retired
	for slot := range slots {
		for i, n := range cells.faults(slot) {
			switch {
			case n == 0:
			case limbo(slot):
				c.Retired += n
			default:
				if slot == otherSlot {
					folded += n
				}
				sum[c.names.of(raw, slot)][i] += n
			}
		}
	}
	for slot := range sum {
		for i, n := range sum[slot] {
			if n > 0 {
				emit(c.names.label[slot], i/len(Causes), i%len(Causes), n)
			}
		}
	}
	return folded
}

// OwnFaults emits the same for each process that is counted on its own.
func (c *Counters) OwnFaults(emit func(pid int, process string, space, cause int, n uint64)) {
	kernel.Lock()
	defer kernel.Unlock()
	c.eachOwner(func(slot int, o *owner) {
		for i, n := range c.counts().faults(slot) {
			if n > 0 {
				emit(o.pid, o.name, i/len(Causes), i%len(Causes), n)
			}
		}
	})
}
