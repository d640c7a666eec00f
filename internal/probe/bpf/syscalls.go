package bpf

//go:generate go tool bpf2go -cc clang -strip llvm-strip -target bpfel -go-package bpf syscalls syscalls.bpf.c -- -O2 -g -Wall -Werror -mcpu=v3

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
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
	exits     = timed * histCells
	timesRow  = exits + 8
	// allSlots are those of names and those of single processes.
	allSlots = slots + MaxOwners
)

// Syscalls counts system calls by process and number, and at level 1 how long
// they take by number.
var Syscalls = &Program{
	Name:      "syscalls",
	load:      loadSyscalls,
	processes: true,
	source:    sourceSyscalls,
	levels:    2,
	row:       pairsRow,
	more:      map[string]int{"times": timesRow},
	read:      []string{"counts", "keys", "names", "times", "timed_numbers"},
	tell:      []string{"cache", "control", "wanted", "pairs"},
	sized:     map[string]func(int) uint32{"cache": cacheEntries},
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
	events:  func(c *Counters, row counts) uint64 { return row.sum(pairs) },
	totals:  (*Counters).totalPairs,
	forget:  (*Counters).forgetPairs,
	crowded: (*Counters).crowdedPairs,
}

// cacheEntries is the size of the process cache of process.h: 64 entries for
// each CPU and space of a fault.
func cacheEntries(cpus int) uint32 { return uint32(cpus * 2 * 64) }

// eachPair yields the slot, the number and the count of every pair that was
// given out, and for number numbers those of a slot that found no pair left.
func (c *Counters) eachPair(yield func(slot, nr, pair int, n uint64)) {
	cells, keys := c.counts(), c.maps["keys"]
	for slot := range allSlots {
		yield(slot, numbers, slot, cells.sum(slot))
	}
	for pair := allSlots; (pair+1)*8 <= len(keys); pair++ {
		key := binary.NativeEndian.Uint64(keys[pair*8:])
		if key == 0 || key > allSlots*numbers {
			continue // not given out yet, or taken back
		}
		yield(int(key-1)/numbers, int(key-1)%numbers, pair, cells.sum(pair))
	}
}

// totalPairs adds what each slot has counted to sums.
func (c *Counters) totalPairs(sums []uint64) {
	c.eachPair(func(slot, _, _ int, n uint64) {
		if slot < len(sums) {
			sums[slot] += n
		}
	})
}

// crowdedPairs reports whether three quarters of all pairs are taken.
func (c *Counters) crowdedPairs() bool {
	taken := 0
	c.eachPair(func(_, _, pair int, _ uint64) {
		if pair >= allSlots {
			taken++
		}
	})
	return taken*4 > 3*(cmp.Or(int(c.limits.Pairs), pairs)-allSlots)
}

// forgetPairs empties the pairs of slots and gives them back.
func (c *Counters) forgetPairs(gone map[int]bool) (events uint64, err error) {
	cells, keys, table := c.counts(), c.maps["keys"], c.maps["pairs"]
	c.eachPair(func(slot, nr, pair int, n uint64) {
		if !gone[slot] {
			return
		}
		events += n
		cells.clear(pair)
		if nr == numbers {
			return
		}
		binary.NativeEndian.PutUint64(keys[pair*8:], 0)
		binary.NativeEndian.PutUint16(table[(slot*numbers+nr)*2:], 0)
		if e := c.shared["pairs_free"].Update(nil, uint32(pair), ebpf.UpdateAny); e != nil {
			err = errors.Join(err, fmt.Errorf("give back a place in a table of %s: %w", c.program.Name, e))
		}
	})
	return events, err
}

// call is a system call of the processes in a slot.
type call struct{ slot, nr int }

// Syscalls emits the number of calls for each process and system call since
// the program was attached, and returns how many of them were folded.
func (c *Counters) Syscalls(emit func(process, syscall string, n uint64)) (folded uint64) {
	return c.sumPairs(func(process string, nr int, n uint64) { emit(process, SyscallName(nr), n) })
}

// sumPairs emits what each process has counted under each number, numbers for
// what found no pair left, and returns how much of it was folded.
func (c *Counters) sumPairs(emit func(process string, nr int, n uint64)) (folded uint64) {
	kernel.Lock()
	defer kernel.Unlock()
	raw := c.maps["names"]
	if c.calls == nil {
		c.calls = map[call]uint64{}
	}
	clear(c.calls)
	order := c.order[:0]
	c.Retired = c.retired
	c.eachPair(func(slot, nr, _ int, n uint64) {
		switch {
		case n == 0 || slot >= slots:
			return
		case limbo(slot):
			c.Retired += n
			return
		case slot == otherSlot || nr == numbers:
			folded += n
		}
		k := call{c.names.of(raw, slot), nr}
		if _, ok := c.calls[k]; !ok {
			order = append(order, k)
		}
		c.calls[k] += n
	})
	c.order = order
	for _, k := range order {
		emit(c.names.label[k.slot], k.nr, c.calls[k])
	}
	return folded
}

// OwnSyscalls emits the number of calls of each process that is counted on its own.
func (c *Counters) OwnSyscalls(emit func(pid int, process, syscall string, n uint64)) {
	kernel.Lock()
	defer kernel.Unlock()
	var calls map[call]uint64 // two CPUs may have given a pair to the same call
	c.eachPair(func(slot, nr, _ int, n uint64) {
		if n == 0 || slot < slots {
			return
		}
		if calls == nil {
			calls = map[call]uint64{}
		}
		calls[call{slot, nr}] += n
	})
	c.eachOwner(func(slot int, o *owner) {
		for nr := range numbers + 1 {
			if n := calls[call{slot, nr}]; n > 0 {
				emit(o.pid, o.name, SyscallName(nr), n)
			}
		}
	})
}

// SyscallTimes emits how long calls took, for the numbers that were seen first
// and for all others together.
func (c *Counters) SyscallTimes(emit func(syscall string, l *Latency)) {
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

// SyscallName is the name of a system call number of this architecture.
// Numbers that the table lacks are unknown_NUMBER, those that no kernel has
// unknown; compat is any call of a 32-bit program.
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
