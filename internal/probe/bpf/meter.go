package bpf

//go:generate go tool bpf2go -cc clang -strip llvm-strip -target bpfel -go-package bpf empty empty.bpf.c -- -O2 -g -Wall -Werror -mcpu=v3

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/locked"
	"github.com/teescope/teescope/internal/probe"
)

// The kernel's run-time statistics cost every program on the machine about 50 ns a run,
// so they are only on for a short window.
const (
	window = 200 * time.Millisecond
	every  = time.Minute
	// parts are how many times as long a window becomes at most if a program that counts only now and then has yet to run.
	parts = 7
)

// Meter estimates the cost of the open programs: nanoseconds per run in short windows
// of the kernel's statistics, times the events that the programs counted since they
// were attached.
//
// The statistics time the body of a program, including their own two clock reads; the
// time of an empty program is subtracted. They do not see dispatch, the way into the
// program, which is measured from outside once: for system calls when the program is
// attached, by the time of a call before and after; for other tracepoints with an empty
// program.
type Meter struct {
	host   *host.Host
	kernel *kernel
	empty  *ebpf.Program
	gauge  locked.Value[gauge]
}

// gauge holds the results of the windows so far.
type gauge struct {
	stats          io.Closer // open during a window
	timer          *time.Timer
	part           int // of the open window
	last           time.Time
	before         map[*ebpf.Program]ebpf.ProgramStats
	err            error
	clock          float64 // what the statistics report for a program that does nothing, in seconds
	seen           map[*Counters]uint64
	timed          map[*Counters]timing // without the clock reads
	metered        map[*Counters]uint64 // events until the last window ended
	body, dispatch float64
	known          bool
}

// Costs are totals in seconds since the programs were attached.
type Costs struct {
	Body, Dispatch float64
	// Known is false until the first window has ended.
	Known bool
	// Maps is the memory of all maps in bytes, as the kernel accounts it.
	Maps uint64
}

// NewMeter prepares and opens the first window.
func NewMeter(h *host.Host) (*Meter, error) {
	spec, err := loadEmpty()
	if err != nil {
		return nil, fmt.Errorf("read object empty: %w", err)
	}
	opened, err := host.Descriptors(need(spec, 2, 1))
	if err != nil {
		return nil, refused(h, "empty", err)
	}
	defer opened()
	m := &Meter{host: h, kernel: kernelOf(h), gauge: locked.New(gauge{seen: map[*Counters]uint64{}, timed: map[*Counters]timing{}, metered: map[*Counters]uint64{}})}
	types := m.kernel.typeCache()
	if m.empty, err = m.kernel.loadProgram(spec, "empty_socket", nil, types); err != nil {
		return nil, refused(h, "empty", err)
	}
	rename, err := m.kernel.loadProgram(spec, "empty_rename", nil, types)
	if err != nil {
		return nil, errors.Join(refused(h, "empty", err), m.empty.Close())
	}
	defer rename.Close()
	tracepoint := hook{trigger: renameThread}
	l, dispatch, err := tracepoint.timed(h, variant{attach: raw("task_rename")}, rename)
	if err != nil {
		return nil, errors.Join(refused(h, "empty", err), m.empty.Close())
	}
	defer l.Close()
	m.kernel.Lock().dispatch = dispatch
	m.kernel.Unlock()
	defer m.gauge.Unlock()
	m.gauge.Lock().begin(m)
	return m, nil
}

// Costs adds up what the programs have cost so far, and opens a window when one is due.
// The error says why costs are unknown.
func (m *Meter) Costs() (Costs, error) {
	g := m.gauge.Lock()
	defer m.gauge.Unlock()
	if g.stats == nil && (m.host.Now().Sub(g.last) >= every || m.unpriced(g)) {
		g.begin(m)
	}
	r := m.kernel.Lock()
	defer m.kernel.Unlock()
	var c Costs
	for o := range r.open {
		c.Maps += o.memory
		events := r.events(o)
		n := float64(events - g.seen[o])
		g.seen[o] = events
		body, dispatch := r.perEvent(o)
		g.body += n * body
		g.dispatch += n * dispatch
	}
	for o := range g.seen {
		if !r.open[o] {
			delete(g.seen, o)
			delete(g.timed, o)
			delete(g.metered, o)
		}
	}
	c.Body, c.Dispatch, c.Known = g.body, g.dispatch, g.known
	return c, g.err
}

// busy reports whether so many events were counted since the last window that their price matters.
func (g *gauge) busy(r *registry, o *Counters) bool {
	return r.events(o)-min(r.events(o), g.metered[o]) > 10*enough
}

// unpriced reports whether a program's price is still that of the loop although a load has begun.
func (m *Meter) unpriced(g *gauge) bool {
	r := m.kernel.Lock()
	defer m.kernel.Unlock()
	for o := range r.open {
		if p := r.of(o).price; p.body == 0 && p.loopBody() > 0 && g.busy(r, o) {
			return true
		}
	}
	return false
}

