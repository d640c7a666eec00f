package bpf

// The user-space side of samples.bpf.c: what to load, where to attach it, and how to read its counters. On each CPU a
// clock ticks 97 times a second; the program records what the interrupted thread did. Samples cost the same under any
// load.

//go:generate ./compile.sh samples samples.bpf.c

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/locked"
)

// Numbers and cells of samples.bpf.c.
const (
	nrWithin = 502 + iota
	nrUser
	nrHandshake
	nrMaybe
	nrGuest
	nrFault
	nrInterrupt
	nrThread

	cellLate  = pairs
	cellTried = pairs + 1
)

// SamplePeriod is the time between two samples of a CPU. 97 a second are in step with no timer,
// since timers have round periods.
const SamplePeriod = time.Second / 97

// silence is the time without a tick after which the clock of a CPU counts as stopped, as when
// the CPU was taken offline.
const silence = time.Second

// Activity is what a thread did when the clock ticked.
type Activity string

// The activities. InInterrupt: user space was left for an interrupt, or for an exception other
// than a page fault; where these look the same, as under lockdown in confidentiality mode or on
// processors with FRED, it is InFault. InThread is a thread of the kernel's own; Folded found its
// table full.
const (
	InUser      Activity = "user"
	InKernel    Activity = "kernel"
	InFault     Activity = "fault"
	InInterrupt Activity = "interrupt"
	InThread    Activity = "thread"
	Folded      Activity = Other
)

// Activities in place of a system call: a TLS handshake, and a virtual CPU in its guest.
const (
	Handshake = "tls_handshake"
	Guest     = "guest"
)

// Samples counts what threads do when the clocks of the CPUs tick.
type Samples struct {
	Table
	clock *locked.Value[clock]
	// users are the samples of user space by process.
	users map[string]*user
}

// user holds the samples of a process in user space: outside of handshakes, inside, and while
// handshakes were not observed.
type user struct {
	outside, inside, maybe uint64
	// shaken is the estimated part of maybe in handshakes.
	shaken float64
}

// add replaces the sums by later ones. New samples without observation of handshakes are divided
// like the observed ones since then, or if there are none, like all observed ones.
func (u *user) add(later user) {
	if later.outside < u.outside || later.inside < u.inside || later.maybe < u.maybe {
		*u = user{} // the name was forgotten in between
	}
	inside, seen := later.inside-u.inside, later.inside-u.inside+later.outside-u.outside
	if seen == 0 {
		inside, seen = later.inside, later.inside+later.outside
	}
	if seen > 0 {
		u.shaken += float64(later.maybe-u.maybe) * float64(inside) / float64(seen)
	}
	u.outside, u.inside, u.maybe = later.outside, later.inside, later.maybe
}

// OpenSamples starts a clock on each CPU, and measures what a tick costs.
func OpenSamples(h *host.Host) (*Samples, error) { return openSamples(h, Limits{}) }

func openSamples(h *host.Host, limits Limits) (*Samples, error) {
	period := cmp.Or(limits.Period, SamplePeriod)
	clock := locked.New(clock{ticks: map[int]*ticker{}, period: period})
	start := func(_ *host.Host, p *ebpf.Program) (link.Link, error) {
		held := clock.Lock()
		defer clock.Unlock()
		return running{clock: &clock}, held.start(p)
	}
	c, err := samplesProgram(period, start).open(h, limits)
	if err != nil {
		held := clock.Lock()
		defer clock.Unlock()
		return nil, errors.Join(err, held.close())
	}
	s := &Samples{Table: Table{c}, clock: &clock, users: map[string]*user{}}
	if c.recorded {
		return s, nil
	}
	clock.Lock().ticked = c.maps["ticked"]
	clock.Unlock()
	s.learn()
	c.calibrate(price{calibrated: s.measure()})
	return s, nil
}

// samplesProgram is the program that a clock of this period runs.
func samplesProgram(period time.Duration, start func(*host.Host, *ebpf.Program) (link.Link, error)) *Program {
	return &Program{
		Name: "samples",
		spec: spec{
			load: func() (*ebpf.CollectionSpec, error) {
				spec, err := loadSamples()
				if err == nil {
					err = spec.Variables["period"].Set(uint64(period))
				}
				return spec, err
			},
			hooks: []hook{{
				name:     "cpu-clock",
				variants: []variant{{"sample_exact", start}, {"sample_plain", start}},
			}},
			sized:  map[string]func(int) uint32{"cache": cacheEntries, "ticked": func(cpus int) uint32 { return uint32(cpus) }},
			shares: handshakeMaps,
		},
		layout: layout{
			row:   pairsRow,
			read:  []string{"counts", "keys", "names"},
			tell:  []string{"cache", "pairs", "entries"},
			reset: []string{"ticked"},
		},
		filter: filter{
			slots: pairTally{},
		},
	}
}

