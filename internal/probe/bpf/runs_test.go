package bpf

import (
	"runtime"
	"slices"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// TestLimit: a program says that it has spent what it may on a CPU, not before it has, and at the next event when it already
// had. It says so once. A limit that is not reached says nothing, nor does one that was taken back.
func TestLimit(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c := openProgram(t, Syscalls, Limits{})
	var calls atomic.Int64
	reached := func() { calls.Add(1) }
	// until makes system calls until it has been said so often, and returns the most that was spent on a CPU.
	until := func(n int64) float64 {
		for calls.Load() < n {
			for range 100 {
				_, _, _ = unix.RawSyscall(unix.SYS_GETPPID, 0, 0, 0)
			}
			runtime.Gosched()
		}
		_, seconds := c.Spent()
		return slices.Max(seconds)
	}
	limit := func(more float64) float64 {
		_, seconds := c.Spent()
		most := slices.Max(seconds) + more
		all := slices.Repeat([]float64{most}, len(seconds))
		if !c.Limit(all, reached) {
			t.Fatal("it cannot say what it has spent")
		}
		return most
	}
	limit(1e9)
	if calls.Load() > 0 {
		t.Error("it said so at once")
	}
	if most := limit(1e-3); until(1) < most { // some ten thousand calls
		t.Error("it said so too early")
	}
	if most := limit(-1); until(2) < most { // at the next call
		t.Error("it did not say so of a limit that was exceeded already")
	}
	if !c.Limit(nil, reached) {
		t.Fatal("a limit cannot be taken back")
	}
	before, cpus := c.Spent()
	said := calls.Load()
	for events := before; events < before+1e5; events, _ = c.Spent() {
		_, _, _ = unix.RawSyscall(unix.SYS_GETPPID, 0, 0, 0)
	}
	if n := int(calls.Load() - said); n > len(cpus) { // what each CPU said before may be on its way
		t.Errorf("it said so %d times without a limit", n)
	}
}

// TestTimedRuns: a program times one of its runs in 1 to 512, and few of many; all of them in the loop that tells what they take in it.
func TestTimedRuns(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c := openProgram(t, Syscalls, Limits{})
	call := c.program.hooks[0].trigger
	begin, were := c.runs().timedRuns(), c.Events()
	for range 200_000 {
		call()
	}
	got, n := c.runs().timedRuns().less(begin), float64(c.Events()-were)
	if got.runs < n/(gap+1)-float64(runtime.NumCPU()) || got.runs > n/32 {
		t.Errorf("%g of %g runs were timed", got.runs, n)
	}
	begin = c.runs().timedRuns()
	each := c.loopTime(call)
	got = c.runs().timedRuns().less(begin)
	t.Logf("a run takes %.1f ns in the loop", each*1e9)
	if each <= 0 || got.runs < 500 { // a clock that an interrupt held up is not counted
		t.Errorf("%g of 1000 runs were timed in the loop, %g s each", got.runs, each)
	}
	if l := &c.guarded; l.calibrated > 0 && (l.loop <= 0 || l.loop > l.calibrated) {
		t.Errorf("what was measured at the start lacks it: %+v", l.price)
	}
}
