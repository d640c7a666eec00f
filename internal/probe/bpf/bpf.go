// Package bpf counts kernel events in the kernel. A Program is one object of C
// code with its hooks; opening it attaches them and returns Counters, arrays
// that kernel and this process share, so that reading costs no system call.
//
// It is the only user of cilium/ebpf. It knows the layout of the arrays and
// nothing of metrics: what the numbers are called is up to probe/sources.
//
// The programs need Linux 5.15 with BTF (CONFIG_DEBUG_INFO_BTF) and the
// capabilities CAP_BPF and CAP_PERFMON; page faults only happen on x86 hooks.
package bpf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"sync"
	"time"
	"weak"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/host"
)

// Program is an object of one or more BPF programs that count into one array.
type Program struct {
	Name string
	load func() (*ebpf.CollectionSpec, error)
	// hooks are attached one by one; losing one leaves the others.
	hooks []hook
	// row is the number of cells that one CPU has in the map "counts".
	row int
	// read names the maps that user space maps, "counts" among them; write those
	// that it changes too. A fixture records both. tell names those through which
	// user space tells the programs something.
	read, write, tell []string
	// more gives the cells of a row in further banked maps, by name.
	more map[string]int
	// levels is the number of levels of detail, of which 0 is the cheapest; no
	// number is one. The constant "level" tells a program for which it is loaded.
	levels int
	// sized gives the number of entries of maps that depend on the number of CPUs.
	sized map[string]func(cpus int) uint32
	// processes says that the object uses the process table; the rest belongs to it.
	processes bool
	// source is the object's number in members.h.
	source int
	// totals adds what each slot of the process table has counted to sums.
	totals func(c *Counters, sums []uint64)
	// forget empties the cells of slots and returns what they had counted.
	forget func(c *Counters, gone map[int]bool) (events uint64, err error)
	// crowded, where set, says that a table of its own is nearly full.
	crowded func(c *Counters) bool
	// events is the number of runs of all its programs, from one CPU's row.
	events func(c *Counters, row counts) uint64
	// shares names maps that objects have in common while any is open.
	shares []string
	// reset names maps that remember what was there at the last event; they are
	// emptied before the programs are attached again.
	reset []string
}

// Limits are the sizes of bounded tables, for tests that fill them. Zero is
// the default.
type Limits struct {
	Processes, Pairs uint32
	// Bytes bounds the banked counters; CPUs share rows where it is exceeded.
	Bytes int
	// Idle is for how long a name must have done nothing to lose its slot.
	Idle time.Duration
}

// defaultBytes bounds the counters of one object.
const defaultBytes = 8 << 20

// Counters is an open Program.
type Counters struct {
	program *Program
	host    *host.Host
	// Lost says which hooks of level 0 could not be attached, or is nil.
	Lost error
	// lost says what each level lacks besides.
	lost []error

	// recorded: the maps are a fixture's.
	recorded bool
	maps     map[string][]byte
	mapped   [][]byte
	hooks    []attached
	close    []func() error
	names    names
	// calls and order are Syscalls' own, kept for the next time.
	calls map[call]uint64
	order []call
	// calibrated is what an event costs in seconds, dispatch and body, where that
	// could be measured when the hook was attached; body is its part in the
	// program, once a Meter has measured it. 0 is not known.
	calibrated, body float64

	// Retired is the number of events of names that lost their slot, as of the
	// last time that the counts were read.
	Retired uint64
	// retired is Retired without those of slots in limbo; watched is what each
	// slot had counted when it was last seen to change.
	retired uint64
	watched []watched
	limits  Limits
	// owners are the processes with cells of their own.
	owners [MaxOwners]owner
	// shared is the maps that user space changes by system call.
	shared map[string]*ebpf.Map

	// mu guards the links, which come and go.
	mu       sync.Mutex
	detached bool
	level    int
	// charged is what was spent until the level last changed, and levelCosts what
	// is known of the cost at the other levels.
	charged    charged
	levelCosts []struct{ calibrated, body float64 }
	// memory is that of the maps in bytes; the first user counts the shared ones.
	memory uint64
}

// kernel is what all open programs share. A machine has one kernel, so this is
// one value for the process.
var kernel struct {
	sync.Mutex
	// types is the kernel's type information. Sources that are opened at the same
	// time share it; then the garbage collector takes it, which is larger than all
	// else together.
	types weak.Pointer[btf.Cache]
	// table holds the maps of the process table while users > 0.
	table map[string]*ebpf.Map
	users int
	open  map[*Counters]bool
	// opening is the number of objects that use the table and are not in open yet:
	// they cannot be told that a slot is given to another.
	opening int
	// shared holds the maps that open objects have in common, by name.
	shared map[string]*sharedMap
	// members keeps the table of members while inheriting is not empty; noMembers
	// says why it cannot.
	members    *Counters
	noMembers  error
	inheriting map[*Counters]bool
	// joining is held by who looks whether the table of members is kept; it is
	// taken before the other lock.
	joining sync.Mutex
	// limbo holds the slots that were taken back, and how often tended was set
	// since: programs that still use one have long ended after the second time.
	limbo  map[int]int
	tended time.Time
	// dispatch is the way into a program on a tracepoint other than sys_enter in
	// seconds, once a Meter has measured it.
	dispatch float64
}

