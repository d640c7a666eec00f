package probetest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Tracer is the kernel's own tracer, as the second witness of what happens on the whole machine: in an instance of its
// own, which sees every event of some tracepoints.
type Tracer struct {
	t      testing.TB
	folder string // "" if there is no tracer
}

// NewTracer starts to trace.
func NewTracer(t testing.TB, tracepoints ...string) *Tracer {
	t.Helper()
	const tracefs = "/sys/kernel/tracing"
	if _, err := os.Stat(tracefs + "/instances"); err != nil {
		_ = unix.Mount("tracefs", tracefs, "tracefs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
	}
	const ours = "teescope-test-"
	old, _ := filepath.Glob(tracefs + "/instances/" + ours + "*")
	for _, left := range old { // by tests that were killed
		pid, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(left), ours), "-")
		if _, err := os.Stat("/proc/" + pid); err != nil {
			_ = os.Remove(left)
		}
	}
	instance, err := os.MkdirTemp(tracefs+"/instances", fmt.Sprintf("%s%d-", ours, os.Getpid()))
	if err != nil {
		t.Logf("no tracer: %v", err)
		return &Tracer{t: t}
	}
	t.Cleanup(func() {
		if err := os.Remove(instance); err != nil {
			t.Error(err)
		}
	})
	x := &Tracer{t: t, folder: instance}
	for _, name := range tracepoints {
		x.write(filepath.Join("events", name, "enable"), "1")
	}
	return x
}

// Works reports whether this kernel has a tracer; without one nothing is traced.
func (x *Tracer) Works() bool { return x.folder != "" }

func (x *Tracer) write(file, text string) {
	x.t.Helper()
	if err := os.WriteFile(filepath.Join(x.folder, file), []byte(text), 0); err != nil {
		x.t.Fatal(err)
	}
}

// Clear forgets all events.
func (x *Tracer) Clear() {
	x.t.Helper()
	if x.Works() {
		x.write("trace", "")
	}
}

// Traced is an event: the thread that the CPU ran, and the event's name and values.
type Traced struct{ Thread, Event string }

var (
	tracedEvent  = regexp.MustCompile(`-(\d+) +\[\d+\] [^:]*: (.*)`)
	tracedHeader = regexp.MustCompile(`entries-in-buffer/entries-written: (\d+)/(\d+)`)
)

// Read returns the events since the last Clear, and how many more there were than the tracer keeps.
func (x *Tracer) Read() (events []Traced, lost uint64) {
	x.t.Helper()
	if !x.Works() {
		return nil, 0
	}
	trace, err := os.ReadFile(filepath.Join(x.folder, "trace"))
	if err != nil {
		x.t.Fatal(err)
	}
	for line := range strings.Lines(string(trace)) {
		if m := tracedHeader.FindStringSubmatch(line); m != nil {
			var kept, written uint64
			if _, err := fmt.Sscan(m[1]+" "+m[2], &kept, &written); err != nil {
				x.t.Fatal(err)
			}
			lost = written - kept
		} else if m := tracedEvent.FindStringSubmatch(line); m != nil {
			events = append(events, Traced{m[1], m[2]})
		}
	}
	return events, lost
}

// All is the number of events on the machine since the last Clear.
func (x *Tracer) All() uint64 {
	x.t.Helper()
	events, lost := x.Read()
	return uint64(len(events)) + lost
}

// OnInit returns a function that returns the number of events of tracepoints that happened,
// since OnInit was called, while a CPU ran a thread of init. The kernels of some sandboxes,
// whose init is the sandbox's own agent, run no BPF program there: neither for init's own events
// nor for interrupts during that time, such as the completion of another process's request. The
// kernel's own tracer sees the latter, so a test knows how many events its program may lack.
func OnInit(t testing.TB, tracepoints ...string) func() uint64 {
	t.Helper()
	x := NewTracer(t)
	if !x.Works() {
		return func() uint64 { return 0 }
	}
	threads, err := os.ReadDir("/proc/1/task")
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, e := range threads {
		ids = append(ids, e.Name())
	}
	x.write("options/event-fork", "1")
	x.write("set_event_pid", strings.Join(ids, " "))
	for _, name := range tracepoints {
		x.write(filepath.Join("events", name, "enable"), "1")
	}
	return func() uint64 {
		t.Helper()
		events, n := x.Read()
		for _, e := range events {
			if _, err := os.Stat("/proc/1/task/" + e.Thread); err == nil {
				n++
			}
		}
		if n > 0 {
			t.Logf("%d events of %v on init", n, tracepoints)
		}
		return n
	}
}

// EndsOnInit returns a function that returns how much CPU time the kernel accounted to processes of a name after their end
// began, of those whose last trace, sched:sched_process_free, came while a CPU ran a thread of init: see OnInit. The
// pattern of all names is *text*. Called before programs are attached, the tracer comes first at each event, and misses
// nothing that they miss. Each reading of its own clock by such a process is an event of the tracer, so it should make few.
func EndsOnInit(t testing.TB, pattern string) func(comm string) time.Duration {
	t.Helper()
	x := NewTracer(t)
	if !x.Works() {
		return func(string) time.Duration { return 0 }
	}
	x.write("trace_clock", "global") // one for all CPUs
	for _, name := range []string{"sched_process_exit", "sched_stat_runtime", "sched_process_free"} {
		x.write("events/sched/"+name+"/filter", fmt.Sprintf("comm ~ %q", pattern))
		x.write("events/sched/"+name+"/enable", "1")
	}
	init := map[string]bool{} // its threads
	look := func() {
		threads, err := os.ReadDir("/proc/1/task")
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range threads {
			init[e.Name()] = true
		}
	}
	look()
	return func(comm string) (unseen time.Duration) {
		t.Helper()
		look()
		events, lost := x.Read()
		if lost > 0 {
			t.Fatalf("the kernel's tracer lost %d events", lost)
		}
		after := map[string]time.Duration{} // by process id, since its end began
		for _, e := range events {
			m := processEvent.FindStringSubmatch(e.Event)
			if m == nil {
				t.Fatalf("the kernel's tracer says %q", e.Event)
			}
			pid := m[3]
			used, ending := after[pid]
			switch {
			case m[1] == "sched_process_exit":
				after[pid] = 0
			case m[1] == "sched_stat_runtime" && ending:
				more, err := time.ParseDuration(m[4] + "ns")
				if err != nil {
					t.Fatal(err)
				}
				after[pid] = used + more
			case m[1] == "sched_process_free" && m[2] == comm && init[e.Thread]:
				t.Logf("process %s ended on init, after %v", pid, used)
				unseen += used
			}
		}
		return unseen
	}
}

var processEvent = regexp.MustCompile(`^(\w+): comm=(.*) pid=(\d+)(?: runtime=(\d+))?`)
