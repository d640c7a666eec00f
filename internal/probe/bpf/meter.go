package bpf

// What counting costs: runs of each program times the cost of a run. The body is timed by the programs themselves
// (runs.h); dispatch, the kernel's work to call a program, is measured once from outside. The budget and
// teescope_source_cpu_seconds_total use the sums.

//go:generate ./compile.sh empty empty.bpf.c

import (
	"fmt"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/locked"
)

// Meter adds up the cost of the open programs: their runs since they were attached, times
// the price of a run.
//
// The price of the body of a program is the mean of the runs that it timed itself, one of
// many (runs.h). They do not see dispatch, the way into the
// program, which is measured from outside once: for system calls when the program is
// attached, by the time of a call before and after; for other tracepoints with an empty
// program.
type Meter struct {
	kernel *kernel
	sums   locked.Value[sums]
}

// sums are the costs so far, of so many runs of each program.
type sums struct {
	Costs
	seen map[*Counters]uint64
}

// Costs are totals in seconds since the programs were attached.
type Costs struct {
	Body, Dispatch float64
	// Known is false until a program's price has been measured.
	Known bool
	// Maps is the memory of all maps in bytes, as the kernel accounts it.
	Maps uint64
}

// NewMeter measures the way into a program on a tracepoint.
func NewMeter(h *host.Host) (*Meter, error) {
	spec, err := loadEmpty()
	if err != nil {
		return nil, fmt.Errorf("read object empty: %w", err)
	}
	opened, err := host.Descriptors(descriptorCount(spec, 2, 1))
	if err != nil {
		return nil, refused(h, "empty", err)
	}
	defer opened()
	m := &Meter{kernelOf(h), locked.New(sums{seen: map[*Counters]uint64{}})}
	rename, err := m.kernel.loadProgram(spec, "empty_rename", nil, m.kernel.typeCache())
	if err != nil {
		return nil, refused(h, "empty", err)
	}
	defer rename.Close()
	tracepoint := hook{trigger: renameThread}
	l, dispatch, err := tracepoint.timed(h, variant{attach: raw("task_rename")}, rename)
	if err != nil {
		return nil, refused(h, "empty", err)
	}
	defer l.Close()
	m.kernel.Lock().dispatch = dispatch
	m.kernel.Unlock()
	return m, nil
}

// Costs adds up what the programs have cost so far.
func (m *Meter) Costs() Costs {
	s := m.sums.Lock()
	defer m.sums.Unlock()
	r := m.kernel.Lock()
	defer m.kernel.Unlock()
	s.Maps = 0
	for o := range r.open {
		s.Maps += o.memory
		r.learn(o)
		events := r.events(o)
		n := float64(events - min(events, s.seen[o])) // a User's map may lose keys
		s.seen[o] = events
		body, dispatch := r.perEvent(o)
		s.Body += n * body
		s.Dispatch += n * dispatch
		s.Known = s.Known || r.ledgerOf(o).calibrated > 0 || r.ledgerOf(o).mean.runs > 0
	}
	for o := range s.seen {
		if !r.open[o] {
			delete(s.seen, o)
		}
	}
	return s.Costs
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
