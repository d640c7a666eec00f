package host

import (
	"runtime"
	"sync/atomic"
	"time"
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
