package bpf

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe/probetest"
)

// durations returns the histograms by system call.
func durations(c *Counters) map[string]*Latency {
	out := map[string]*Latency{}
	SyscallCounts{c}.Times(func(syscall string, l *Latency) { out[syscall] = l })
	return out
}

func setLevel(t *testing.T, c *Counters, level int) {
	t.Helper()
	if err := c.SetLevel(level); err != nil {
		t.Fatal(err)
	}
	if err := c.Incomplete(); err != nil {
		t.Fatal(err)
	}
}

// Every variant of the two hooks times a known number of calls of known length,
// and nothing at level 0.
func TestSyscallTimes(t *testing.T) {
	for i := range Syscalls.hooks[0].variants {
		t.Run(Syscalls.hooks[0].variants[i].program, func(t *testing.T) {
			one := *Syscalls
			one.hooks = []hook{one.hooks[0], one.hooks[1]}
			for k := range one.hooks {
				one.hooks[k].variants = one.hooks[k].variants[i : i+1]
			}
			c := openProgram(t, &one, Limits{})
			const n, us = 300, 500
			name := probetest.Name("sleeps")
			sleeps := func() {
				// Its name is known by the time that it is ready.
				events(t, func() { Table{c}.Time(&metric.NamePattern{Regexp: regexp.MustCompile("^" + name + "$")}) }, func() {}, "--comm", name, "sleeps", fmt.Sprint(us), fmt.Sprint(n))
			}
			sleeps()
			if d := durations(c); len(d) > 0 {
				t.Fatalf("times at level 0: %v", d)
			}
			setLevel(t, c, 1)
			began := time.Now()
			sleeps()
			// clock: no wait is longer than the whole, however long that is.
			took := time.Since(began).Seconds()
			l := durations(c)["nanosleep"]
			if l == nil || l.Count() != n {
				t.Fatalf("times of nanosleep: %v, want %d", l, n)
			}
			if l.Sum() < n*us/1e6 || l.Sum() > took || l.Quantile(0.5) < us/1e6*0.875 {
				t.Errorf("%d sleeps of %d us in %v s took %v s, half of them more than %v s", n, us, took, l.Sum(), l.Quantile(0.5))
			}
			was := syscallCounts(c)[name+" nanosleep"]
			setLevel(t, c, 0)
			sleeps()
			if again := durations(c)["nanosleep"]; again.Count() != n {
				t.Errorf("%d times after level 0 was set, want %d", again.Count(), n)
			}
			exactly(t, c, "calls at level 0", syscallCounts(c)[name+" nanosleep"]-was, n)
		})
	}
}

// There are at most 64 histograms, and they contain all times.
func TestSyscallTimesAreBounded(t *testing.T) {
	c := openProgram(t, Syscalls, Limits{})
	setLevel(t, c, 1)
	// System calls with invalid numbers fail at once, and each number is separate.
	w := start(t, "--comm", probetest.Name("number"), "sleeps", "1", "1")
	for nr := 400; nr < 509; nr++ {
		_, _, _ = unix.RawSyscall(uintptr(nr), 1<<40, 0, 0)
	}
	w.work()
	w.end()
	d := durations(c)
	if len(d) > timed || d[Other] == nil {
		t.Errorf("%d histograms, of other calls %v", len(d), d[Other])
	}
}

