package bpf

// The user-space side of pairs.h: counters by process and a number, such as that of a system call. Cells are assigned
// when a pair first occurs, and reclaimed when a process name gives up its slot.

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
)

// pairTally is the tally of a program that counts by slot and number, in cells assigned to pairs
// when they first occur.
type pairTally struct{}

// eachPair yields the slot, the number and the count of every assigned pair. A slot's counts
// that found no free pair come under the number numbers.
func eachPair(c *Counters, yield func(slot, nr, pair int, n uint64)) {
	cells, keys := c.counts(), c.maps["keys"]
	for slot := range allSlots {
		yield(slot, numbers, slot, cells.sum(slot))
	}
	for pair := allSlots; (pair+1)*8 <= len(keys); pair++ {
		key := binary.NativeEndian.Uint64(keys[pair*8:])
		if key == 0 || key > allSlots*numbers {
			continue // not given out yet, or reclaimed
		}
		yield(int(key-1)/numbers, int(key-1)%numbers, pair, cells.sum(pair))
	}
}

func (pairTally) totals(c *Counters, sums []uint64) {
	eachPair(c, func(slot, _, _ int, n uint64) {
		if slot < len(sums) {
			sums[slot] += n
		}
	})
}

// crowded reports whether three quarters of all pairs are assigned.
func (pairTally) crowded(c *Counters) bool {
	taken := 0
	eachPair(c, func(_, _, pair int, _ uint64) {
		if pair >= allSlots {
			taken++
		}
	})
	return taken*4 > 3*(cmp.Or(int(c.limits.Pairs), pairs)-allSlots)
}

// forget empties the pairs of slots and reclaims them.
func (pairTally) forget(c *Counters, gone map[int]bool) (events uint64, err error) {
	cells, keys, table := c.counts(), c.maps["keys"], c.maps["pairs"]
	eachPair(c, func(slot, nr, pair int, n uint64) {
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
		if e := c.tables["pairs_free"].Update(nil, uint32(pair), ebpf.UpdateAny); e != nil {
			err = errors.Join(err, fmt.Errorf("give back a place in a table of %s: %w", c.program.Name, e))
		}
	})
	return events, err
}

// call is a system call of the processes in a slot.
type call struct{ slot, nr int }

// byName emits each process's count under each number, under numbers if no pair was
// free, and returns how much of it was folded.
func (pairTally) byName(c *Counters, emit func(process string, nr int, n uint64)) (folded uint64) {
	r := c.kernel.Lock()
	defer c.kernel.Unlock()
	p, raw := &r.ledgerOf(c).places, c.maps["names"]
	if p.calls == nil {
		p.calls = map[call]uint64{}
	}
	clear(p.calls)
	order := p.order[:0]
	p.retiredThen = p.retired
	eachPair(c, func(slot, nr, _ int, n uint64) {
		switch {
		case n == 0 || slot >= slots:
			return
		case r.inLimbo(slot):
			p.retiredThen += n
			return
		case slot == otherSlot || nr == numbers:
			folded += n
		}
		k := call{p.names.firstSlot(raw, slot), nr}
		if _, ok := p.calls[k]; !ok {
			order = append(order, k)
		}
		p.calls[k] += n
	})
	p.order = order
	for _, k := range order {
		emit(p.names.label[k.slot], k.nr, p.calls[k])
	}
	return folded
}