// Close stops the clocks.
func (s *Samples) Close() error {
	err := s.Counters.Close()
	held := s.clock.Lock()
	defer s.clock.Unlock()
	return errors.Join(err, held.close())
}

// Sampled emits the number of samples for each process, activity and call, and returns how many
// were folded. The call is that of InKernel, or Handshake where a handshake makes it; in other
// modes it is Handshake, Guest or "". While the budget keeps handshakes from being observed,
// their number is an estimate.
func (s *Samples) Sampled(emit func(process string, in Activity, call string, n float64)) (folded uint64) {
	users := map[string]user{}
	var order []string
	folded = pairTally{}.byName(s.Counters, func(process string, nr int, count uint64) {
		n := float64(count)
		switch nr {
		case nrUser, nrHandshake, nrMaybe:
			u, ok := users[process]
			if !ok {
				order = append(order, process)
			}
			*[]*uint64{&u.outside, &u.inside, &u.maybe}[nr-nrUser] = count
			users[process] = u
		case nrWithin:
			emit(process, InKernel, Handshake, n)
		case nrGuest:
			emit(process, InUser, Guest, n)
		case nrFault:
			emit(process, InFault, "", n)
		case nrInterrupt:
			emit(process, InInterrupt, "", n)
		case nrThread:
			emit(process, InThread, "", n)
		case numbers:
			emit(process, Folded, "", n)
		default:
			emit(process, InKernel, SyscallName(nr), n)
		}
	})
	for process := range s.users {
		if _, ok := users[process]; !ok {
			delete(s.users, process)
		}
	}
	for _, process := range order {
		u := s.users[process]
		if u == nil {
			u = &user{}
			s.users[process] = u
		}
		u.add(users[process])
		emit(process, InUser, "", float64(u.outside+u.maybe)-u.shaken)
		if n := float64(u.inside) + u.shaken; n > 0 {
			emit(process, InUser, Handshake, n)
		}
	}
	return folded
}

// Late is the number of ticks that were missed or found another program running, as when
// interrupts are off for long or the machine itself stands still.
func (s *Samples) Late() uint64 { return s.counts().sum(cellLate) }

// Follow starts the clocks of CPUs that came online or whose clock has stopped, and closes those
// of CPUs that left.
func (s *Samples) Follow(online []int) error {
	if s.recorded {
		return nil
	}
	held := s.clock.Lock()
	defer s.clock.Unlock()
	return held.follow(online)
}

// clock is a perf event on each CPU whose timer runs a program.
type clock struct {
	program *ebpf.Program
	period  time.Duration
	ticks   map[int]*ticker // by CPU
	on      bool
	started uint64 // when it was switched on
	ticked  []byte // the map of that name
}

// ticker is the event of a CPU.
type ticker struct {
	fd   int
	link link.Link
	made uint64
}

// running is the clock while it is on; closing it switches it off. Events are kept, since making
// new ones needs a capability.
type running struct {
	link.Link
	clock *locked.Value[clock]
}

// Close implements link.Link.
func (r running) Close() error {
	held := r.clock.Lock()
	defer r.clock.Unlock()
	return held.toggle(false)
}

// start switches the clock on with a program.
func (k *clock) start(p *ebpf.Program) error {
	if k.program != p {
		if err := k.close(); err != nil {
			return err
		}
		k.program = p
		cpus, err := ebpf.PossibleCPU()
		if err != nil {
			return err
		}
		for cpu := range cpus {
			if err := k.add(cpu); err != nil && !errors.Is(err, unix.ENODEV) { // it is offline
				return errors.Join(err, k.close())
			}
		}
	}
	return k.toggle(true)
}

// add makes the event of a CPU, switched off.
func (k *clock) add(cpu int) error {
	t, err := newTicker(k.program, k.period, -1, cpu)
	if err != nil {
		return fmt.Errorf("start the clock of CPU %d: %w", cpu, err)
	}
	k.ticks[cpu] = t
	return nil
}

// toggle switches all events on or off.
func (k *clock) toggle(on bool) error {
	k.on, k.started = on, now()
	var errs []error
	for cpu, t := range k.ticks {
		if err := t.toggle(on); err != nil {
			errs = append(errs, fmt.Errorf("switch the clock of CPU %d: %w", cpu, err))
		}
	}
	return errors.Join(errs...)
}

