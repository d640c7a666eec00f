package bpf

// The process table has 1,024 slots. This file reclaims slots of inactive names when the table is nearly full, and when
// it is full, those of the names that count least. A slot is given out again only when no program can still be using
// its old name.

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
)

const (
	// Idle is how long a process name must be inactive before its slot is given to
	// another, once three quarters of all slots are taken.
	Idle = 5 * time.Minute
	// tend is the minimum time between two cleanings of the process table. No program
	// runs nearly as long, so none still uses what it read two cleanings ago.
	tend = time.Second
	// takenByte says in the map names that a slot is given out, TAKEN of process.h.
	takenByte = commLen - 1
	// entryBytes and entrySlot are struct cached of process.h.
	entryBytes, entrySlot = 24, 16
)

// watched is a slot's count when it was last seen to change, and how much it counted lately: each cleaning takes an eighth of
// what was counted before.
type watched struct {
	total  uint64
	since  time.Time
	recent float64
}

// Recycle reclaims slots of the process table whose names were long inactive, when it
// is nearly full, and gives them out again once no program can be using them. When it is
// full, it also reclaims those of the quarter of names that counted least lately: so whoever
// floods the table with names displaces no busy process, and a busy one that starts later
// gets a place. Their counts move to Retired. Call it in every round; an error means that the
// table is unchanged.
func (c Table) Recycle() error {
	if c.recorded || c.program.slots == nil {
		return nil
	}
	r := c.kernel.Lock()
	defer c.kernel.Unlock()
	now := c.host.Now()
	if r.opening > 0 || !r.tended.IsZero() && now.Sub(r.tended) < tend {
		return nil
	}
	r.tended = now
	return errors.Join(r.free(c.maps["names"]), r.retire(now, c.maps["names"]))
}

// free ends the limbo of slots that have been in it long enough: their cells are read
// for the last time.
func (r *registry) free(raw []byte) error {
	gone := map[int]bool{}
	for slot := range r.limbo {
		if r.limbo[slot]++; r.limbo[slot] > 2 {
			gone[slot] = true
		}
	}
	if len(r.limbo) > 0 {
		r.flush(r.inLimbo)
	}
	var errs []error
	for o := range r.users {
		errs = append(errs, r.disown(o))
		if len(gone) == 0 {
			continue
		}
		n, err := o.program.slots.forget(o, gone)
		l := r.ledgerOf(o)
		l.retired += n
		errs = append(errs, err)
		for slot := range gone {
			if l.watched != nil {
				l.watched[slot] = watched{}
			}
			if w := o.maps["wanted"]; slot < len(w) {
				w[slot] = 0
			}
		}
		l.names = names{}
	}
	for slot := range gone {
		clear(raw[slot*commLen : (slot+1)*commLen])
		delete(r.limbo, slot)
		if err := r.table["slots_free"].Update(nil, uint32(slot), ebpf.UpdateAny); err != nil {
			errs = append(errs, fmt.Errorf("give back a place in the table of processes: %w", err))
		}
	}
	if len(gone) > 0 {
		// Programs that were told that the table is full may ask again.
		r.flush(func(slot int) bool { return slot == otherSlot })
	}
	return errors.Join(errs...)
}

// disown empties the cells of processes that are no longer counted individually.
func (r *registry) disown(c *Counters) error {
	gone := map[int]bool{}
	l := r.ledgerOf(c)
	for i := range l.owners {
		if o := &l.owners[i]; o.gone {
			if o.left++; o.left > 2 {
				gone[slots+i] = true
				*o = owner{}
			}
		}
	}
	if len(gone) == 0 {
		return nil
	}
	_, err := c.program.slots.forget(c, gone)
	return err
}

