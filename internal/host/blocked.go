package host

import (
	"slices"
	"time"

	"github.com/teescope/teescope/internal/locked"
)

// calls are the file operations under way, so that one that blocks can be named.
type calls struct{ locked.Value[openCalls] }

// openCalls are the calls by number.
type openCalls struct {
	next uint64
	open map[uint64]call
}

type call struct {
	name  string
	since time.Time
}

// enter notes an operation on a path; the function it returns ends it.
func (c *calls) enter(name string, now time.Time) func() {
	o := c.Lock()
	defer c.Unlock()
	if o.open == nil {
		o.open = map[uint64]call{}
	}
	o.next++
	id := o.next
	o.open[id] = call{name, now}
	return func() {
		held := c.Lock()
		defer c.Unlock()
		delete(held.open, id)
	}
}

// enter notes an operation on the real machine; on a fixture nothing blocks.
func (h *Host) enter(name string) func() {
	if h.calls == nil {
		return func() {}
	}
	return h.calls.enter(name, h.Now())
}

// Blocked lists the paths of file operations that have been under way for longer
// than d, sorted.
func (h *Host) Blocked(d time.Duration) []string {
	if h.calls == nil {
		return nil
	}
	defer h.calls.Unlock()
	var out []string
	for _, c := range h.calls.Lock().open {
		if h.Now().Sub(c.since) > d {
			out = append(out, c.name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
