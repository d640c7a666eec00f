package bpf

// Reads and sums the counters that programs keep in arrays shared with user space: one row of 64-bit cells for each
// CPU, written by that CPU only. A reading adds the rows up and needs no system call.

import (
	"encoding/binary"
	"math/bits"
)

// counts is a banked map: rows of 64-bit cells.
type counts struct {
	bytes []byte
	row   int
}

func (c *Counters) counts() counts { return counts{c.maps["counts"], c.program.row} }

// banked is one of the program's further banked maps.
func (c *Counters) banked(name string) counts { return counts{c.maps[name], c.program.more[name]} }

// rows yields the row of each CPU.
func (c counts) rows() func(func(counts) bool) {
	return func(yield func(counts) bool) {
		for b := c.bytes; len(b) > 0; {
			n := min(len(b), c.row*8)
			if !yield(counts{b[:n], c.row}) {
				return
			}
			b = b[n:]
		}
	}
}

// sum adds a cell over all rows. Each load is of 8 aligned bytes, so it is never torn.
func (c counts) sum(cell int) uint64 {
	var n uint64
	for i := cell * 8; i+8 <= len(c.bytes); i += c.row * 8 {
		n += binary.NativeEndian.Uint64(c.bytes[i:])
	}
	return n
}

// clear empties a cell in all rows. No program may add to it at the same time.
func (c counts) clear(cell int) {
	for i := cell * 8; i+8 <= len(c.bytes); i += c.row * 8 {
		binary.NativeEndian.PutUint64(c.bytes[i:], 0)
	}
}

// rows is the number of rows for a number of CPUs: one each, or the largest power of two that
// stays within max bytes.
func rows(cpus, row, max int) int {
	if fit := max / (row * 8); fit < cpus {
		return 1 << (bits.Len(uint(fit)|1) - 1)
	}
	return cpus
}