func TestRunQueue(t *testing.T) {
	c := openProgram(t, RunQueue, Limits{})
	const n = 5000
	name := probetest.Name("queue")
	play := func() did {
		return events(t, func() { Table{c}.Time(&metric.NamePattern{Regexp: regexp.MustCompile("^" + name + "$")}) }, func() {}, "--comm", name, "switches", fmt.Sprint(n))
	}
	play() // from here on its name is known, and no other's
	blind := probetest.OnInit(t, "sched/sched_switch", "sched/sched_wakeup", "sched/sched_wakeup_new")
	began, was := time.Now(), QueueTimes{c}.Waits()
	d := play()
	// clock: no wait is longer than the whole, however long that is.
	l, took := QueueTimes{c}.Waits(), time.Since(began).Seconds()
	// Two threads on one CPU wake each other in turns: each waits after every switch away from it, and at its start.
	least, most := d.Voluntary+d.Involuntary, d.allVoluntary+d.allInvoluntary+2
	if got, lost := l.Count()-was.Count(), blind(); got+lost < least || got > most {
		t.Errorf("%d waits, want one for each of %d to %d switches", got, least, most)
	}
	if waited := l.Sum() - was.Sum(); waited <= 0 || waited > 2*took {
		t.Errorf("two threads waited %v s in %v s", waited, took)
	}
	if err := c.Detach(); err != nil {
		t.Fatal(err)
	}
	before := QueueTimes{c}.Waits().Count() // the program's end may have waited since l
	play()
	if again := (QueueTimes{c}).Waits().Count(); again != before {
		t.Errorf("%d waits after it was detached, %d before", again, before)
	}
}

// If the kernel refuses a hook of a higher level, the level below is unaffected.
func TestRefusedLevel(t *testing.T) {
	broken := *Syscalls
	broken.hooks = []hook{broken.hooks[0], broken.hooks[1]}
	broken.hooks[1].variants = []variant{{"no_such_program", typed}}
	c := openProgram(t, &broken, Limits{})
	if err := c.Incomplete(); err != nil {
		t.Errorf("level 0 lacks %v", err)
	}
	if err := c.SetLevel(1); err != nil {
		t.Fatal(err)
	}
	if err := c.Incomplete(); err == nil || !strings.Contains(err.Error(), "sys_exit") {
		t.Errorf("level 1 lacks %v", err)
	}
	if err := c.SetLevel(2); err == nil {
		t.Error("there is a level 2")
	}
	name := probetest.Name("refuse")
	was := syscallCounts(c)[name+" getppid"]
	events(t, func() {}, func() {}, "--comm", name, "getppid", "1000")
	exactly(t, c, "calls", syscallCounts(c)[name+" getppid"]-was, 1000)
}

// Counts stay when programs are detached and attached again. Events in between are not counted,
// but CPU time is, because the kernel keeps that account.
func TestGapIsNotCounted(t *testing.T) {
	sys, sw := openProgram(t, Syscalls, Limits{}), openProgram(t, Switches, Limits{})
	both := func(do func(*Counters) error) {
		t.Helper()
		for _, c := range []*Counters{sys, sw} {
			if err := do(c); err != nil {
				t.Fatal(err)
			}
		}
	}
	name, burning := probetest.Name("gap"), probetest.Name("burn")
	cpu := func(name string) float64 { return float64(switchesOf(t, sw)[name].NS) / 1e9 }
	calls := func() uint64 { return syscallCounts(sys)[name+" getppid"] }
	events(t, func() {}, func() {}, "--comm", name, "getppid", "1000")
	both((*Counters).Detach)
	events(t, func() {}, func() {}, "--comm", name, "getppid", "5000")
	exactly(t, sys, "calls before the gap", calls(), 1000)
	// It burns through the gap.
	before := cpu(burning)
	w := start(t, "--comm", burning, "cpu", "300")
	w.work()
	both((*Counters).Attach)
	d := w.end()
	if got := cpu(burning) - before; got < d.CPUSeconds || got > d.total {
		t.Errorf("counted %v s of CPU time, want between %v and %v", got, d.CPUSeconds, d.total)
	}
	events(t, func() {}, func() {}, "--comm", name, "getppid", "1000")
	exactly(t, sys, "calls before and after the gap", calls(), 2000)
}

