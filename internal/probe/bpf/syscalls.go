package bpf

// The user-space side of syscalls.bpf.c: what to load, where to attach it, and how to read its counters. It counts
// system calls by process and number, and at level latency their durations.

//go:generate ./compile.sh syscalls syscalls.bpf.c

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"
)

// Sizes of pairs.h and syscalls.bpf.c.
const (
	numbers   = 512
	pairs     = 8184
	pairsRow  = pairs + 8
	nrCompat  = 510
	nrUnknown = 511
	timed     = 64
	timesRow  = timed * histCells
	// allSlots counts the slots of names and those of single processes.
	allSlots = slots + MaxOwners
)

// Syscalls counts system calls by process and number, and at level 1 their durations by number.
var Syscalls = &Program{
	Name: "syscalls",
	spec: spec{
		load: loadSyscalls,
		hooks: []hook{
			{
				name: "raw_syscalls:sys_enter",
				variants: []variant{
					{"sys_enter_btf", typed},
					{"sys_enter_raw", raw("sys_enter")},
					{"sys_enter_classic", classic("raw_syscalls", "sys_enter")},
				},
				trigger: func() { _, _, _ = unix.RawSyscall(unix.SYS_GETPPID, 0, 0, 0) },
			},
			{
				name: "raw_syscalls:sys_exit",
				variants: []variant{
					{"sys_exit_btf", typed},
					{"sys_exit_raw", raw("sys_exit")},
					{"sys_exit_classic", classic("raw_syscalls", "sys_exit")},
				},
				from: 1,
			},
		},
		levels: 2,
		sized:  map[string]func(int) uint32{"cache": cacheEntries},
	},
	layout: layout{
		row:  pairsRow,
		more: map[string]int{"times": timesRow},
		read: []string{"counts", "keys", "names", "times", "timed_numbers"},
		tell: []string{"cache", "control", "wanted", "pairs"},
	},
	filter: filter{
		slots:  pairTally{},
		source: sourceSyscalls,
	},
}

// cacheEntries is the size of the process cache of process.h: 64 entries for
// each CPU and space of a fault.
func cacheEntries(cpus int) uint32 { return uint32(cpus * 2 * 64) }

// SyscallCounts reads the counters of Syscalls.
type SyscallCounts struct{ *Counters }

// ByProcess emits the number of calls for each process and system call since
// the program was attached, and returns how many of them were folded.
func (c SyscallCounts) ByProcess(emit func(process, syscall string, n uint64)) (folded uint64) {
	return pairTally{}.byName(c.Counters, func(process string, nr int, n uint64) { emit(process, SyscallName(nr), n) })
}

// Own emits the number of calls of each process that is also counted individually.
func (c SyscallCounts) Own(emit func(pid int, process, syscall string, n uint64)) {
	r := c.kernel.Lock()
	defer c.kernel.Unlock()
	var calls map[call]uint64 // two CPUs may have given a pair to the same call
	eachPair(c.Counters, func(slot, nr, _ int, n uint64) {
		if n == 0 || slot < slots {
			return
		}
		if calls == nil {
			calls = map[call]uint64{}
		}
		calls[call{slot, nr}] += n
	})
	r.ledgerOf(c.Counters).eachOwner(func(slot int, o *owner) {
		for nr := range numbers + 1 {
			if n := calls[call{slot, nr}]; n > 0 {
				emit(o.pid, o.name, SyscallName(nr), n)
			}
		}
	})
}

// Times emits the durations of calls, for the numbers that occurred first and for all others
// together.
func (c SyscallCounts) Times(emit func(syscall string, l *Latency)) {
	cells, index := c.banked("times"), c.maps["timed_numbers"]
	one := func(syscall string, i int) {
		var l Latency
		cells.addTo(&l, i*histCells)
		if l.Count() > 0 {
			emit(syscall, &l)
		}
	}
	one(Other, 0)
	for nr := 0; nr < numbers && (nr+1)*8 <= len(index); nr++ {
		if i := binary.NativeEndian.Uint64(index[nr*8:]); i > 0 && i < timed {
			one(SyscallName(nr), int(i))
		}
	}
}

// SyscallName is the name of a system call number of this architecture. Numbers missing in the
// table are unknown_NUMBER, numbers of no kernel unknown; compat is any call of a 32-bit program.
func SyscallName(nr int) string {
	switch {
	case nr == numbers:
		return Other
	case nr == nrCompat:
		return "compat"
	case nr < 0 || nr >= nrUnknown:
		return "unknown"
	case nr < len(syscallNames) && syscallNames[nr] != "":
		return syscallNames[nr]
	}
	return fmt.Sprintf("unknown_%d", nr)
}
