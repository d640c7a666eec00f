package bpf

// The user-space side of faults.bpf.c: what to load, where to attach it, and how to read its counters. It counts page
// faults by process, space and cause.

//go:generate ./compile.sh faults faults.bpf.c

// Spaces and Causes are the label values of page faults, in the order of
// faults.bpf.c.
var (
	Spaces = [...]string{"user", "kernel"}
	Causes = [...]string{"no_page_found", "write", "instruction_fetch", "write_protection", "protection", Other}
)

const (
	faultCells = len(Spaces) * len(Causes)
)

var faultSlots = slotCells{each: faultCells, events: faultCells}

// Faults counts page faults by process, space and cause; x86 only.
var Faults = &Program{
	Name: "faults",
	spec: spec{
		load: loadFaults,
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
		sized: map[string]func(int) uint32{"cache": cacheEntries},
	},
	layout: layout{
		row:  allSlots * faultCells,
		read: []string{"counts", "names"},
		tell: []string{"cache", "control", "wanted"},
	},
	filter: filter{
		slots:  faultSlots,
		source: sourceFaults,
	},
}

// FaultCounts reads the counters of Faults.
type FaultCounts struct{ *Counters }

// ByProcess emits the number of page faults for each process, space and cause
// that had any since the program was attached; space and cause are indices of
// Spaces and Causes. It returns how many were folded.
func (c FaultCounts) ByProcess(emit func(process string, space, cause int, n uint64)) (folded uint64) {
	return sumOf(faultSlots.byName(c.Counters, func(process string, cells []uint64) {
		eachFault(cells, func(space, cause int, n uint64) { emit(process, space, cause, n) })
	}))
}

// Own emits the same for each process that is also counted individually.
func (c FaultCounts) Own(emit func(pid int, process string, space, cause int, n uint64)) {
	faultSlots.byOwner(c.Counters, func(pid int, process string, cells []uint64) {
		eachFault(cells, func(space, cause int, n uint64) { emit(pid, process, space, cause, n) })
	})
}

func eachFault(cells []uint64, emit func(space, cause int, n uint64)) {
	for i, n := range cells {
		if n > 0 {
			emit(i/len(Causes), i%len(Causes), n)
		}
	}
}
