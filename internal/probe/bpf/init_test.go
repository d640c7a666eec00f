package bpf

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// tracer is the kernel's own tracer, as the second witness of what happens on the whole machine: in an instance of its
// own, which sees every event of some tracepoints.
type tracer struct {
	t      testing.TB
	folder string // "" if there is no tracer
}

// newTracer starts to trace.
func newTracer(t testing.TB, tracepoints ...string) *tracer {
	t.Helper()
	const tracefs = "/sys/kernel/tracing"
	if ok, err := local.Exists(tracefs + "/instances"); err != nil || !ok {
		_ = local.Mount("tracefs", tracefs)
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
		return &tracer{t: t}
	}
	t.Cleanup(func() {
		if err := os.Remove(instance); err != nil {
			t.Error(err)
		}
	})
	x := &tracer{t: t, folder: instance}
	for _, name := range tracepoints {
		x.write(filepath.Join("events", name, "enable"), "1")
	}
	return x
}

func (x *tracer) write(file, text string) {
	x.t.Helper()
	if err := os.WriteFile(filepath.Join(x.folder, file), []byte(text), 0); err != nil {
		x.t.Fatal(err)
	}
}

// clear forgets all events.
func (x *tracer) clear() {
	x.t.Helper()
	if x.folder != "" {
		x.write("trace", "")
	}
}

// traced is an event: the thread that the CPU ran, and the event's name and values.
type traced struct{ thread, event string }

var (
	tracedEvent  = regexp.MustCompile(`-(\d+) +\[\d+\] [^:]*: (.*)`)
	tracedHeader = regexp.MustCompile(`entries-in-buffer/entries-written: (\d+)/(\d+)`)
)

// read returns the events since the last clear, and how many more there were than the tracer keeps.
func (x *tracer) read() (events []traced, lost uint64) {
	x.t.Helper()
	if x.folder == "" {
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
			events = append(events, traced{m[1], m[2]})
		}
	}
	return events, lost
}

// all is the number of events on the machine since the last clear.
func (x *tracer) all() uint64 {
	x.t.Helper()
	events, lost := x.read()
	return uint64(len(events)) + lost
}

// passing is the number of events that two witnesses may not agree on, because each CPU may be between both at the
// beginning and at the end.
func passing() uint64 { return 2 * uint64(runtime.NumCPU()) }

// onInit returns a function that returns the number of events of tracepoints that happened,
// since onInit was called, while a CPU ran a thread of init. The kernels of some sandboxes,
// whose init is the sandbox's own agent, run no BPF program there: neither for init's own events
// nor for interrupts during that time, such as the completion of another process's request. The
// kernel's own tracer sees the latter, so a test knows how many events its program may lack.
func onInit(t testing.TB, tracepoints ...string) func() uint64 {
	t.Helper()
	x := newTracer(t)
	if x.folder == "" {
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
		events, n := x.read()
		for _, e := range events {
			if _, err := os.Stat("/proc/1/task/" + e.thread); err == nil {
				n++
			}
		}
		if n > 0 {
			t.Logf("%d events of %v on init", n, tracepoints)
		}
		return n
	}
}

// within reports whether got is want, or less by up to lost.
func within(got, want, lost uint64) bool { return got <= want && got+lost >= want }

// exactly complains unless got is want, but for the events that the kernel says it missed: since Linux 7.2 a task can be
// preempted in the program of a system call, which that CPU then does not run for others.
func exactly(t *testing.T, c *Counters, what string, got, want uint64) {
	t.Helper()
	missed, err := c.Missed()
	if err != nil {
		t.Fatal(err)
	}
	if !within(got, want, missed) {
		t.Errorf("%s: counted %d, missed %d of all processes, want %d in all", what, got, missed, want)
	}
}