// Programs come and go, at both levels, and leave nothing behind. BenchmarkAttach does it a
// thousand times.
func TestCyclesLeaveNothing(t *testing.T) {
	c := openProgram(t, Syscalls, Limits{})
	was := openFiles(t)
	const cycles = 100
	for i := range cycles {
		if i == cycles/2 {
			setLevel(t, c, 1)
		}
		if err := c.Detach(); err != nil {
			t.Fatal(err)
		}
		if err := c.Attach(); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Detach(); err != nil {
		t.Fatal(err)
	}
	setLevel(t, c, 0)
	if n := attachedHooks(c); n != 0 {
		t.Errorf("%d hooks are attached by a change of level", n)
	}
	if err := c.Attach(); err != nil {
		t.Fatal(err)
	}
	if is := openFiles(t); is > was { // one of an earlier test may be closed only now
		t.Errorf("%d open files, %d before", is, was)
	}
}

func openFiles(t testing.TB) int {
	t.Helper()
	e, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(e)
}

// What counting costs is charged at the level and at the price at which it was done.
func TestSpentByLevel(t *testing.T) {
	c := openProgram(t, Syscalls, Limits{})
	total := func() (events, seconds float64) {
		events, per := c.Spent()
		for _, s := range per {
			seconds += s
		}
		return events, seconds
	}
	perEvent := func() float64 {
		n0, s0 := total()
		events(t, func() {}, func() {}, "--comm", probetest.Name("spent"), "getppid", "200000")
		n, s := total()
		return (s - s0) / (n - n0)
	}
	cheap := perEvent()
	if err := c.Detach(); err != nil {
		t.Fatal(err)
	}
	_, before := total()
	setLevel(t, c, 1)
	if _, after := total(); after != before {
		t.Errorf("a change of level changed what was spent from %v to %v s", before, after)
	}
	if err := c.Attach(); err != nil {
		t.Fatal(err)
	}
	dear := perEvent()
	if err := c.Detach(); err != nil {
		t.Fatal(err)
	}
	_, before = total()
	c.kernel.Lock().reprice(c, price{calibrated: 1e-3})
	c.kernel.Unlock()
	if _, after := total(); after != before {
		t.Errorf("another price changed what was spent from %v to %v s", before, after)
	}
	t.Logf("%.0f ns for a run at level 0, %.0f ns for one at level 1", cheap*1e9, dear*1e9)
	if cheap <= 0 || dear <= 0 {
		t.Error("counting costs nothing")
	}
}

// The governor attaches, detaches and changes levels while a round reads.
func TestChangesWhileReading(t *testing.T) {
	for _, p := range []*Program{Syscalls, Switches} {
		t.Run(p.Name, func(t *testing.T) { testChangesWhileReading(t, p) })
	}
}

func testChangesWhileReading(t *testing.T, p *Program) {
	c := openProgram(t, p, Limits{})
	stop, done := make(chan bool), make(chan error, 1)
	const least = 50
	var cycles atomic.Int64
	go func() {
		for i := 0; ; i++ {
			cycles.Store(int64(i))
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			if err := errors.Join(c.SetLevel(i%max(1, p.levels)), c.Detach(), c.Attach()); err != nil {
				done <- err
				return
			}
			c.Spent()
		}
	}()
	pid := os.Getpid()
	m := Member{Start: started(t, pid), Own: true, Name: "own"}
	for n := 0; n < least || cycles.Load() < least && len(done) == 0; n++ {
		if err := errors.Join((Table{c}).Narrow([]int{pid}, only(pid, m)), (Table{c}).Recycle(), c.Incomplete()); err != nil {
			t.Error(err)
		}
		switch p {
		case Syscalls:
			SyscallCounts{c}.ByProcess(func(string, string, uint64) {})
			SyscallCounts{c}.Own(func(int, string, string, uint64) {})
			SyscallCounts{c}.Times(func(string, *Latency) {})
		case Switches:
			switchesOf(t, c)
			SwitchCounts{c}.Own(func(int, string, Switched) {})
		}
		if _, err := c.Missed(); err != nil {
			t.Error(err)
		}
		if err := (Table{c}).Widen(); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	if err := <-done; err != nil {
		t.Error(err)
	}
}