// begin opens a window.
func (g *gauge) begin(m *Meter) {
	g.last = m.host.Now()
	if g.stats, g.err = ebpf.EnableStats(unix.BPF_STATS_RUN_TIME); g.err != nil {
		g.stats = nil
		if g.known { // the capability was dropped on purpose: the initial figures stay
			g.err = nil
			return
		}
		g.err = &probe.Problem{Err: fmt.Errorf("enable BPF run-time statistics, to know what the programs cost: %w", g.err),
			Remedy: "start it as root, or with CAP_SYS_ADMIN, which is dropped afterwards"}
		return
	}
	// Now, because the capability to run it may be gone when the window ends.
	if g.clock, g.err = m.clockReads(); g.err != nil {
		g.err = errors.Join(g.err, g.stats.Close())
		g.stats = nil
		return
	}
	g.before = m.kernel.Lock().runs()
	m.kernel.Unlock()
	g.part, g.timer = 1, time.AfterFunc(window, m.end)
}

// end closes the window and computes the costs from it.
func (m *Meter) end() {
	g := m.gauge.Lock()
	defer m.gauge.Unlock()
	if g.stats == nil {
		return
	}
	r := m.kernel.Lock()
	defer m.kernel.Unlock()
	after := r.runs()
	seen := map[*Counters]timing{}
	for o := range r.open {
		var t timing
		for _, p := range o.programs() {
			was, is := g.before[p], after[p]
			if is.RunCount > was.RunCount { // else it did not run, or cannot be read now
				t.runs += float64(is.RunCount - was.RunCount)
				t.seconds += (is.Runtime - was.Runtime).Seconds()
			}
		}
		t.seconds -= t.runs * g.clock
		seen[o] = t
		if t.runs < enough && g.busy(r, o) && g.part < parts {
			g.part++
			g.timer = time.AfterFunc(window, m.end)
			return
		}
	}
	g.err = g.stats.Close()
	g.stats = nil
	for o, t := range seen {
		g.metered[o] = r.events(o)
		// No program is free: a time not above the clock reads was not measured, and
		// the price stays.
		t = g.timed[o].add(t)
		g.timed[o] = t
		g.known = g.known || t.seconds > 0
		if r.of(o).believes(t) {
			r.reprice(o, t.seconds/t.runs)
		}
	}
	g.before = nil
}

// clockReads is what the statistics report for an empty program, in seconds: the
// minimum of several batches, as in perCall.
func (m *Meter) clockReads() (float64, error) {
	const batches, calls = 20, 50
	least := 0.0
	packet := make([]byte, 64)
	was, err := m.empty.Stats()
	if err != nil {
		return 0, fmt.Errorf("read statistics of the empty program: %w", err)
	}
	for range batches {
		if _, _, err := m.empty.Benchmark(packet, calls, nil); err != nil {
			return 0, fmt.Errorf("run the empty program: %w", err)
		}
		is, err := m.empty.Stats()
		if err != nil {
			return 0, fmt.Errorf("read statistics of the empty program: %w", err)
		}
		n := is.RunCount - was.RunCount
		if n == 0 {
			return 0, errors.New("read statistics of the empty program: it has no runs")
		}
		if t := (is.Runtime - was.Runtime).Seconds() / float64(n); least == 0 || t < least {
			least = t
		}
		was = is
	}
	return least, nil
}

// runs returns the statistics of all open programs. An unreadable one is left out, and
// then has no runs in the window.
func (r *registry) runs() map[*ebpf.Program]ebpf.ProgramStats {
	out := map[*ebpf.Program]ebpf.ProgramStats{}
	for o := range r.open {
		for _, p := range o.programs() {
			if s, err := p.Stats(); err == nil {
				out[p] = *s
			}
		}
	}
	return out
}

// Close ends the window, if one is open.
func (m *Meter) Close() error {
	g := m.gauge.Lock()
	defer m.gauge.Unlock()
	var err error
	if g.stats != nil {
		g.timer.Stop()
		err = g.stats.Close()
		g.stats = nil
	}
	return errors.Join(err, m.empty.Close())
}

// perCall is the CPU time of one call of f in seconds: the minimum of several batches,
// because disturbances only add. A batch is long compared with a clock reading of half
// a microsecond, and no longer than necessary.
func perCall(f func()) float64 {
	const batches, few, many, long = 12, 20, 400, 200e-6
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	batch := func(calls int) float64 {
		began := threadCPU()
		for range calls {
			f()
		}
		return (threadCPU() - began).Seconds() / float64(calls)
	}
	least := batch(few)
	calls := many
	if least > long/many {
		calls = max(few, int(long/least))
	}
	for range batches {
		if t := batch(calls); t > 0 {
			least = min(least, t)
		}
	}
	return least
}

func threadCPU() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

// renameThread gives the calling thread its current name, which triggers the tracepoint
// task:task_rename.
func renameThread() {
	var name [commLen]byte
	p := unsafe.Pointer(&name[0])
	if unix.Prctl(unix.PR_GET_NAME, uintptr(p), 0, 0, 0) == nil {
		_ = unix.Prctl(unix.PR_SET_NAME, uintptr(p), 0, 0, 0)
	}
	runtime.KeepAlive(&name)
}