// tableMaps are the maps of the process table, shared between objects.
var tableMaps = []string{"slots", "names", "slots_used", "slots_free", "members"}

// Open loads the program's object into the kernel and attaches its hooks. The
// error is a probe.Problem that says what stands in the way. On a fixture it
// returns the recorded maps.
func (p *Program) Open(h *host.Host) (*Counters, error) { return p.open(h, Limits{}) }

func (p *Program) open(h *host.Host, limits Limits) (*Counters, error) {
	c := &Counters{program: p, host: h, maps: map[string][]byte{}, limits: limits}
	if h.Maps != nil {
		return c, c.replay(h)
	}
	opening(1)
	defer opening(-1)
	if err := c.attach(h, limits); err != nil {
		return nil, errors.Join(err, c.release())
	}
	if c.program.processes {
		openMembers(h)
	}
	kernel.Lock()
	defer kernel.Unlock()
	c.opened()
	return c, nil
}

// opening says that so many more objects are on their way to be open.
func opening(n int) {
	kernel.Lock()
	defer kernel.Unlock()
	kernel.opening += n
}

// opened puts c among what is open. The lock of kernel is held.
func (c *Counters) opened() {
	if kernel.open == nil {
		kernel.open = map[*Counters]bool{}
	}
	kernel.open[c] = true
}

func (c *Counters) replay(h *host.Host) error {
	c.recorded = true
	maps, err := h.Maps(c.program.Name)
	if err != nil {
		return err
	}
	for _, name := range slices.Concat(c.program.read, c.program.write) {
		b, ok := maps[name]
		if !ok {
			return fmt.Errorf("read map %s of %s: not recorded", name, c.program.Name)
		}
		c.maps[name] = b
	}
	return nil
}

// Close detaches all hooks and frees the maps.
func (c *Counters) Close() error {
	kernel.Lock()
	delete(kernel.open, c)
	if c.program.processes && !c.recorded {
		_ = inherit(c, false) // the others go on without it
	}
	kernel.Unlock()
	return c.release()
}

// release detaches all hooks and frees what c has. The lock of kernel is not held.
func (c *Counters) release() error {
	err := c.unhook()
	kernel.Lock()
	defer kernel.Unlock()
	return errors.Join(err, c.drop())
}

// unhook detaches all hooks for good and at once: to be sure that no CPU runs a
// program any more takes the kernel up to tens of milliseconds for each.
func (c *Counters) unhook() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all sync.WaitGroup
	errs := make([]error, len(c.hooks))
	for i := range c.hooks {
		if a := &c.hooks[i]; a.link != nil {
			all.Go(func() { errs[i] = a.link.Close() })
		}
	}
	all.Wait()
	c.hooks, c.detached = nil, true
	return errors.Join(errs...)
}

// drop frees all but the hooks, which are detached. The lock of kernel is held.
func (c *Counters) drop() error {
	var errs []error
	for i := len(c.close) - 1; i >= 0; i-- {
		errs = append(errs, c.close[i]())
	}
	for _, b := range c.mapped {
		errs = append(errs, unix.Munmap(b))
	}
	c.close, c.mapped, c.maps = nil, nil, nil
	return errors.Join(errs...)
}

// Missed is the number of events for which the kernel did not run a program
// because one was running on that CPU already.
func (c *Counters) Missed() (uint64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var n uint64
	for _, a := range c.hooks {
		for _, p := range a.loaded() {
			s, err := p.Stats()
			if err != nil {
				return n, fmt.Errorf("read statistics of %s: %w", a.name, err)
			}
			n += s.RecursionMisses
		}
	}
	return n, nil
}

// Events is the number of events that the attached programs counted.
func (c *Counters) Events() uint64 {
	var n uint64
	for row := range c.counts().rows() {
		n += c.program.events(c, row)
	}
	return n
}

// assumed is what an event costs in seconds while no one has measured it: more
// than any program here does on machines that were measured, so that a budget
// errs to the safe side.
const assumed = 150e-9

// perEvent is what an event costs in seconds: the program and the way into it.
func (c *Counters) perEvent() (body, dispatch float64) {
	switch {
	case c.calibrated > 0 && c.body > 0:
		return c.body, max(0, c.calibrated-c.body)
	case c.calibrated > 0:
		return 0, c.calibrated
	case c.body > 0:
		return c.body, kernel.dispatch
	}
	return 0, assumed
}

// charged is what each row of counters had cost at some moment.
type charged struct {
	events  []uint64
	seconds []float64
}

// charge is what c has cost until now. The lock of kernel is held.
func (c *Counters) charge() charged {
	body, dispatch := c.perEvent()
	var now charged
	for row := range c.counts().rows() {
		i := len(now.events)
		n := c.program.events(c, row)
		events, seconds := n, 0.0
		if i < len(c.charged.events) {
			events, seconds = n-c.charged.events[i], c.charged.seconds[i]
		}
		now.events = append(now.events, n)
		now.seconds = append(now.seconds, seconds+float64(events)*(body+dispatch))
	}
	return now
}

