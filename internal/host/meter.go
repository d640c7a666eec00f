package host

import (
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Meter adds up the CPU time of parts of this process. It counts the time of the threads
// that run them: garbage collection on other threads is not included. A nil Meter only
// runs them.
type Meter struct{ ns atomic.Int64 }

// Run calls f, on one thread, and adds the CPU time that it used.
func (m *Meter) Run(f func()) {
	if m == nil {
		f()
		return
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := threadCPU()
	defer func() { m.ns.Add(int64(threadCPU() - before)) }()
	f()
}

// CPU is the time added up until now.
func (m *Meter) CPU() time.Duration {
	if m == nil {
		return 0
	}
	return time.Duration(m.ns.Load())
}

// threadCPU is the CPU time of the calling thread (clock_gettime(2)).
func threadCPU() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		return 0 // every kernel since 2.6.12 has this clock
	}
	return time.Duration(t.Nano())
}
