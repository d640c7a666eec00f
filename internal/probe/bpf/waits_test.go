package bpf

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
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
	futexLockPI     = 6
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
	one := newCensus()
	if err := w.walk(one, make([]byte, 1<<16)); err != nil {
		t.Fatal(err)
	}
	out := map[[2]string]uint64{}
	for k, n := range one.waits {
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

// futexCase is a way to wait in futex(2), and the state that a walk reports for it.
type futexCase struct {
	op, value int
	timeout   *unix.Timespec
	own       bool // the word is in the frame of the waiting thread
	want      string
}

var futexCases = map[string]futexCase{
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
}

var hour = &unix.Timespec{Sec: 3600}

// inFutex is the environment variable that names a case of futexCases, and nameInFutex the name of the process that waits so.
const inFutex, nameInFutex = "TEESCOPE_TEST_FUTEX", "TEESCOPE_TEST_FUTEX_NAME"

// waitInFutex prints the thread that is about to wait, and waits until standard input ends.
func waitInFutex(c futexCase) {
	runtime.LockOSThread()
	word := new(uint32)
	*word = uint32(c.value)
	if c.op&^futexPrivate == futexLockPI {
		*word = uint32(unix.Gettid()) // this thread holds the lock
	}
	go func() {
		runtime.LockOSThread()
		fmt.Println(unix.Gettid())
		if c.own {
			waitInFrame(c.op, uint32(c.value))
		} else {
			futex(uintptr(unsafe.Pointer(word)), c.op, c.value, c.timeout)
		}
		fmt.Println("nothing to wait for")
	}()
	_, _ = io.Copy(io.Discard, os.Stdin)
	runtime.KeepAlive(word)
}

// Which waits in futex(2) are for locks.
func TestWaitsForLocks(t *testing.T) {
	w := openTestWaits(t)
	for name, c := range futexCases {
		t.Run(name, func(t *testing.T) {
			process := probetest.Name("futex")
			cmd := exec.Command("/proc/self/exe")
			cmd.Env = append(os.Environ(), inFutex+"="+name, nameInFutex+"="+process)
			p := await.Converse(t, cmd)
			asleepThread(t, p.Process.Pid, p.Line(t))
			// The thread waits in every walk. In some, others of its process wait for a mutex of Go's runtime.
			await.Event(t, "no other thread waits for a lock", func() error {
				switch got := walkOnce(t, w, process); {
				case c.want == "lock" && got[[2]string{"lock", "futex"}] == 0:
					t.Errorf("%v, want one in lock", got)
				case c.want != "lock" && (got[[2]string{"lock", "futex"}] > 0 || got[[2]string{c.want, "futex"}] == 0):
					return fmt.Errorf("%v, want one in %s", got, c.want)
				}
				return nil
			})
		})
	}
}

// TestWalkLeavesItselfOut: no thread of the process that walks is in a walk, whatever it does.
func TestWalkLeavesItselfOut(t *testing.T) {
	w := openTestWaits(t)
	for range runtime.NumCPU() { // these threads run; those of Go's runtime sleep
		go func() {
			runtime.LockOSThread()
			for t.Context().Err() == nil {
			}
		}()
	}
	for range 100 {
		if got := walkOnce(t, w, ownName(t)); len(got) > 0 {
			t.Fatalf("the walk found its own process: %v", got)
		}
	}
}

// waitInFrame waits for a word in its own frame.
//
//go:noinline
func waitInFrame(op int, value uint32) {
	word := value
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

// asleepThread waits until a thread of a process is in futex(2).
func asleepThread(t *testing.T, pid int, tid string) {
	t.Helper()
	await.Event(t, fmt.Sprintf("thread %s is in futex", tid), func() error {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/syscall", pid, tid))
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

// TestGiveBack: a CPU that a thread of this process has is given to the thread that would have it without the walk, also if
// that was in another piece of the walk.
func TestGiveBack(t *testing.T) {
	record := func(process string, state, cpu uint32, since uint64) []byte {
		b := make([]byte, recordBytes)
		copy(b, process)
		binary.NativeEndian.PutUint32(b[commLen:], math.MaxUint32) // no system call
		binary.NativeEndian.PutUint32(b[commLen+4:], state)
		binary.NativeEndian.PutUint64(b[commLen+8:], since)
		binary.NativeEndian.PutUint32(b[commLen+16:], cpu)
		return b
	}
	waiting := slices.Concat(record("redis", onRunQueue, 0, 50), record("nginx", onRunQueue, 0, 70), record("redis", onRunQueue, 1, 95), record("mongo", onRunQueue, 1, 99))
	for name, c := range map[string]struct {
		first, last []byte
		want        string
	}{
		"no walker":                        {nil, nil, "mongo 0: 1, nginx 0: 1, redis 0: 2"},
		"who was queued last before it":    {record("", walker, 0, 75), nil, "mongo 0: 1, nginx 4: 1, redis 0: 2"},
		"the same, later in the walk":      {nil, record("", walker, 0, 75), "mongo 0: 1, nginx 4: 1, redis 0: 2"},
		"one of two of a name":             {nil, record("", walker, 0, 60), "mongo 0: 1, nginx 0: 1, redis 0: 1, redis 4: 1"},
		"who was queued first after it":    {nil, record("", walker, 1, 90), "mongo 0: 1, nginx 0: 1, redis 0: 1, redis 4: 1"},
		"two CPUs":                         {record("", walker, 1, 100), record("", walker, 0, 70), "mongo 4: 1, nginx 4: 1, redis 0: 2"},
		"nobody waits for that CPU":        {nil, record("", walker, 2, 75), "mongo 0: 1, nginx 0: 1, redis 0: 2"},
		"a thread of the kernel":           {record("", kernelThread, 0, 74), record("", walker, 0, 75), "mongo 0: 1, nginx 0: 1, redis 0: 2"},
		"a thread of the kernel elsewhere": {record("", kernelThread, 1, 74), record("", walker, 0, 75), "mongo 0: 1, nginx 4: 1, redis 0: 2"},
		"a state that is unknown":          {record("redis", kernelThread+1, 0, 70), nil, "mongo 0: 1, nginx 0: 1, redis 0: 2"},
		"a cut record":                     {nil, record("", walker, 0, 75)[:recordBytes-1], "mongo 0: 1, nginx 0: 1, redis 0: 2"},
	} {
		t.Run(name, func(t *testing.T) {
			one := newCensus()
			for range 2 { // a census can be used again
				one.clear()
				one.read(c.first)
				one.read(waiting)
				one.read(c.last)
				one.giveBack()
			}
			var got []string
			for k, n := range one.waits {
				got = append(got, fmt.Sprintf("%s %d: %d", label(k.process[:], 0), k.state, n))
			}
			if slices.Sort(got); one.threads != 4 || strings.Join(got, ", ") != c.want {
				t.Errorf("%d threads, %q, want %s", one.threads, got, c.want)
			}
		})
	}
}

// A walk counts for the time since the one before it.
func TestWalksAddUp(t *testing.T) {
	w := &Waits{host: local, sums: locked.New(waitSums{sums: map[Wait]*waited{}, objects: newObjects(), units: newUnits(nil)})}
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
	one, buf := newCensus(), make([]byte, 1<<16)
	var threads uint64
	began := threadCPU()
	for b.Loop() {
		if err := w.walk(one, buf); err != nil {
			b.Fatal(err)
		}
		threads += one.threads
	}
	cpu := float64(threadCPU() - began)
	b.ReportMetric(cpu/float64(b.N), "cpu-ns/op")
	b.ReportMetric(cpu/float64(threads), "cpu-ns/thread")
	b.ReportMetric(float64(threads)/float64(b.N), "threads")
}
