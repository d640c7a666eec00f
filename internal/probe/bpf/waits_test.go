package bpf

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/await"
	"github.com/teescope/teescope/internal/locked"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/probe/probetest"
)

// Operations of futex(2), include/uapi/linux/futex.h.
const (
	futexWait       = 0
	futexWake       = 1
	futexLockPI     = 6
	futexUnlockPI   = 7
	futexWaitBitset = 9
	futexPrivate    = 128
)

func futex(word uintptr, op, value int, timeout *unix.Timespec) {
	_, _, _ = unix.Syscall6(unix.SYS_FUTEX, word, uintptr(op), uintptr(value), uintptr(unsafe.Pointer(timeout)), 0, ^uintptr(0))
}

func openTestWaits(t testing.TB) *Waits {
	t.Helper()
	needKernel(t)
	w, err := OpenWaits(local, Names{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return w
}

// walkOnce counts the waits of the threads of one name.
func walkOnce(t *testing.T, w *Waits, name string) map[[2]string]uint64 {
	t.Helper()
	one := map[wait]uint64{}
	if _, err := w.walk(one, make([]byte, 1<<16)); err != nil {
		t.Fatal(err)
	}
	out := map[[2]string]uint64{}
	for k, n := range one {
		if label(k.process[:], 0) == name {
			call := ""
			if k.nr >= 0 {
				call = SyscallName(int(k.nr))
			}
			out[[2]string{waitStates[k.state], call}] += n
		}
	}
	return out
}

// TestWaitsInOwnNamespace: in a PID namespace of its own the walk would see only that, so it is refused, with the remedy.
func TestWaitsInOwnNamespace(t *testing.T) {
	h := *local
	h.Root = t.TempDir()
	if err := os.MkdirAll(h.Root+"/proc/self/ns", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("pid:[4026532200]", h.Root+"/proc/self/ns/pid"); err != nil {
		t.Fatal(err)
	}
	w, err := OpenWaits(&h, Names{})
	if err == nil {
		_ = w.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "its own PID namespace") || !strings.Contains(probe.Remedy(err), "--pid=host") {
		t.Errorf("%v (%s)", err, probe.Remedy(err))
	}
}

// Which waits in futex(2) are for locks.
func TestWaitsForLocks(t *testing.T) {
	w := openTestWaits(t)
	self := ownName(t)
	hour := &unix.Timespec{Sec: 3600}
	for name, c := range map[string]struct {
		op, value int
		timeout   *unix.Timespec
		own       bool // the word is in the frame of the waiting thread
		want      string
	}{
		"glibc's mutex":                  {futexWait | futexPrivate, 2, nil, false, "lock"},
		"mutex between processes":        {futexWait, 2, nil, false, "lock"},
		"Rust's mutex":                   {futexWaitBitset | futexPrivate, 2, nil, false, "lock"},
		"musl's mutex":                   {futexWait | futexPrivate, 0x80000010, nil, false, "lock"},
		"a mutex of Go's runtime":        {futexWait | futexPrivate, 0xffffffff, nil, false, "lock"},
		"a mutex with a time limit":      {futexWait | futexPrivate, 2, hour, false, "sleep"},
		"a semaphore":                    {futexWait | futexPrivate, 0, nil, false, "sleep"},
		"musl's semaphore":               {futexWait | futexPrivate, 0x80000000, nil, false, "sleep"},
		"musl's condition variable":      {futexWait | futexPrivate, 2, nil, true, "sleep"},
		"a mutex that inherits priority": {futexLockPI | futexPrivate, 0, nil, false, "lock"},
	} {
		t.Run(name, func(t *testing.T) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			word := new(uint32)
			*word = uint32(c.value)
			if c.op&^futexPrivate == futexLockPI {
				*word = uint32(unix.Gettid()) // this thread holds the lock
			}
			at, tid, ended := make(chan uintptr, 1), make(chan int, 1), make(chan struct{})
			go func() {
				defer close(ended)
				runtime.LockOSThread() // for good: the thread may hold the lock in the end, and releases it by ending
				tid <- unix.Gettid()
				if c.own {
					waitInFrame(c.op, uint32(c.value), at)
					return
				}
				at <- uintptr(unsafe.Pointer(word))
				futex(uintptr(unsafe.Pointer(word)), c.op, c.value, c.timeout)
			}()
			asleepThread(t, <-tid)
			// The thread waits in every walk. In some, others of this process wait for a mutex of Go's runtime.
			await.Event(t, "no other thread waits for a lock", func() error {
				switch got := walkOnce(t, w, self); {
				case c.want == "lock" && got[[2]string{"lock", "futex"}] == 0:
					t.Errorf("%v, want one in lock", got)
				case c.want != "lock" && got[[2]string{"lock", "futex"}] > 0:
					return fmt.Errorf("%v, want one in %s", got, c.want)
				}
				return nil
			})
			where := <-at
			for waiting := true; waiting; {
				if c.op&^futexPrivate == futexLockPI {
					futex(where, futexUnlockPI|futexPrivate, 0, nil)
				} else {
					futex(where, futexWake|c.op&futexPrivate, 1, nil)
				}
				select {
				case <-ended:
					waiting = false
				// clock: a pace, not a wait.
				case <-time.After(time.Millisecond):
				}
			}
			runtime.KeepAlive(word)
		})
	}
}

// waitInFrame waits for a word in its own frame.
//
//go:noinline
func waitInFrame(op int, value uint32, at chan<- uintptr) {
	word := value
	at <- uintptr(unsafe.Pointer(&word))
	futex(uintptr(unsafe.Pointer(&word)), op, int(value), nil)
}

// ownName returns the kernel's name of this process.
func ownName(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("/proc/self/comm")
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(string(b), "\n")
}

// asleepThread waits until a thread of this process is in futex(2).
func asleepThread(t *testing.T, tid int) {
	t.Helper()
	await.Event(t, fmt.Sprintf("thread %d is in futex", tid), func() error {
		b, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/syscall", tid))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(b), fmt.Sprintf("%d ", unix.SYS_FUTEX)) {
			return fmt.Errorf("it is in %q", b)
		}
		return nil
	})
}

// Which threads sleep, which wait for a CPU, and for how long.
func TestWaits(t *testing.T) {
	w := openTestWaits(t)
	name := probetest.Name("waits")
	sums := func() (cpu, sleep float64) {
		if _, err := w.Waited(func(k Wait, seconds float64) {
			if k.Process == name && k.State == "cpu" {
				cpu += seconds
			} else if k.Process == name {
				sleep += seconds
			}
		}); err != nil {
			t.Error(err)
		}
		return cpu, sleep
	}
	var cpu, sleep float64
	await.Event(t, "a walk finds a thread that waits for a CPU", func() error {
		p := start(t, "--comm", name, "--threads", "5", "--cpu", probetest.CPUs(t)[0], "getppid", "2000000")
		if asleepThen := walkOnce(t, w, name); asleepThen[[2]string{"sleep", "read"}] != 1 {
			t.Errorf("while the program waits for input: %v, want one thread asleep in read", asleepThen)
		}
		// Five threads on one CPU.
		p.work()
		p.end()
		if cpu, sleep = sums(); cpu == 0 {
			return fmt.Errorf("%+v, %g s asleep", w.Walked(), sleep)
		}
		return nil
	})
	walked := w.Walked()
	t.Logf("threads waited %.2f s for a CPU and %.2f s asleep; %d walks over %d threads, %.0f us each", cpu, sleep, walked.Walks, walked.Threads, walked.CPU/float64(walked.Walks)*1e6)
	// Each walk stands for the time since the one before, and finds five at most: it may have their CPU itself.
	if walked.Walks == 0 || walked.Seconds <= 0 || cpu > 5.0001*walked.Seconds {
		t.Errorf("%+v, %g s of waiting for a CPU", walked, cpu)
	}
}

// The walk has a CPU itself, and the thread that it displaces there would not wait without it.
func TestWalkDisplaces(t *testing.T) {
	w := openTestWaits(t)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var was, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &was); err != nil {
		t.Fatal(err)
	}
	cpu := 0
	for !was.IsSet(cpu) {
		cpu++
	}
	one.Set(cpu)
	name := probetest.Name("moved")
	p := start(t, "--comm", name, "--threads", "5", "--cpu", strconv.Itoa(cpu), "getppid", "1000000000")
	fmt.Fprintln(p.In) // it begins
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.SchedSetaffinity(0, &was); err != nil {
			t.Error(err)
		}
	}()
	// Five threads of the program want the CPU that this thread has. Where it displaced one of another program, all five wait.
	await.Event(t, "a walk on the CPU of five threads counts four as waiting", func() error {
		n := uint64(0)
		for k, threads := range walkOnce(t, w, name) {
			if k[0] == "cpu" {
				n += threads
			}
		}
		if n != 4 {
			return fmt.Errorf("it counted %d", n)
		}
		return nil
	})
}

