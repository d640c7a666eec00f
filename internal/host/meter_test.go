package host

import (
	"runtime"
	"sync"
	"testing"
	"time"
)

// TestMeter: what runs is counted, on every thread, and nothing else.
func TestMeter(t *testing.T) {
	var m Meter
	var all sync.WaitGroup
	var mu sync.Mutex
	var inside, around time.Duration // of the threads, by the kernel
	for range 3 {
		all.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			spin(30 * time.Millisecond) // not counted
			began, in := threadCPU(), time.Duration(0)
			m.Run(func() { in = spin(30 * time.Millisecond) })
			took := threadCPU() - began
			mu.Lock()
			defer mu.Unlock()
			inside, around = inside+in, around+took
		})
	}
	all.Wait()
	if got := m.CPU(); got < inside || got > around {
		t.Errorf("%v, want between %v and %v", got, inside, around)
	}
	ran := false
	(*Meter)(nil).Run(func() { ran = true })
	if !ran || (*Meter)(nil).CPU() != 0 {
		t.Error("a nil meter did not run it")
	}
}

// spin uses CPU time, at least as much as it is told, and returns how much.
func spin(least time.Duration) time.Duration {
	began := threadCPU()
	for threadCPU()-began < least {
	}
	return threadCPU() - began
}
