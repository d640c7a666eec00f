package bpf

// The user-space side of runs.h: how often programs ran on each CPU, how long the timed runs took, and the number of
// runs at which they wake user space because the budget of the period is spent.

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/cilium/ebpf/ringbuf"
)

// The maps of runs.h, and the cells of a CPU's runs.
const (
	runsMap   = "runs"
	toldMap   = "told"
	runCells  = 7
	nextCell  = runCells
	mostCell  = 8
	dueCell   = 9
	gapCell   = 10
	timedCell = 11
	nsCell    = 12
	runsRow   = 16
)

const (
	// unlimited is the number of runs that no program reaches.
	unlimited = math.MaxUint64
	// gap makes a program time one of 256 of its runs: three readings of the clock, less than a nanosecond a run.
	gap = 511
)

// reads names the maps that user space maps.
func (l layout) reads() []string { return append([]string{runsMap}, l.read...) }

// runs says how often the programs ran on each CPU.
func (c *Counters) runs() counts { return counts{c.maps[runsMap], runsRow} }

// ran is the sum of a CPU's cells.
func (c counts) ran() (n uint64) {
	for cell := range min(c.row, runCells) {
		n += c.sum(cell)
	}
	return n
}

// most limits the runs on a CPU: the one that reaches n tells user space. A program that runs at the same moment may see it
// only at the next run that it times.
func (c counts) most(n uint64) {
	c.set(mostCell, n)
	if c.sum(nextCell) > n {
		c.set(nextCell, n)
	}
}

// set sets a cell of a row.
func (c counts) set(cell int, n uint64) { binary.NativeEndian.PutUint64(c.bytes[cell*8:], n) }

// timedRuns are the runs that were timed, and what they took without the ways into the program and to the clock.
func (c counts) timedRuns() timing {
	return timing{float64(c.sum(timedCell)), float64(int64(c.sum(nsCell))) * 1e-9}
}

// timeEach has every run timed, or again one of many.
func (c counts) timeEach(each bool) {
	for row := range c.rows() {
		if !each {
			row.set(gapCell, gap)
			continue
		}
		row.set(gapCell, 0)
		row.set(dueCell, 0)
		row.set(nextCell, 0)
	}
}

// Limit implements probe.Governed: the programs compare the number of their runs with what the seconds buy at the price of
// now, which costs them next to nothing, and nobody has to look at them.
func (c *Counters) Limit(most []float64, reached func()) bool {
	r := c.kernel.Lock()
	defer c.kernel.Unlock()
	if !r.hears || len(c.maps[runsMap]) == 0 {
		return false
	}
	r.ledgerOf(c).reached = reached
	r.learn(c)
	body, dispatch := r.perEvent(c)
	now := r.charge(c)
	cpu := 0
	for row := range c.runs().rows() {
		limit := uint64(unlimited)
		if cpu < len(most) {
			if left := math.Ceil(max(0, most[cpu]-now.seconds[cpu]) / (body + dispatch)); left < math.MaxInt64 {
				limit = now.events[cpu] + max(1, uint64(left))
			}
		}
		row.most(limit)
		cpu++
	}
	return true
}

// listen begins to wait for programs that have reached their limit, as long as an object is open.
func (r *registry) listen(c *Counters) error {
	if r.listeners == 0 {
		told, err := ringbuf.NewReader(r.shared[toldMap].Map)
		if err != nil {
			return fmt.Errorf("read map %s: %w", toldMap, err)
		}
		r.told, r.hears = told, true
		go c.kernel.relayLimits(told)
	}
	r.listeners++
	c.close = append(c.close, func(r *registry) error {
		if r.listeners--; r.listeners > 0 {
			return nil
		}
		return r.told.Close()
	})
	return nil
}

// relayLimits passes on that a program has reached its limit, to all who have set one: which it was does not matter to a
// governor, which checks its sources together. It ends when told is closed, or cannot be read.
func (k *kernel) relayLimits(told *ringbuf.Reader) {
	var record ringbuf.Record
	for {
		err := told.ReadInto(&record)
		var all []func()
		r := k.Lock()
		if err != nil && r.told == told {
			r.hears = false
		}
		for c := range r.open {
			if f := r.ledgerOf(c).reached; f != nil {
				all = append(all, f)
			}
		}
		k.Unlock()
		for _, f := range all {
			f()
		}
		if err != nil {
			return
		}
	}
}