// follow is Samples.Follow.
func (k *clock) follow(online []int) error {
	var errs []error
	at := now()
	for cpu, t := range k.ticks {
		if slices.Contains(online, cpu) && !k.stopped(cpu, t, at) {
			continue
		}
		delete(k.ticks, cpu)
		errs = append(errs, t.close())
	}
	for _, cpu := range online {
		if k.ticks[cpu] != nil {
			continue
		}
		if b := k.ticked; (cpu+1)*8 <= len(b) {
			clear(b[cpu*8 : (cpu+1)*8]) // ticks missed while it was offline are no loss
		}
		err := k.add(cpu)
		if err == nil && k.on {
			err = k.ticks[cpu].toggle(true)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// stopped reports whether the clock of a CPU is on and does not tick.
func (k *clock) stopped(cpu int, t *ticker, at uint64) bool {
	last := max(k.started, t.made)
	if b := k.ticked; (cpu+1)*8 <= len(b) {
		last = max(last, binary.NativeEndian.Uint64(b[cpu*8:]))
	}
	return k.on && at > last+uint64(silence)
}

// close closes all events.
func (k *clock) close() error {
	var errs []error
	for _, t := range k.ticks {
		errs = append(errs, t.close())
	}
	clear(k.ticks)
	k.program = nil
	return errors.Join(errs...)
}

// newTicker makes an event, switched off, of a CPU or, unless it is -1, of a thread.
func newTicker(p *ebpf.Program, period time.Duration, thread, cpu int) (*ticker, error) {
	attr := unix.PerfEventAttr{
		Type:   unix.PERF_TYPE_SOFTWARE,
		Config: unix.PERF_COUNT_SW_CPU_CLOCK,
		Size:   uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
		Sample: uint64(period),
		Bits:   unix.PerfBitDisabled,
	}
	fd, err := unix.PerfEventOpen(&attr, thread, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("open a perf event: %w", err)
	}
	if host.Spared(fd) {
		return nil, errors.Join(fmt.Errorf("open a perf event: %w", unix.EMFILE), unix.Close(fd))
	}
	l, err := link.AttachRawLink(link.RawLinkOptions{Target: fd, Program: p, Attach: ebpf.AttachPerfEvent})
	if err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return &ticker{fd: fd, link: l, made: now()}, nil
}

func (t *ticker) toggle(on bool) error {
	request := uint(unix.PERF_EVENT_IOC_DISABLE)
	if on {
		request = unix.PERF_EVENT_IOC_ENABLE
	}
	return unix.IoctlSetInt(t.fd, request, 0)
}

func (t *ticker) close() error { return errors.Join(t.link.Close(), unix.Close(t.fd)) }

// learn has the program record the return addresses of the entry code, by which it separates
// interrupts from page faults.
func (s *Samples) learn() {
	for _, e := range []struct {
		program, tracepoint string
		trigger             func()
	}{{"entry_fault", "page_fault_user", touch}, {"entry_call", "sys_enter", func() { unix.Getppid() }}} {
		p, err := s.another(e.program)
		if err != nil {
			return
		}
		s.kernel.quiet.Lock() // or it would add to the measured cost of another's event
		l, err := raw(e.tracepoint)(s.host, p)
		if err == nil {
			e.trigger()
			err = l.Close()
		}
		s.kernel.quiet.Unlock()
		if errors.Join(err, p.Close()) != nil {
			clear(s.maps["entries"])
			return
		}
	}
}

// touch makes a page fault.
func touch() {
	b, err := unix.Mmap(-1, 0, unix.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return
	}
	b[0] = 1
	_ = unix.Munmap(b)
}

// measure returns the cost of a tick in seconds: how much longer the same work takes while its
// own clock interrupts it every 25 us; 0 if unknown.
func (s *Samples) measure() float64 {
	const batches, rounds = 15, 300_000
	s.kernel.quiet.Lock()
	defer s.kernel.quiet.Unlock()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	program := s.clock.Lock().program
	s.clock.Unlock()
	t, err := newTicker(program, 25*time.Microsecond, 0, -1)
	if err != nil {
		return 0
	}
	defer t.close()
	work := func() float64 {
		began := now()
		runtime.KeepAlive(spin(rounds))
		return float64(now()-began) / 1e9
	}
	alone := work()
	for range batches {
		alone = min(alone, work())
	}
	if t.toggle(true) != nil {
		return 0
	}
	// The minimum: disturbances only add.
	least := 0.0
	for range batches {
		before := s.counts().sum(cellTried)
		took := work()
		n := s.counts().sum(cellTried) - before
		if n == 0 {
			continue
		}
		if cost := max(0, took-alone) / float64(n); least == 0 || cost < least {
			least = cost
		}
	}
	return least
}

// spin keeps the processor busy, for a nanosecond or so a round.
//
//go:noinline
func spin(rounds int) (x uint32) {
	for range rounds {
		x = x*1664525 + 1013904223
	}
	return x
}
