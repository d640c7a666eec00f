package host

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/await"
)

var (
	pageFaults = PerfEvent{unix.PERF_TYPE_SOFTWARE, unix.PERF_COUNT_SW_PAGE_FAULTS}
	taskClock  = PerfEvent{unix.PERF_TYPE_SOFTWARE, unix.PERF_COUNT_SW_TASK_CLOCK}
	cpuClock   = PerfEvent{unix.PERF_TYPE_SOFTWARE, unix.PERF_COUNT_SW_CPU_CLOCK}
)

func openedPerf(t *testing.T, target PerfTarget, events ...PerfEvent) PerfGroup {
	t.Helper()
	g, err := Local().Perf(target, events...)
	if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return g
}

func readPerf(t *testing.T, g PerfGroup) PerfReading {
	t.Helper()
	r, err := g.Read()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// touch makes a page fault for each of n fresh pages.
func touch(t *testing.T, n int) {
	t.Helper()
	page := unix.Getpagesize()
	b, err := unix.Mmap(-1, 0, n*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Madvise(b, unix.MADV_NOHUGEPAGE); err != nil && !errors.Is(err, unix.EINVAL) {
		t.Fatal(err)
	}
	for i := range n {
		b[i*page] = 1
	}
	if err := unix.Munmap(b); err != nil {
		t.Fatal(err)
	}
}

// A thread's faults and those of the threads that it makes are counted, those of
// its child processes are not.
func TestPerfThread(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	g := openedPerf(t, PerfTarget{Thread: unix.Gettid()}, pageFaults, taskClock)
	outer, before := ownFaults(t), readPerf(t, g)
	inner := ownFaults(t)
	touch(t, 1000)
	least := ownFaults(t) - inner
	after := readPerf(t, g)
	if n, most := after.Values[0]-before.Values[0], ownFaults(t)-outer; n < least || least < 1000 || n > most {
		t.Errorf("%d page faults, the kernel accounts %d to %d to the thread", n, least, most)
	}
	if after.Enabled <= before.Enabled || after.Running != after.Enabled || after.Values[1] <= before.Values[1] {
		t.Errorf("clocks %+v, then %+v", before, after)
	}
	child := threadsProgram(t)
	outer, before = ownFaults(t), readPerf(t, g)
	if err := child.Run(); err != nil {
		t.Fatal(err)
	}
	if n, most := readPerf(t, g).Values[0]-before.Values[0], ownFaults(t)-outer; n > most {
		t.Errorf("%d page faults while a child made thousands, the kernel accounts %d to the thread", n, most)
	}
}

// ownFaults is the kernel's own account of this thread's page faults (getrusage(2)).
func ownFaults(t *testing.T) uint64 {
	t.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
		t.Fatal(err)
	}
	return uint64(u.Minflt + u.Majflt)
}

// threadsProgram is this test program, as a process that runs threads.
func threadsProgram(t *testing.T) *exec.Cmd {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "-test.run=^TestPerfNewThreads$")
	cmd.Env = append(os.Environ(), "PERF_THREADS=1", "GOMAXPROCS=1")
	return cmd
}

func TestPerfNewThreads(t *testing.T) {
	if os.Getenv("PERF_THREADS") != "" {
		threads()
		return
	}
	cmd := threadsProgram(t)
	p := await.Converse(t, cmd)
	p.Line(t) // it is ready
	var groups []PerfGroup
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		thread, err := strconv.Atoi(task.Name())
		if err != nil {
			t.Fatal(err)
		}
		groups = append(groups, openedPerf(t, PerfTarget{Thread: thread}, pageFaults))
	}
	if err := p.In.Close(); err != nil {
		t.Fatal(err)
	}
	if code := p.ExitStatus(t); code != 0 {
		t.Fatal(p.Last())
	}
	var sum uint64
	for _, g := range groups {
		sum += readPerf(t, g).Values[0] // after the end of all threads
	}
	u := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if all := uint64(u.Minflt + u.Majflt); sum < 4*1000 || sum > all {
		t.Errorf("%d page faults of four threads that touched 1000 pages each, the whole process made %d", sum, all)
	}
}

// threads touches pages in four new threads when standard input is closed.
func threads() {
	_, _ = os.Stdout.WriteString(".\n")
	_, _ = os.Stdin.Read(make([]byte, 1))
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			runtime.LockOSThread()
			touch(new(testing.T), 1000)
		})
	}
	all.Wait()
}

// A CPU's clock goes on, whether the CPU works or not.
func TestPerfCPU(t *testing.T) {
	g := openedPerf(t, PerfTarget{CPU: 0}, cpuClock, pageFaults)
	before := readPerf(t, g)
	await.Event(t, "ten milliseconds pass on the CPU's clock", func() error {
		after := readPerf(t, g)
		if after.Running != after.Enabled {
			t.Errorf("enabled for %s and running for %s", after.Enabled, after.Running)
		}
		if d := time.Duration(after.Values[0] - before.Values[0]); d < 10*time.Millisecond || after.Enabled-before.Enabled < 10*time.Millisecond {
			return fmt.Errorf("%s, enabled for %s", d, after.Enabled-before.Enabled)
		}
		return nil
	})
}

func TestPerfErrors(t *testing.T) {
	for _, c := range []struct {
		target PerfTarget
		events []PerfEvent
		is     error
		says   string
	}{
		{PerfTarget{CPU: 1 << 20}, []PerfEvent{cpuClock}, unix.EINVAL, "CPU 1048576"},
		{PerfTarget{Thread: 1 << 30}, []PerfEvent{cpuClock}, unix.ESRCH, "thread 1073741824"},
		{PerfTarget{CPU: 0}, []PerfEvent{cpuClock, {unix.PERF_TYPE_SOFTWARE, 999}}, unix.ENOENT, "1:0x3e7"},
		{PerfTarget{}, nil, nil, "no events"},
	} {
		t.Run(c.says, func(t *testing.T) {
			g, err := Local().Perf(c.target, c.events...)
			if err == nil {
				g.Close()
				t.Errorf("%v %v: opened", c.target, c.events)
				return
			}
			if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) {
				t.Skip(err)
			}
			if c.is != nil && !errors.Is(err, c.is) && !errors.Is(err, unix.ENODEV) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v %v: %v", c.target, c.events, err)
			}
		})
	}
}