// What is taken back was counted before, also in another piece of the walk.
func TestDisplacedRecord(t *testing.T) {
	record := func(process string, nr int32, state uint32) []byte {
		b := make([]byte, recordBytes)
		copy(b, process)
		binary.NativeEndian.PutUint32(b[commLen:], uint32(nr))
		binary.NativeEndian.PutUint32(b[commLen+4:], state)
		return b
	}
	walk := slices.Concat(record("redis", -1, 0), record("nginx", -1, 0), record("redis", -1, 0), record("redis", 1, 0))
	for name, c := range map[string]struct {
		taken []byte
		want  string
	}{
		"one of two":      {record("redis", -1, displaced), "nginx -1 0: 1, redis -1 0: 1, redis -1 4: 1, redis 1 0: 1"},
		"the only one":    {record("nginx", -1, displaced), "nginx -1 4: 1, redis -1 0: 2, redis 1 0: 1"},
		"no such":         {record("mongo", -1, displaced), "nginx -1 0: 1, redis -1 0: 2, redis 1 0: 1"},
		"unknown states":  {record("redis", -1, displaced+1), "nginx -1 0: 1, redis -1 0: 2, redis 1 0: 1"},
		"none, and a cut": {record("redis", -1, displaced)[:recordBytes-1], "nginx -1 0: 1, redis -1 0: 2, redis 1 0: 1"},
	} {
		t.Run(name, func(t *testing.T) {
			one := map[wait]uint64{}
			if n := countRecords(one, walk) + countRecords(one, c.taken); n != 4 {
				t.Errorf("%d threads, want 4", n)
			}
			var got []string
			for k, n := range one {
				got = append(got, fmt.Sprintf("%s %d %d: %d", label(k.process[:], 0), k.nr, k.state, n))
			}
			if slices.Sort(got); strings.Join(got, ", ") != c.want {
				t.Errorf("%q, want %s", got, c.want)
			}
		})
	}
}

