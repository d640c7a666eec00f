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
	// that it changes too.
	read, write []string
	// sized gives the number of entries of maps that depend on the number of CPUs.
	sized map[string]func(cpus int) uint32
	// processes says that the object uses the process table.
	processes bool
	// events is the number of runs of all its programs, from one CPU's row.
	events func(c *Counters, row counts) uint64
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
}

// defaultBytes bounds the counters of one object.
const defaultBytes = 8 << 20

// Counters is an open Program.
type Counters struct {
	program *Program
	host    *host.Host
	// Lost says which hooks could not be attached, or is nil.
	Lost error

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

	// mu guards the links, which come and go.
	mu       sync.Mutex
	detached bool
	// memory is that of the maps in bytes; the first user counts the shared ones.
	memory uint64
}

// kernel is what all open programs share. A machine has one kernel, so this is
// one value for the process.
var kernel struct {
	sync.Mutex
	// types is the kernel's type information. Sources are opened one after
	// another and share it; then the garbage collector takes it, which is larger
	// than all else together.
	types weak.Pointer[btf.Cache]
	// table holds the maps of the process table while users > 0.
	table map[string]*ebpf.Map
	users int
	open  map[*Counters]bool
	// dispatch is the way into a program on a tracepoint other than sys_enter in
	// seconds, once a Meter has measured it.
	dispatch float64
}

// tableMaps are the maps of the process table, shared between objects.
var tableMaps = []string{"slots", "names", "slots_used"}

// Open loads the program's object into the kernel and attaches its hooks. The
// error is a probe.Problem that says what stands in the way. On a fixture it
// returns the recorded maps.
func (p *Program) Open(h *host.Host) (*Counters, error) { return p.open(h, Limits{}) }

func (p *Program) open(h *host.Host, limits Limits) (*Counters, error) {
	c := &Counters{program: p, host: h, maps: map[string][]byte{}}
	if h.Maps != nil {
		return c, c.replay(h)
	}
	kernel.Lock()
	defer kernel.Unlock()
	if err := c.attach(h, limits); err != nil {
		return nil, errors.Join(err, c.release())
	}
	if kernel.open == nil {
		kernel.open = map[*Counters]bool{}
	}
	kernel.open[c] = true
	return c, nil
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
	defer kernel.Unlock()
	delete(kernel.open, c)
	return c.release()
}

func (c *Counters) release() error {
	errs := []error{c.Detach()}
	for i := len(c.close) - 1; i >= 0; i-- {
		errs = append(errs, c.close[i]())
	}
	for _, b := range c.mapped {
		errs = append(errs, unix.Munmap(b))
	}
	c.close, c.mapped, c.maps, c.hooks = nil, nil, nil, nil
	return errors.Join(errs...)
}

// Missed is the number of events for which the kernel did not run a program
// because one was running on that CPU already.
func (c *Counters) Missed() (uint64, error) {
	var n uint64
	for _, a := range c.hooks {
		s, err := a.program.Stats()
		if err != nil {
			return n, fmt.Errorf("read statistics of %s: %w", a.name, err)
		}
		n += s.RecursionMisses
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

// Spent is the number of events counted since opening, and the seconds that
// each CPU, or group of CPUs that share a row, has spent on counting them.
func (c *Counters) Spent() (events float64, seconds []float64) {
	kernel.Lock()
	body, dispatch := c.perEvent()
	kernel.Unlock()
	for row := range c.counts().rows() {
		n := float64(c.program.events(c, row))
		events += n
		seconds = append(seconds, n*(body+dispatch))
	}
	return events, seconds
}

// Detach takes the programs out of the kernel's way; they stay loaded, and the
// counters stay.
func (c *Counters) Detach() error {
	c.mu.Lock()
	defer c.mu.Unlock()
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
	for _, name := range c.program.reset {
		clear(c.maps[name])
	}
	var errs []error
	for i := range c.hooks {
		a := &c.hooks[i]
		if a.link != nil {
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

// counts is the map of that name: rows of 64-bit cells.
type counts struct {
	bytes []byte
	row   int
}

func (c *Counters) counts() counts { return counts{c.maps["counts"], c.program.row} }

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

// rows is the number of rows for so many CPUs: one each, or the largest power
// of two that stays within max bytes.
func rows(cpus, row, max int) int {
	if fit := max / (row * 8); fit < cpus {
		return 1 << (bits.Len(uint(fit)|1) - 1)
	}
	return cpus
}
