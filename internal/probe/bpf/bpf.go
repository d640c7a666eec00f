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
	// read names the maps that user space maps, "counts" among them.
	read []string
	// sized gives the number of entries of maps that depend on the number of CPUs.
	sized map[string]func(cpus int) uint32
	// processes says that the object uses the process table.
	processes bool
	// events is the number of runs of all its programs, from the counts.
	events func(counts) uint64
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
	// could be measured when the hook was attached; else 0.
	calibrated float64
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
}

// tableMaps are the maps of the process table, shared between objects.
var tableMaps = []string{"slots", "names", "slots_used"}

// Open loads the program's object into the kernel and attaches its hooks. The
// error is a probe.Problem that says what stands in the way. On a fixture it
// returns the recorded maps.
func (p *Program) Open(h *host.Host) (*Counters, error) { return p.open(h, Limits{}) }

func (p *Program) open(h *host.Host, limits Limits) (*Counters, error) {
	c := &Counters{program: p, maps: map[string][]byte{}}
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
	for _, name := range c.program.read {
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
	var errs []error
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
func (c *Counters) Events() uint64 { return c.program.events(c.counts()) }

// counts is the map of that name: rows of 64-bit cells.
type counts struct {
	bytes []byte
	row   int
}

func (c *Counters) counts() counts { return counts{c.maps["counts"], c.program.row} }

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
