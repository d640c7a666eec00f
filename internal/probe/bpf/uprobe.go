package bpf

// The user-space side of uprobe.bpf.c: uprobes on functions of user programs, which enter and leave enclaves. One
// program serves all of them; the cookie of a hook says what a hit means.

//go:generate ./compile.sh uprobe uprobe.bpf.c

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/teescope/teescope/internal/host"
)

// Sizes of uprobe.bpf.c.
const (
	runtimes       = 8
	selfRuntime    = runtimes - 1
	transitions    = 4
	uprobeSelfPID  = slots * runtimes * transitions
	uprobeRow      = uprobeSelfPID + 1
	tables         = 32
	tableBytes     = 1024
	tableFunctions = 126
)

// MaxRuntimes is the number of runtimes that Uprobes can distinguish.
const MaxRuntimes = selfRuntime

// Transition is the meaning of a function's call.
type Transition uint8

// The transitions. Either is a function that runs at an exit of both kinds; subtracting the
// asynchronous ones leaves the exits.
const (
	Entry Transition = iota
	Exit
	AsyncExit
	Either
)

// Mode changes what a call does besides counting.
type Mode uint8

// The modes, which combine: see the flags of uprobe.bpf.c.
const (
	// NoteTable reports the table of functions that the third argument points at; see Tables.
	NoteTable Mode = 1 << iota
	// IfOCall counts a call of Open Enclave's dispatcher only if it is for an OCALL.
	IfOCall
	// Mark counts nothing; it makes the process belong to the runtime.
	Mark
	// Marked counts for the runtime that the process belongs to.
	Marked
)

// Place is a function in a file and the meaning of its calls.
type Place struct {
	// Offset is that of the function's first instruction in the file.
	Offset     uint64
	Runtime    int
	Transition Transition
	Mode       Mode
}

func (p Place) cookie() uint64 {
	return uint64(p.Runtime) | uint64(p.Transition)<<8 | uint64(p.Mode)<<16
}

// Uprobes counts the calls of functions of user programs. A hook belongs to a file, not to a
// process: it applies to every process that maps the file, now or later, as long as the file is
// hooked.
type Uprobes struct {
	Table
	program *ebpf.Program // of all hooks
	multi   bool
	files   map[FileID]*hooked
	read    uint64 // number of the last table that Tables emitted
}

// hooked is a file with hooks.
type hooked struct {
	file   *Executable
	places map[uint64]bool // by offset
}

// uprobeSlots: the hits of the self-test, at the end, are not events.
var uprobeSlots = slotCells{each: runtimes * transitions, events: selfRuntime * transitions}

// OpenUprobes loads the program and measures what a hit costs, on a function of
// this process; no file is hooked yet.
func OpenUprobes(h *host.Host) (*Uprobes, error) { return openUprobes(h, true) }

// openUprobes can do without uprobe.multi, which came with Linux 6.6.
func openUprobes(h *host.Host, multi bool) (*Uprobes, error) {
	u := &Uprobes{files: map[FileID]*hooked{}}
	self := func(multi bool) func(*host.Host, *ebpf.Program) (link.Link, error) {
		return func(_ *host.Host, p *ebpf.Program) (link.Link, error) {
			offset, err := offsetOf(tick)
			if err != nil {
				return nil, err
			}
			u.program, u.multi = p, multi
			return attachUprobes(p, multi, "/proc/self/exe", Place{Offset: offset, Runtime: selfRuntime})
		}
	}
	p := &Program{
		Name: "uprobe",
		spec: spec{
			load: loadUprobe,
			hooks: []hook{{
				name:     "uprobe",
				variants: []variant{{"uprobe_multi", self(true)}, {"uprobe_single", self(false)}},
				trigger:  tick,
				trap:     true,
			}},
			sized: map[string]func(int) uint32{"cache": cacheEntries},
		},
		layout: layout{
			row:  uprobeRow,
			read: []string{"counts", "names", "tables"},
			tell: []string{"cache"},
		},
		filter: filter{
			slots: uprobeSlots,
		},
	}
	if !multi {
		p.hooks[0].variants = p.hooks[0].variants[1:]
	}
	var err error
	if u.Counters, err = p.Open(h); err != nil {
		return nil, err
	}
	if !u.recorded {
		u.forgetSelf()
	}
	return u, nil
}

// tick is the function that the self-test hooks. Its one instruction, a return,
// must be executed out of line, the more expensive of the two ways.
//
//go:noinline
//go:nosplit
func tick() {}

// forgetSelf removes the hook of the self-test in the background, since that takes the kernel
// long. Closing c waits for it.
func (c *Counters) forgetSelf() {
	c.kernel.Lock()
	defer c.kernel.Unlock()
	l := c.links.Lock()
	defer c.links.Unlock()
	gone, self := make(chan error, 1), l.hooks[0].link
	l.hooks = nil
	go func() { gone <- self.Close() }()
	c.onClose(func() error { return <-gone })
}

// HitSeconds is the cost of a hit in seconds, measured when u was opened; 0 is unknown.
func (u *Uprobes) HitSeconds() float64 { return u.calibratedCost() }

// PID is the id of this process in the numbering of Tables, or 0 where it is unknown.
func (u *Uprobes) PID() int { return int(u.counts().sum(uprobeSelfPID)) }