// A walk counts for the time since the one before it.
func TestWalksAddUp(t *testing.T) {
	w := &Waits{host: local, sums: locked.New(waitSums{sums: map[Wait]*waited{}, objects: newObjects(), units: newUnits()})}
	key := func(process string, nr int32, state uint32) (k wait) {
		copy(k.process[:], process)
		k.nr, k.state = nr, state
		return k
	}
	redis, idle := key("redis", -1, 0), key("redis", unix.SYS_READ, 3)
	w.add(map[wait]uint64{redis: 3, idle: 1}, 9, 50*time.Millisecond)
	w.add(map[wait]uint64{redis: 1}, 8, 200*time.Millisecond)
	got := map[Wait]float64{}
	folded, err := w.Waited(func(k Wait, seconds float64) { got[k] = seconds })
	for k, want := range map[Wait]float64{{"redis", "cpu", ""}: 0.35, {"redis", "sleep", "read"}: 0.05} {
		if math.Abs(got[k]-want) > 1e-12 {
			t.Errorf("%+v: %g s, want %g", k, got[k], want)
		}
	}
	if walked := w.Walked(); len(got) != 2 || folded != 0 || err != nil || walked.Walks != 2 || walked.Threads != 17 || math.Abs(walked.Seconds-0.25) > 1e-12 {
		t.Errorf("%v, %g s folded, %+v, %v", got, folded, walked, err)
	}
}

// One slow walk does not delay the next.
func TestUsualCost(t *testing.T) {
	for _, c := range []struct {
		costs [3]time.Duration
		want  time.Duration
	}{{[3]time.Duration{0, 0, 900}, 0}, {[3]time.Duration{0, 900, 5}, 5}, {[3]time.Duration{4, 900, 5}, 5}, {[3]time.Duration{900, 5, 800}, 800}} {
		if got := usual(c.costs); got != c.want {
			t.Errorf("%v: %v, want %v", c.costs, got, c.want)
		}
	}
}

// TestPace: walks keep to a share of a core, and are rarer by as much as the budget asks for.
func TestPace(t *testing.T) {
	for _, c := range []struct {
		cost  time.Duration
		share float64
		times int64
		want  time.Duration
	}{
		{10 * time.Microsecond, calmShare, 0, walkEvery},
		{10 * time.Microsecond, calmShare, 1, walkEvery},
		{10 * time.Microsecond, calmShare, 4, 4 * walkEvery},
		{time.Millisecond, walkShare, 1, 500 * time.Millisecond},
		{time.Millisecond, walkShare, 2, time.Second},
		{4 * time.Millisecond, walkShare, 4, slowest},
		{20 * time.Millisecond, walkShare, 4, 10 * time.Second},
	} {
		if got := pace(c.cost, c.share, c.times); got != c.want {
			t.Errorf("walks of %v, share %g, %d times rarer: every %v, want %v", c.cost, c.share, c.times, got, c.want)
		}
	}
}

// BenchmarkWalk measures walks over all threads of this machine, one after another. With cold
// caches, as at the usual distance between walks, a walk costs several times as much.
func BenchmarkWalk(b *testing.B) {
	w := openTestWaits(b)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	one, buf := map[wait]uint64{}, make([]byte, 1<<16)
	var threads uint64
	began := threadCPU()
	for b.Loop() {
		n, err := w.walk(one, buf)
		if err != nil {
			b.Fatal(err)
		}
		threads += n
	}
	cpu := float64(threadCPU() - began)
	b.ReportMetric(cpu/float64(b.N), "cpu-ns/op")
	b.ReportMetric(cpu/float64(threads), "cpu-ns/thread")
	b.ReportMetric(float64(threads)/float64(b.N), "threads")
}
