package bpf

// Table is common to programs that count by process: it narrows them to some processes, and
// reuses the slots of the process table.
type Table struct{ *Counters }

// Retired is the number of events of names that lost their slot, as of the last
// time that the counts were read.
func (c Table) Retired() uint64 {
	held := c.kernel.Lock()
	defer c.kernel.Unlock()
	return held.ledgerOf(c.Counters).retiredThen
}

// places is how a program uses the process table.
type places struct {
	names names
	// retired counts events of names that lost their slot, except those of slots in limbo;
	// retiredThen includes these, as of the last reading of the counts.
	retired, retiredThen uint64
	// watched is the count of each slot when it was last seen to change.
	watched []watched
	// owners are the processes that are also counted individually.
	owners [MaxOwners]owner
	// sums and calls are kept for the next reading.
	sums  []uint64
	calls map[call]uint64
	order []call
}

// tally is how a program counts by slot of the process table.
type tally interface {
	// totals adds what each slot has counted to sums.
	totals(c *Counters, sums []uint64)
	// forget empties the cells of slots and returns what they had counted.
	forget(c *Counters, gone map[int]bool) (events uint64, err error)
	// crowded reports whether the tally's own table, if it has one, is nearly full.
	crowded(c *Counters) bool
}

// slotCells is the tally of a program that has the same cells for each slot: each of
// them, of which the first few count events.
type slotCells struct{ each, events int }

// value is the cell i of a slot, over all rows.
func (t slotCells) value(c counts, slot, i int) uint64 { return c.sum(slot*t.each + i) }

func (t slotCells) totals(c *Counters, sums []uint64) {
	cells := c.counts()
	for slot := range sums {
		for i := range t.events {
			sums[slot] += t.value(cells, slot, i)
		}
	}
}

func (t slotCells) forget(c *Counters, gone map[int]bool) (events uint64, err error) {
	cells := c.counts()
	for slot := range gone {
		for i := range t.each {
			if i < t.events {
				events += t.value(cells, slot, i)
			}
			cells.clear(slot*t.each + i)
		}
	}
	return events, nil
}

func (slotCells) crowded(*Counters) bool { return false }

// byName emits the cells of each process name that has counted something. It
// returns those that were folded. The slices are valid until emit returns.
func (t slotCells) byName(c *Counters, emit func(process string, cells []uint64)) (folded []uint64) {
	r := c.kernel.Lock()
	defer c.kernel.Unlock()
	p, all, raw := &r.ledgerOf(c).places, c.counts(), c.maps["names"]
	if p.sums == nil {
		p.sums = make([]uint64, slots*t.each)
	}
	clear(p.sums)
	p.retiredThen = p.retired
	folded = make([]uint64, t.each)
	for slot := range slots {
		for i := range t.each {
			n := t.value(all, slot, i)
			switch {
			case n == 0:
				continue
			case r.inLimbo(slot):
				if i < t.events {
					p.retiredThen += n
				}
				continue
			case slot == otherSlot:
				folded[i] = n
			}
			p.sums[p.names.firstSlot(raw, slot)*t.each+i] += n
		}
	}
	for slot := range slots {
		cells := p.sums[slot*t.each : (slot+1)*t.each]
		if sumOf(cells) > 0 {
			emit(p.names.label[slot], cells)
		}
	}
	return folded
}

// byOwner emits the cells of each process that is also counted individually.
func (t slotCells) byOwner(c *Counters, emit func(pid int, process string, cells []uint64)) {
	r := c.kernel.Lock()
	defer c.kernel.Unlock()
	all, cells := c.counts(), make([]uint64, t.each)
	r.ledgerOf(c).eachOwner(func(slot int, o *owner) {
		for i := range cells {
			cells[i] = t.value(all, slot, i)
		}
		emit(o.pid, o.name, cells)
	})
}

// sumOf is the sum of some cells.
func sumOf(cells []uint64) (n uint64) {
	for _, v := range cells {
		n += v
	}
	return n
}