// retire reclaims the slots of names that were long inactive, if the table is three
// quarters full.
func (r *registry) retire(now time.Time, raw []byte) error {
	crowded := false
	held := 0
	for slot := 1; slot < slots; slot++ {
		if isAssigned(raw, slot) {
			held++
		}
	}
	most := slots
	for o := range r.users {
		most = min(most, cmp.Or(int(o.limits.Processes), slots))
		crowded = crowded || held*4 > 3*cmp.Or(int(o.limits.Processes), slots) || o.program.slots.crowded(o)
	}
	if !crowded {
		for o := range r.users {
			r.ledgerOf(o).watched = nil
		}
		return nil
	}
	// Equal names share one series, which ends completely or not at all.
	busy := map[string]bool{Other: true}
	again := true
	for o := range r.users {
		again = r.watch(o, now, func(slot int) { busy[label(raw, slot)] = true }) && again
	}
	if again && held >= most-1 && len(r.limbo) == 0 {
		for _, name := range r.quietest(raw, held-most*3/4) {
			delete(busy, name)
		}
	}
	var errs []error
	for slot := 1; slot < slots; slot++ {
		if _, in := r.limbo[slot]; in || !isAssigned(raw, slot) || busy[label(raw, slot)] {
			continue
		}
		if err := r.unname(raw[slot*commLen:(slot+1)*commLen], uint32(slot)); err != nil {
			errs = append(errs, err)
			break
		}
		r.limbo[slot] = 0
	}
	r.flush(r.inLimbo)
	return errors.Join(errs...)
}

// quietest returns the n names that counted least lately. Programs count different events, so of each it takes a name's share of
// all, and the largest of these. Of names that counted nothing lately it takes those that ever counted least.
func (r *registry) quietest(raw []byte, n int) []string {
	type share struct{ recent, total float64 }
	shares := map[string]share{}
	for slot := 1; slot < slots; slot++ {
		if isAssigned(raw, slot) {
			shares[label(raw, slot)] = share{}
		}
	}
	for o := range r.users {
		var sum share
		of := map[string]share{}
		for slot, w := range r.ledgerOf(o).watched {
			if slot == otherSlot || !isAssigned(raw, slot) {
				continue
			}
			v := of[label(raw, slot)]
			of[label(raw, slot)] = share{v.recent + w.recent, v.total + float64(w.total)}
			sum = share{sum.recent + w.recent, sum.total + float64(w.total)}
		}
		for name, v := range of {
			if sum.recent > 0 {
				v.recent /= sum.recent
			}
			if sum.total > 0 {
				v.total /= sum.total
			}
			shares[name] = share{max(shares[name].recent, v.recent), max(shares[name].total, v.total)}
		}
	}
	delete(shares, Other)
	names := slices.SortedFunc(maps.Keys(shares), func(a, b string) int {
		return cmp.Or(cmp.Compare(shares[a].recent, shares[b].recent), cmp.Compare(shares[a].total, shares[b].total), cmp.Compare(a, b))
	})
	return names[:min(n, len(names))]
}

// watch calls busy for each slot that has counted something recently, and reports whether it had looked at this program before: what
// was counted by the first look is of the program's whole life, and says nothing of how much that was lately.
func (r *registry) watch(c *Counters, now time.Time, busy func(slot int)) (again bool) {
	var sums [slots]uint64
	c.program.slots.totals(c, sums[:])
	l := r.ledgerOf(c)
	again = l.watched != nil
	if !again {
		l.watched = make([]watched, slots)
	}
	for slot, n := range sums {
		w := &l.watched[slot]
		if again { // the cells of a slot that was given out since began at zero
			w.recent += float64(n-min(n, w.total)) - w.recent/8
		}
		if w.since.IsZero() || w.total != n {
			w.total, w.since = n, now
		}
		if now.Sub(w.since) < cmp.Or(c.limits.Idle, Idle) {
			busy(slot)
		}
	}
	return again
}

// unname removes the name from the table, so no program finds the slot.
func (r *registry) unname(name []byte, slot uint32) error {
	var key [commLen]byte
	copy(key[:takenByte], name)
	var is uint32
	err := r.table["slots"].Lookup(key, &is)
	if err == nil && is == slot {
		err = r.table["slots"].Delete(key)
	}
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("take back a place in the table of processes: %w", err)
	}
	return nil
}

// flush makes all programs forget that names have these slots.
func (r *registry) flush(in func(slot int) bool) {
	for o := range r.users {
		for b := o.maps["cache"]; len(b) >= entryBytes; b = b[entryBytes:] {
			p := (*uint64)(unsafe.Pointer(&b[entrySlot]))
			if v := atomic.LoadUint64(p); v > 0 && in(int(v-1)) {
				// Unless a program has just stored another there.
				atomic.CompareAndSwapUint64(p, v, 0)
			}
		}
	}
}

// isAssigned reports whether a slot is given out.
func isAssigned(names []byte, slot int) bool {
	i := slot*commLen + takenByte
	return i < len(names) && names[i] != 0
}

// inLimbo reports whether a slot was reclaimed, so its counts are retired.
func (r *registry) inLimbo(slot int) bool { _, ok := r.limbo[slot]; return ok }
