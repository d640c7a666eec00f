package host

import (
	"slices"
	"sync"
	"time"
)

// calls are the file operations under way, so that one that blocks can be named.
type calls struct {
	mu   sync.Mutex
	next uint64
	open map[uint64]call
}

type call struct {
	name  string
	since time.Time
}

// enter notes an operation on a path; the function it returns ends it.
func (c *calls) enter(name string, now time.Time) func() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open == nil {
		c.open = map[uint64]call{}
	}
	c.next++
	id := c.next
	c.open[id] = call{name, now}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.open, id)
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
	h.calls.mu.Lock()
	defer h.calls.mu.Unlock()
	var out []string
	for _, c := range h.calls.open {
		if h.Now().Sub(c.since) > d {
			out = append(out, c.name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
