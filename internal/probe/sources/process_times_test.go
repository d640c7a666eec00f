package sources

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
)

// timedMachine is a machine of files whose processes a test writes, and the reader of their times.
type timedMachine struct {
	t    *testing.T
	root string
	r    probe.Reader
}

func newTimedMachine(t *testing.T) *timedMachine {
	t.Helper()
	m := &timedMachine{t: t, root: t.TempDir()}
	m.write("proc/uptime", "100.00 1.00\n")
	h := host.Local()
	h.Root = m.root
	var err error
	if m.r, err = processTimes.Open(h, nil); err != nil {
		t.Fatal(err)
	}
	return m
}

func (m *timedMachine) write(name, text string) {
	m.t.Helper()
	path := filepath.Join(m.root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		m.t.Fatal(err)
	}
}

// stat writes the CPU time of a process and its start.
func (m *timedMachine) stat(pid int, name string, ticks, started int) {
	m.t.Helper()
	m.write(fmt.Sprintf("proc/%d/stat", pid), fmt.Sprintf("%d (%s) S 1 1 1 0 -1 4194560 0 0 0 0 %d 0 0 0 20 0 1 0 %d %s", pid, name, ticks, started, strings.Repeat("0 ", 30)))
}

// thread writes how long a thread has waited.
func (m *timedMachine) thread(pid, tid, waitedNS int) {
	m.t.Helper()
	m.write(fmt.Sprintf("proc/%d/task/%d/schedstat", pid, tid), fmt.Sprintf("1 %d 1\n", waitedNS))
}

// process writes a process with one thread.
func (m *timedMachine) process(pid int, name string, ticks, started, waitedNS int) {
	m.t.Helper()
	m.stat(pid, name, ticks, started)
	m.thread(pid, pid, waitedNS)
}

// remove ends what a folder of /proc stands for.
func (m *timedMachine) remove(name string) {
	m.t.Helper()
	if err := os.RemoveAll(filepath.Join(m.root, name)); err != nil {
		m.t.Fatal(err)
	}
}

// read returns one reading.
func (m *timedMachine) read() (map[string]float64, error) {
	got := map[string]float64{}
	err := m.r.Read(m.t.Context(), func(s metric.Sample) {
		got[strings.TrimSuffix(strings.TrimPrefix(s.Desc.Name, "tee_process_stat_"), "_seconds_total")+" "+s.Labels[0]] = s.Value
	})
	return got, err
}

// want compares the next reading.
func (m *timedMachine) want(want string) {
	m.t.Helper()
	got, err := m.read()
	if s := fmt.Sprint(got); s != want || err != nil {
		m.t.Errorf("read %s, %v, want %s", s, err, want)
	}
}

// TestProcessTimes: what a process has used before the first reading does not count, of what comes later nothing is lost or
// counted twice, also when a process id is used again, and names without processes go.
func TestProcessTimes(t *testing.T) {
	m := newTimedMachine(t)
	m.process(7, "redis", 5000, 50, 9e9)
	m.process(8, "redis", 100, 60, 0)
	m.want("map[]")
	m.process(7, "redis", 5050, 50, 9e9+25e7)
	m.process(9, "new", 20, 10100, 1e8)
	m.want("map[cpu new:0.2 cpu redis:0.5 wait new:0.1 wait redis:0.25]")
	m.process(7, "redis", 5150, 50, 10e9+25e7)
	m.process(9, "new", 3, 10200, 1e7) // another process
	m.want("map[cpu new:0.23 cpu redis:1.5 wait new:0.11 wait redis:1.25]")
	m.remove("proc/9")
	for range forgetTimes {
		if _, err := m.read(); err != nil {
			t.Fatal(err)
		}
	}
	m.want("map[cpu redis:1.5 wait redis:1.25]")
}

// TestProcessTimesOfThreads: only what the threads waited between two readings counts, whichever of them begin and end.
func TestProcessTimesOfThreads(t *testing.T) {
	m := newTimedMachine(t)
	m.process(7, "java", 1000, 50, 60e9)
	m.thread(7, 70, 50e9)
	m.thread(7, 71, 40e9)
	m.want("map[]")
	m.stat(7, "java", 1010, 50)
	m.remove("proc/7/task/70") // its 50 s do not hide what the others wait
	m.thread(7, 71, 41e9)
	m.want("map[cpu java:0.1 wait java:1]")
	m.stat(7, "java", 1020, 50)
	m.thread(7, 71, 42e9)
	m.thread(7, 72, 5e8) // began since
	m.want("map[cpu java:0.2 wait java:2.5]")
	m.stat(7, "java", 1030, 50)
	m.thread(7, 71, 25e7) // another one with the number
	m.want("map[cpu java:0.30000000000000004 wait java:2.75]")
	if n := m.r.(*timesReader).remembers; n != 3 {
		t.Errorf("it counts %d remembered threads, and remembers 3", n)
	}
}

// TestProcessTimesOfManyThreads: of a process with more threads than are read, no part of its waiting is shown, and the reason is.
func TestProcessTimesOfManyThreads(t *testing.T) {
	m := newTimedMachine(t)
	for tid := 1000; tid < 1000+mostTimedThreads; tid++ {
		m.thread(7, tid, 60e9)
	}
	m.process(7, "java", 1000, 50, 60e9)
	m.process(8, "redis", 1000, 50, 0)
	m.want("map[]")
	for n := range 2 { // then its first thread ends, and all others can be read
		m.stat(7, "java", 1010+10*n, 50)
		m.process(8, "redis", 1010+10*n, 50, 1e9*(n+1))
		got, err := m.read()
		if want := fmt.Sprintf("map[cpu java:0.%d cpu redis:0.%d wait redis:%d]", n+1, n+1, n+1); fmt.Sprint(got) != want {
			t.Errorf("read %v, want %s", got, want)
		}
		if err == nil || !strings.Contains(err.Error(), "java waits for a CPU is unknown") || !strings.Contains(err.Error(), "256 threads") {
			t.Errorf("the reason is %v", err)
		}
		m.remove("proc/7/task/7")
	}
}
