package bpf

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/host"
)

// These tests load the real programs into the real kernel and compare what
// they count with workloads/events, whose numbers are known.

func needKernel(t testing.TB) {
	t.Helper()
	if !capable() {
		t.Skip("loading BPF programs needs root, or CAP_BPF and CAP_PERFMON")
	}
	if _, err := os.Stat("/sys/kernel/btf/vmlinux"); err != nil {
		t.Skip("the kernel has no BTF (CONFIG_DEBUG_INFO_BTF)")
	}
}

func openProgram(t testing.TB, p *Program, limits Limits) *Counters {
	t.Helper()
	needKernel(t)
	c, err := p.open(host.Local(), limits)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	if c.Lost != nil {
		t.Logf("hooks lost: %v", c.Lost)
	}
	return c
}

// eventsProgram builds workloads/events once for all tests.
var eventsProgram = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "events")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "events")
	out, err := exec.Command("cc", "-static", "-O2", "-pthread", "-o", path, "../../../workloads/events/events.c").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build events: %w: %s", err, out)
	}
	return path, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if path, err := eventsProgram(); err == nil {
		_ = os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

// did is what events prints.
type did struct {
	PID                    int
	MinorFaults            uint64 `json:"minor_faults"`
	MajorFaults            uint64 `json:"major_faults"`
	Voluntary, Involuntary uint64
	CPUSeconds             float64 `json:"cpu_seconds"`
}

// events runs the program; before is called when it is ready to make its
// events and after when it has made them and still lives.
func events(t *testing.T, before, after func(), args ...string) did {
	t.Helper()
	path, err := eventsProgram()
	if err != nil {
		t.Skipf("no test program: %v", err)
	}
	cmd := exec.Command(path, append([]string{"--wait"}, args...)...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	out := bufio.NewScanner(stdout)
	line := func() string {
		if !out.Scan() {
			t.Fatalf("events %v ended early: %v", args, cmd.Wait())
		}
		return out.Text()
	}
	if s := line(); s != "ready" {
		t.Fatalf("events says %q, want ready", s)
	}
	before()
	fmt.Fprintln(in)
	var d did
	if err := json.Unmarshal([]byte(line()), &d); err != nil {
		t.Fatal(err)
	}
	if s := line(); s != "done" {
		t.Fatalf("events says %q, want done", s)
	}
	asleep(t, d.PID)
	after()
	fmt.Fprintln(in)
	_, _ = io.Copy(io.Discard, stdout)
	if err := cmd.Wait(); err != nil {
		t.Fatalf("events %v: %v", args, err)
	}
	return d
}

// asleep waits until the main thread of a process has left the CPU: what it
// uses is accounted when it does.
func asleep(t *testing.T, pid int) {
	t.Helper()
	for {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			t.Fatal(err)
		}
		if _, rest, _ := strings.Cut(string(b), ") "); strings.HasPrefix(rest, "S") {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// syscallCounts sums up by "process syscall".
func syscallCounts(c *Counters) map[string]uint64 {
	out := map[string]uint64{}
	c.Syscalls(func(process, syscall string, n uint64) { out[process+" "+syscall] += n })
	return out
}

func TestSyscallsAreExact(t *testing.T) {
	const n = 200_000
	cases := []struct {
		name   string
		limits Limits
		args   []string
		want   map[string]uint64
	}{
		{"pinned", Limits{}, []string{"--comm", "ev-pinned", "--cpu", "0", "getppid", fmt.Sprint(n)}, map[string]uint64{"ev-pinned getppid": n}},
		{"unpinned", Limits{}, []string{"--comm", "ev-free", "getppid", fmt.Sprint(n)}, map[string]uint64{"ev-free getppid": n}},
		{"threads", Limits{}, []string{"--comm", "ev-threads", "--threads", "5", "getppid", fmt.Sprint(n)}, map[string]uint64{"ev-threads getppid": 5 * n}},
		{"renamed", Limits{}, []string{"--comm", "ev-before", "rename", fmt.Sprint(n), "ev-after"}, map[string]uint64{"ev-before getppid": n, "ev-after getppid": n, "ev-before prctl": 1}},
		{"shared rows", Limits{Bytes: 1}, []string{"--comm", "ev-shared", "--threads", "5", "getppid", fmt.Sprint(n)}, map[string]uint64{"ev-shared getppid": 5 * n}},
		{"pairs full", Limits{Pairs: slots}, []string{"--comm", "ev-pairs", "getppid", fmt.Sprint(n)}, nil},
		{"processes full", Limits{Processes: 1}, []string{"--comm", "ev-procs", "getppid", fmt.Sprint(n)}, nil},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			c := openProgram(t, Syscalls, tc.limits)
			if rows := len(c.maps["counts"]) / 8 / pairs; (tc.limits.Bytes == 1) != (rows == 1) {
				t.Fatalf("%d rows of counters", rows)
			}
			var was, is map[string]uint64
			var missed uint64
			events(t, func() { was = syscallCounts(c) }, func() {
				is = syscallCounts(c)
				var err error
				if missed, err = c.Missed(); err != nil {
					t.Fatal(err)
				}
			}, tc.args...)
			for key, want := range tc.want {
				if got := is[key] - was[key]; got > want || got+missed < want {
					t.Errorf("%s: counted %d, missed %d, want %d in all", key, got, missed, want)
				}
			}
			if tc.want != nil {
				return
			}
			// Full tables fold into "other" and lose nothing. All else that runs
			// on this machine may be in there too.
			var others uint64
			for key := range is {
				if strings.HasPrefix(key, Other+" ") || strings.HasSuffix(key, " "+Other) {
					others += is[key] - was[key]
				} else if strings.HasPrefix(key, "ev-") {
					t.Errorf("%s is counted by name although the table is full", key)
				}
			}
			if others+missed < n {
				t.Errorf("other has %d events and %d were missed, want at least %d", others, missed, n)
			}
			if folded := c.Syscalls(func(string, string, uint64) {}); folded < n {
				t.Errorf("folded %d, want at least %d", folded, n)
			}
		})
	}
}

// Both exist at once: a table that one object filled is read by the other.
func TestProcessTableIsShared(t *testing.T) {
	a := openProgram(t, Syscalls, Limits{})
	b, err := Switches.open(host.Local(), Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if kernel.users != 2 {
		t.Errorf("%d users of the process table, want 2", kernel.users)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	was := syscallCounts(a)["ev-after-close getppid"]
	events(t, func() {}, func() {
		if got := syscallCounts(a)["ev-after-close getppid"] - was; got != 1000 {
			t.Errorf("counted %d calls after another user of the table was closed, want 1000", got)
		}
	}, "--comm", "ev-after-close", "getppid", "1000")
}

func TestSwitches(t *testing.T) {
	type counted struct{ voluntary, involuntary, ns uint64 }
	read := func(c *Counters, name string) (out counted) {
		c.Switches(func(process string, v, i, ns uint64) {
			if process == name {
				out = counted{v, i, ns}
			}
		})
		return out
	}
	t.Run("kinds", func(t *testing.T) {
		c := openProgram(t, Switches, Limits{})
		var was, is counted
		d := events(t, func() { was = read(c, "ev-switch") }, func() { is = read(c, "ev-switch") }, "--comm", "ev-switch", "switches", "20000")
		v, i := is.voluntary-was.voluntary, is.involuntary-was.involuntary
		// The program reads its own counters inside the observer's window. Outside
		// its own but inside ours are the waits for the two lines of input, and
		// being preempted while printing: a handful, against 40,000.
		const edge = 10
		if v < d.Voluntary || v > d.Voluntary+edge || i < d.Involuntary || i > d.Involuntary+edge {
			t.Errorf("counted %d voluntary and %d involuntary, /proc/self/status says %d and %d", v, i, d.Voluntary, d.Involuntary)
		}
		if d.Voluntary+d.Involuntary < 20000 {
			t.Errorf("only %d switches happened", d.Voluntary+d.Involuntary)
		}
	})
	t.Run("cpu time", func(t *testing.T) {
		c := openProgram(t, Switches, Limits{})
		var was, is counted
		d := events(t, func() { was = read(c, "ev-cpu") }, func() { is = read(c, "ev-cpu") }, "--comm", "ev-cpu", "cpu", "300")
		// getrusage is scaled from ticks in its parts but exact in its sum; what
		// differs is start and end of the program, well below 20 ms.
		if got := float64(is.ns-was.ns) / 1e9; got < d.CPUSeconds || got > d.CPUSeconds+0.02 {
			t.Errorf("counted %v s of CPU time, getrusage says %v", got, d.CPUSeconds)
		}
	})
}

func TestFaults(t *testing.T) {
	read := func(c *Counters) map[string]uint64 {
		out := map[string]uint64{}
		c.Faults(func(process string, space, cause int, n uint64) {
			if process == "ev-fault" {
				out[Spaces[space]+" "+Causes[cause]] = n
			}
		})
		return out
	}
	const n = 3000
	for cause, want := range map[string]string{
		"read":              "user no_page_found",
		"write":             "user write",
		"write_protection":  "user write_protection",
		"protection":        "user protection",
		"instruction_fetch": "user instruction_fetch",
		"kernel":            "kernel write",
	} {
		t.Run(cause, func(t *testing.T) {
			c := openProgram(t, Faults, Limits{})
			var was, is map[string]uint64
			d := events(t, func() { was = read(c) }, func() { is = read(c) }, "--comm", "ev-fault", "faults", cause, fmt.Sprint(n))
			var all uint64
			for key := range is {
				all += is[key] - was[key]
			}
			if got := is[want] - was[want]; got < n || got > n+20 {
				t.Errorf("counted %d of %q, want %d", got, want, n)
			}
			// Faults that end in a signal are no minor faults for getrusage.
			if f := d.MinorFaults + d.MajorFaults; f > 0 && (all < f || all > f+20) {
				t.Errorf("counted %d faults in all, getrusage says %d", all, f)
			}
		})
	}
}