// Spent is the number of events counted since opening, and the seconds that
// each CPU, or group of CPUs that share a row, has spent on counting them.
func (c *Counters) Spent() (events float64, seconds []float64) {
	kernel.Lock()
	defer kernel.Unlock()
	now := c.charge()
	for _, n := range now.events {
		events += float64(n)
	}
	return events, now.seconds
}

// Level is the level of detail in force.
func (c *Counters) Level() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.level
}

// Incomplete says which hooks are missing at the level in force, or is nil.
func (c *Counters) Incomplete() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.level < len(c.lost) {
		return errors.Join(c.Lost, c.lost[c.level])
	}
	return c.Lost
}

// SetLevel changes the level of detail. Being loaded, the programs need no
// capability for it. What was counted stays; what happens while they change
// places, well below a millisecond, is not seen.
func (c *Counters) SetLevel(level int) error {
	if level < 0 || level > 0 && level >= c.program.levels {
		return fmt.Errorf("set level %d of %s: it has %d", level, c.program.Name, max(1, c.program.levels))
	}
	kernel.Lock()
	defer kernel.Unlock()
	return c.setLevel(level)
}

// setLevel is SetLevel for a level that there is. The lock of kernel is held.
func (c *Counters) setLevel(level int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if level == c.level {
		return nil
	}
	if c.recorded {
		c.level = level
		return nil
	}
	c.charged = c.charge()
	detached := c.detached
	err := c.unlink()
	was, is := &c.levelCosts[c.level], &c.levelCosts[level]
	was.calibrated, was.body = c.calibrated, c.body
	c.calibrated, c.body = is.calibrated, is.body
	c.level = level
	for i := range c.hooks {
		c.hooks[i].use(level)
	}
	if detached {
		return err
	}
	trigger := c.trigger()
	var before float64
	if trigger != nil && c.calibrated == 0 {
		before = perCall(trigger)
	}
	err = errors.Join(err, c.link())
	if before > 0 {
		// One trigger passes every hook once.
		c.calibrated = max(0, perCall(trigger)-before) / float64(c.linked())
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

// Detach takes the programs out of the kernel's way; they stay loaded, and the
// counters stay.
func (c *Counters) Detach() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.unlink()
}

func (c *Counters) unlink() error {
	var errs []error
	for i := range c.hooks {
		if a := &c.hooks[i]; a.link != nil {
			errs = append(errs, a.link.Close())
			a.link = nil
		}
	}
	c.detached = true
	return errors.Join(errs...)
}

// Attach puts the programs back. Being loaded, they need no capability for it.
// An error leaves those attached that could be.
func (c *Counters) Attach() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.link()
}

// link attaches what the level in force has. The first hook comes last: it
// begins what others end, and a beginning whose end is not seen would stay.
func (c *Counters) link() error {
	for _, name := range c.program.reset {
		clear(c.maps[name])
	}
	c.control(controlSince, now())
	var errs []error
	for i := len(c.hooks) - 1; i >= 0; i-- {
		a := &c.hooks[i]
		if a.link != nil || a.from > c.level {
			continue
		}
		l, err := a.attach(c.host, a.program)
		if err != nil {
			errs = append(errs, fmt.Errorf("attach %s: %w", a.name, err))
			continue
		}
		a.link = l
	}
	c.detached = false
	return errors.Join(errs...)
}

// linked is the number of hooks that are attached.
func (c *Counters) linked() (n int) {
	for _, a := range c.hooks {
		if a.link != nil {
			n++
		}
	}
	return n
}

// What the map "control" of process.h holds, as offsets in bytes.
const (
	controlSince    = 0
	controlNarrowed = 8
	controlByName   = 12
)

// control tells the programs something, if they listen.
func (c *Counters) control(what int, v uint64) {
	b := c.maps["control"]
	switch {
	case len(b) == 0:
	case what == controlSince:
		binary.NativeEndian.PutUint64(b, v)
	default:
		binary.NativeEndian.PutUint32(b[what:], uint32(v))
	}
}

// now is the clock of bpf_ktime_get_ns.
func now() uint64 {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) != nil {
		return 0
	}
	return uint64(t.Nano())
}

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

// sum adds a cell over all rows. Each load is of 8 aligned bytes, so it never
// sees half of an update.
func (c counts) sum(cell int) uint64 {
	var n uint64
	for i := cell * 8; i+8 <= len(c.bytes); i += c.row * 8 {
		n += binary.NativeEndian.Uint64(c.bytes[i:])
	}
	return n
}

// clear empties a cell in all rows. No program may be adding to it.
func (c counts) clear(cell int) {
	for i := cell * 8; i+8 <= len(c.bytes); i += c.row * 8 {
		binary.NativeEndian.PutUint64(c.bytes[i:], 0)
	}
}

// rows is the number of rows for so many CPUs: one each, or the largest power
// of two that stays within max bytes.
func rows(cpus, row, max int) int {
	if fit := max / (row * 8); fit < cpus {
		return 1 << (bits.Len(uint(fit)|1) - 1)
	}
	return cpus
}
