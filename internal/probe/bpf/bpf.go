// Package bpf counts kernel events in the kernel. A Program is one object of C code
// with its hooks; opening it attaches them and returns Counters, arrays shared by
// kernel and this process, so reading needs no system call.
//
// Only this package uses cilium/ebpf. It knows the layout of the arrays but no metrics:
// probe/sources names the numbers.
//
// The programs need Linux 5.15 with BTF (CONFIG_DEBUG_INFO_BTF) and the capabilities
// CAP_BPF and CAP_PERFMON; page faults only happen on x86 hooks.
package bpf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/locked"
)

// Program is an object of one or more BPF programs that count into one array.
type Program struct {
	Name string
	spec
	layout
	filter
}

// spec says what to load, and where to attach it.
type spec struct {
	load func() (*ebpf.CollectionSpec, error)
	// hooks are attached one by one; losing one does not affect the others.
	hooks []hook
	// levels is the number of levels of detail, of which 0 is the cheapest; 0 levels
	// means one. The constant "level" tells a program its level.
	levels int
	// sized returns the number of entries of maps whose size depends on the number of
	// CPUs.
	sized map[string]func(cpus int) uint32
	// shares names maps that objects share while any of them is open.
	shares []string
}

// layout describes how the maps are read and written.
type layout struct {
	// row is the number of cells that one CPU has in the map "counts".
	row int
	// rare: events are so rare that all CPUs share one row, and add to it atomically.
	rare bool
	// fresh names the cells of each slot that are emptied before the threads are visited.
	fresh []int
	// more gives the cells of a row in further banked maps, by name.
	more map[string]int
	// read names the maps that user space maps, including "counts"; write those that it
	// also changes. A fixture records both. User space controls the programs through
	// those in tell.
	read, write, tell []string
	// reset names maps that remember the last event; they are emptied before the
	// programs are attached again.
	reset []string
}

// filter narrows a program to some processes.
type filter struct {
	// slots is how it counts by slot of the process table; nil: it does not use that
	// table.
	slots tally
	// source is the object's number in members.h.
	source int
}

// Limits are the sizes of bounded tables and the pace of the clock, for tests. Zero is
// the default.
type Limits struct {
	Processes, Pairs uint32
	// Bytes bounds the banked counters; beyond it CPUs share rows.
	Bytes int
	// Idle is how long a name must be inactive to lose its slot.
	Idle time.Duration
	// Period is the time between two samples of a CPU.
	Period time.Duration
}

// defaultBytes bounds the counters of one object.
const defaultBytes = 8 << 20

// Counters is an open Program: the common part. A type for each kind of reading embeds
// it.
type Counters struct {
	program *Program
	host    *host.Host
	kernel  *kernel
	limits  Limits
	// Lost says which hooks of level 0 could not be attached, or is nil.
	Lost error
	// lost says which hooks each level additionally lacks.
	lost []error

	// recorded: the maps are a fixture's.
	recorded bool
	maps     map[string][]byte
	mapped   [][]byte
	// tables are the maps that user space changes by system call.
	tables map[string]*ebpf.Map
	// memory is that of the maps in bytes; the first user counts shared ones.
	memory uint64
	close  []func(*registry) error

	links locked.Value[links]
	// guarded is reached through registry.of, so only with the registry locked.
	guarded ledger
}

// onClose adds an action to Close; the last added runs first.
func (c *Counters) onClose(f func() error) {
	c.close = append(c.close, func(*registry) error { return f() })
}

// tableMaps are the maps of the process table, shared between objects.
var tableMaps = []string{"slots", "names", "slots_used", "slots_free", "members"}

// Open loads the program's object into the kernel and attaches its hooks. The error is
// a probe.Problem with the obstacle. On a fixture it returns the recorded maps.
func (p *Program) Open(h *host.Host) (*Counters, error) { return p.open(h, Limits{}) }

func (p *Program) open(h *host.Host, limits Limits) (*Counters, error) {
	c := &Counters{program: p, host: h, kernel: kernelOf(h), maps: map[string][]byte{}, limits: limits}
	if h.Maps != nil {
		return c, c.replay(h)
	}
	c.kernel.begin(1)
	defer c.kernel.begin(-1)
	if err := c.attach(h, limits); err != nil {
		return nil, errors.Join(err, c.release())
	}
	if c.program.slots != nil {
		c.kernel.openMembers(h)
	}
	held := c.kernel.Lock()
	defer c.kernel.Unlock()
	held.add(c)
	return c, nil
}

func (c *Counters) replay(h *host.Host) error {
	c.recorded = true
	maps, err := h.Maps(c.program.Name)
	if err != nil {
		return err
	}
	for _, name := range slices.Concat(c.program.reads(), c.program.write) {
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
	r := c.kernel.Lock()
	delete(r.open, c)
	if c.program.slots != nil && !c.recorded {
		_ = r.inherit(c, false) // the others go on without it
	}
	c.kernel.Unlock()
	return c.release()
}

// release detaches all hooks and frees what c has.
func (c *Counters) release() error {
	err := c.unhook()
	held := c.kernel.Lock()
	defer c.kernel.Unlock()
	return errors.Join(err, held.drop(c))
}

// unhook detaches all hooks for good.
func (c *Counters) unhook() error {
	held := c.links.Lock()
	defer c.links.Unlock()
	return held.remove()
}

// Missed is the number of events for which the kernel did not run a program because one
// was already running on that CPU.
func (c *Counters) Missed() (uint64, error) {
	l := c.links.Lock()
	defer c.links.Unlock()
	var n uint64
	for _, a := range l.hooks {
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

// Events is how often the programs ran.
func (c *Counters) Events() uint64 {
	var n uint64
	for row := range c.runs().rows() {
		n += row.ran()
	}
	return n
}

// The contents of the map "control" of process.h, as offsets in bytes.
const (
	controlSince    = 0
	controlNarrowed = 8
	controlByName   = 12
)

// control sets a value in the map that programs read, if the object has that map.
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

// set returns the value last set by control, except for controlSince.
func (c *Counters) set(what int) uint32 {
	if b := c.maps["control"]; len(b) > 0 {
		return binary.NativeEndian.Uint32(b[what:])
	}
	return 0
}

// now reads the clock of bpf_ktime_get_ns.
func now() uint64 {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) != nil {
		return 0
	}
	return uint64(t.Nano())
}