// Hook hooks functions of a file and takes ownership of the file. Functions already hooked are
// skipped. After an error, those that could be hooked stay hooked.
func (u *Uprobes) Hook(x *Executable, places []Place) error {
	f := u.files[x.ID]
	if f == nil {
		f = &hooked{file: x, places: map[uint64]bool{}}
		u.files[x.ID] = f
	} else if f.file != x {
		_ = x.Close()
	}
	var fresh []Place
	for _, p := range places {
		if !f.places[p.Offset] {
			f.places[p.Offset] = true
			fresh = append(fresh, p)
		}
	}
	if len(fresh) == 0 || u.recorded {
		return nil
	}
	if u.multi && u.hook(f.file, fresh...) == nil {
		return nil
	}
	// One by one: the kernel cannot put a breakpoint on every instruction.
	var errs []error
	for _, p := range fresh {
		if err := u.hook(f.file, p); err != nil {
			delete(f.places, p.Offset)
			errs = append(errs, fmt.Errorf("attach a uprobe at offset %#x: %w", p.Offset, oneLine{err}))
		}
	}
	return errors.Join(errs...)
}

// hook adds one link, attached unless u is detached.
func (u *Uprobes) hook(x *Executable, places ...Place) error {
	a := attached{name: x.String(), program: u.program, attach: func(_ *host.Host, p *ebpf.Program) (link.Link, error) {
		return attachUprobes(p, u.multi, x.descriptor(), places...)
	}}
	hit, err := a.attach(u.host, u.program)
	if err != nil {
		return err
	}
	u.kernel.Lock()
	defer u.kernel.Unlock()
	l := u.links.Lock()
	defer u.links.Unlock()
	if l.detached {
		err, hit = hit.Close(), nil
	}
	a.link = hit
	l.hooks = append(l.hooks, a)
	return err
}

func attachUprobes(p *ebpf.Program, multi bool, path string, places ...Place) (link.Link, error) {
	x, err := link.OpenExecutable(path)
	if err != nil {
		return nil, err
	}
	if !multi {
		return x.Uprobe("", p, &link.UprobeOptions{Address: places[0].Offset, Cookie: places[0].cookie()})
	}
	var o link.UprobeMultiOptions
	for _, place := range places {
		o.Addresses = append(o.Addresses, place.Offset)
		o.Cookies = append(o.Cookies, place.cookie())
	}
	return x.UprobeMulti(nil, p, &o)
}

// Hooked reports whether a file has hooks, and how many files have.
func (u *Uprobes) Hooked(id FileID) (yes bool, files int) { return u.files[id] != nil, len(u.files) }

// Forget removes the hooks of the files that gone reports.
func (u *Uprobes) Forget(gone func(*Executable) bool) error {
	u.kernel.Lock()
	defer u.kernel.Unlock()
	l := u.links.Lock()
	defer u.links.Unlock()
	var errs []error
	for id, f := range u.files {
		if !gone(f.file) {
			continue
		}
		errs = append(errs, l.forget(f.file.String()))
		delete(u.files, id)
		errs = append(errs, f.file.Close())
	}
	return errors.Join(errs...)
}

// Missed is the number of hits for which the kernel did not run the program.
func (u *Uprobes) Missed() (uint64, error) {
	if u.program == nil {
		return 0, nil
	}
	s, err := u.program.Stats()
	if err != nil {
		return 0, fmt.Errorf("read statistics of uprobe: %w", err)
	}
	return s.RecursionMisses, nil
}

// Close removes all hooks and closes the files.
func (u *Uprobes) Close() error {
	errs := []error{u.Counters.Close()}
	for _, f := range u.files {
		errs = append(errs, f.file.Close())
	}
	return errors.Join(errs...)
}

// Transitions emits for each process and runtime with any the numbers of calls
// since opening, by Transition. It returns how many were folded.
func (u *Uprobes) Transitions(emit func(process string, runtime int, n [transitions]uint64)) (folded uint64) {
	return sumOf(uprobeSlots.byName(u.Counters, func(process string, cells []uint64) {
		for runtime := range selfRuntime {
			n := [transitions]uint64(cells[runtime*transitions:])
			if n != [transitions]uint64{} {
				emit(process, runtime, n)
			}
		}
	})[:uprobeSlots.events])
}

// Tables emits the tables of functions recorded since the last call: the addresses of the
// functions in a process, by its id in the kernel's initial namespace. Of many at once the oldest
// are lost, as are the functions of a table beyond the 126th.
func (u *Uprobes) Tables(show func(pid int, functions []uint64)) {
	last := u.read
	for b := u.maps["tables"]; len(b) >= tableBytes; b = b[tableBytes:] {
		t := append([]byte(nil), b[:tableBytes]...)
		number := binary.NativeEndian.Uint64(t)
		if number <= last || binary.NativeEndian.Uint64(b) != number {
			continue
		}
		u.read = max(u.read, number)
		pid, n := binary.NativeEndian.Uint32(t[8:]), binary.NativeEndian.Uint32(t[12:])
		functions := make([]uint64, min(n, tableFunctions))
		for i := range functions {
			functions[i] = binary.NativeEndian.Uint64(t[16+8*i:])
		}
		show(int(pid), functions)
	}
}

// offsetOf is the offset of a function of this program in its file.
func offsetOf(f func()) (uint64, error) {
	at := uint64(reflect.ValueOf(f).Pointer())
	b, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		var start, end, offset uint64
		var perm string
		if _, err := fmt.Sscanf(line, "%x-%x %s %x", &start, &end, &perm, &offset); err == nil && start <= at && at < end {
			return at - start + offset, nil
		}
	}
	return 0, fmt.Errorf("find a function of this program in /proc/self/maps: %w", io.ErrUnexpectedEOF)
}
