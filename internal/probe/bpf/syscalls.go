package bpf

//go:generate go tool bpf2go -cc clang -strip llvm-strip -target bpfel -go-package bpf syscalls syscalls.bpf.c -- -O2 -g -Wall -Werror -mcpu=v3

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"
)

// Sizes of syscalls.bpf.c.
const (
	numbers   = 512
	pairs     = 8192
	nrCompat  = 510
	nrUnknown = 511
)

// Syscalls counts system calls by process and number.
var Syscalls = &Program{
	Name:      "syscalls",
	load:      loadSyscalls,
	processes: true,
	row:       pairs,
	read:      []string{"counts", "keys", "names"},
	sized:     map[string]func(int) uint32{"cache": cacheEntries},
	hooks: []hook{{
		name: "raw_syscalls:sys_enter",
		variants: []variant{
			{"sys_enter_btf", typed},
			{"sys_enter_raw", raw("sys_enter")},
			{"sys_enter_classic", classic("raw_syscalls", "sys_enter")},
		},
		trigger: func() { _, _, _ = unix.RawSyscall(unix.SYS_GETPPID, 0, 0, 0) },
	}},
	events: func(c *Counters, row counts) uint64 {
		var n uint64
		for cell := range slots {
			n += row.sum(cell)
		}
		for pair, keys := slots, c.maps["keys"]; pair < pairs && (pair+1)*8 <= len(keys) && binary.NativeEndian.Uint64(keys[pair*8:]) != 0; pair++ {
			n += row.sum(pair)
		}
		return n
	},
}

// cacheEntries is the size of the process cache of process.h: 64 entries for
// each CPU and space of a fault.
func cacheEntries(cpus int) uint32 { return uint32(cpus * 2 * 64) }

// call is a system call of the processes in a slot.
type call struct{ slot, nr int }

// Syscalls emits the number of calls for each process and system call since
// the program was attached, and returns how many of them were folded.
func (c *Counters) Syscalls(emit func(process, syscall string, n uint64)) (folded uint64) {
	cells, keys, raw := c.counts(), c.maps["keys"], c.maps["names"]
	if c.calls == nil {
		c.calls = map[call]uint64{}
	}
	clear(c.calls)
	order := c.order[:0]
	note := func(slot, nr int, n uint64) {
		if n == 0 {
			return
		}
		if slot == otherSlot || nr == numbers {
			folded += n
		}
		k := call{c.names.of(raw, slot), nr}
		if _, ok := c.calls[k]; !ok {
			order = append(order, k)
		}
		c.calls[k] += n
	}
	for slot := range slots {
		note(slot, numbers, cells.sum(slot))
	}
	for pair := slots; (pair+1)*8 <= len(keys); pair++ {
		key := binary.NativeEndian.Uint64(keys[pair*8:])
		if key == 0 || key > slots*numbers {
			break
		}
		note(int(key-1)/numbers, int(key-1)%numbers, cells.sum(pair))
	}
	c.order = order
	for _, k := range order {
		emit(c.names.label[k.slot], SyscallName(k.nr), c.calls[k])
	}
	return folded
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
