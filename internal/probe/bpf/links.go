package bpf

// Attaches and detaches the hooks of one program. The governor does this for each sampling window, so both must be
// fast, and the ends of measured spans must be attached in the right order.

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/cilium/ebpf"
)

// links holds the hooks of a program, to attach and detach them.
type links struct {
	hooks    []attached
	detached bool
	level    int
	// visited is when the threads were visited last, and visitedBefore the time before that, in nanoseconds since boot.
	visited, visitedBefore uint64
}

// remove detaches all hooks for good and in parallel: for each one the kernel needs up
// to tens of milliseconds to be sure that no CPU still runs a program.
func (l *links) remove() error {
	var all sync.WaitGroup
	errs := make([]error, len(l.hooks))
	for i := range l.hooks {
		if a := &l.hooks[i]; a.link != nil {
			all.Go(func() { errs[i] = a.link.Close() })
		}
	}
	all.Wait()
	l.hooks, l.detached = nil, true
	return errors.Join(errs...)
}

// detach detaches all hooks, which stay loaded.
func (l *links) detach() error {
	var errs []error
	for i := range l.hooks {
		if a := &l.hooks[i]; a.link != nil {
			errs = append(errs, a.link.Close())
			a.link = nil
		}
	}
	l.detached = true
	return errors.Join(errs...)
}

// attach attaches the hooks of the current level. The first hook comes last: it begins what
// others end, and a beginning without its end would stay in a table.
func (l *links) attach(c *Counters) error {
	for _, name := range c.program.reset {
		clear(c.maps[name])
	}
	c.control(controlSince, now())
	var errs []error
	for i := len(l.hooks) - 1; i >= 0; i-- {
		a := &l.hooks[i]
		if a.link != nil || a.from > l.level {
			continue
		}
		k, err := a.attach(c.host, a.program)
		if err != nil {
			errs = append(errs, fmt.Errorf("attach %s: %w", a.name, err))
			continue
		}
		a.link = k
	}
	l.detached = false
	return errors.Join(errs...)
}

// attached is the number of hooks that are attached.
func (l *links) attached() (n int) {
	for _, a := range l.hooks {
		if a.link != nil {
			n++
		}
	}
	return n
}

// forget removes the hooks of that name.
func (l *links) forget(name string) error {
	var errs []error
	kept := l.hooks[:0:0]
	for _, a := range l.hooks {
		switch {
		case a.name != name:
			kept = append(kept, a)
		case a.link != nil:
			errs = append(errs, a.link.Close())
		}
	}
	l.hooks = kept
	return errors.Join(errs...)
}

// Detach detaches the programs; they stay loaded, and the counters stay.
func (c *Counters) Detach() error {
	c.kernel.quiet.RLock() // or it would change what an event costs while another's cost is measured
	defer c.kernel.quiet.RUnlock()
	held := c.links.Lock()
	defer c.links.Unlock()
	return held.detach()
}

// Attach attaches the programs again. Because they are loaded, this needs no
// capability. After an error, those that could be attached stay attached.
func (c *Counters) Attach() error {
	c.kernel.quiet.RLock() // see Detach
	defer c.kernel.quiet.RUnlock()
	held := c.links.Lock()
	defer c.links.Unlock()
	return held.attach(c)
}

// has reports whether a hook is in use; on a fixture all are.
func (c *Counters) has(hook string) bool {
	l := c.links.Lock()
	defer c.links.Unlock()
	return c.recorded || slices.ContainsFunc(l.hooks, func(a attached) bool { return a.name == hook })
}

// programs are those of the hooks in use, once for each hook.
func (c *Counters) programs() (out []*ebpf.Program) {
	l := c.links.Lock()
	defer c.links.Unlock()
	for i := range l.hooks {
		out = append(out, l.hooks[i].program)
	}
	return out
}

// Level is the current level of detail.
func (c *Counters) Level() int {
	held := c.links.Lock()
	defer c.links.Unlock()
	return held.level
}

// Incomplete says which hooks are missing at the current level, or is nil.
func (c *Counters) Incomplete() error {
	if level := c.Level(); level < len(c.lost) {
		return errors.Join(c.Lost, c.lost[level])
	}
	return c.Lost
}

// SetLevel changes the level of detail. Because the programs are loaded, this needs no
// capability. Counts stay; events during the exchange, well below a millisecond, are
// not seen.
func (c *Counters) SetLevel(level int) error {
	if level < 0 || level > 0 && level >= c.program.levels {
		return fmt.Errorf("set level %d of %s: it has %d", level, c.program.Name, max(1, c.program.levels))
	}
	held := c.kernel.Lock()
	defer c.kernel.Unlock()
	return held.setLevel(c, level)
}

// setLevel is SetLevel for an existing level.
func (r *registry) setLevel(c *Counters, level int) error {
	l := c.links.Lock()
	defer c.links.Unlock()
	if level == l.level {
		return nil
	}
	if c.recorded {
		l.level = level
		return nil
	}
	r.learn(c)
	cost := &r.ledgerOf(c).cost
	cost.charged = r.charge(c)
	detached := l.detached
	err := l.detach()
	cost.levels[l.level] = cost.price
	cost.price = cost.levels[level]
	defer func() { cost.known, cost.since = c.runs().timedRuns(), c.host.Now() }() // the rest was at the level before, or in the loop
	l.level = level
	for i := range l.hooks {
		l.hooks[i].selectLevel(level)
	}
	if detached {
		return err
	}
	trigger := c.trigger()
	var before float64
	if trigger != nil && cost.calibrated == 0 {
		before = perCall(trigger)
	}
	err = errors.Join(err, l.attach(c))
	if before > 0 {
		// One trigger reaches every hook once.
		cost.calibrated = max(0, perCall(trigger)-before) / float64(l.attached())
		cost.loop = min(c.loopTime(trigger), cost.calibrated)
	}
	return err
}

// trigger makes one event of each hook, or is nil.
func (c *Counters) trigger() func() {
	for i := range c.program.hooks {
		if t := c.program.hooks[i].trigger; t != nil {
			return t
		}
	}
	return nil
}
