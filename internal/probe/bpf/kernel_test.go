package bpf

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/await"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/probe/probetest"
)

// These tests load the real programs into the real kernel and compare their counts with
// workloads/events, whose numbers are known.

// local is this machine; all programs open on it share its process table.
var local = host.Local()

func needKernel(t testing.TB) {
	t.Helper()
	if !capable() {
		probetest.Skip(t, "", errors.New("loading BPF programs needs root, or CAP_BPF and CAP_PERFMON"))
	}
	if _, err := os.Stat("/sys/kernel/btf/vmlinux"); err != nil {
		probetest.Skip(t, "", err)
	}
}

func openProgram(t testing.TB, p *Program, limits Limits) *Counters {
	t.Helper()
	needKernel(t)
	c, err := p.open(local, limits)
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

// The tests run under a name of their own, because other tests may run on the machine at the same time, also these. With
// inFutex this binary is the program that waits for a lock.
func TestMain(m *testing.M) {
	name := cmp.Or(os.Getenv(nameInFutex), probetest.Name("bpf"))
	if err := os.WriteFile("/proc/self/comm", []byte(name), 0); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if c := os.Getenv(inFutex); c != "" {
		waitInFutex(futexCases[c])
		return
	}
	code := m.Run()
	if path, err := eventsProgram(); err == nil {
		_ = os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

// did is the output of events.
type did struct {
	PID                    int
	MinorFaults            uint64 `json:"minor_faults"`
	MajorFaults            uint64 `json:"major_faults"`
	Voluntary, Involuntary uint64
	CPUSeconds             float64 `json:"cpu_seconds"`
	// total is the CPU time of the whole process.
	total float64
	// allVoluntary and allInvoluntary are the switches of the whole process, by
	// getrusage(2).
	allVoluntary, allInvoluntary uint64
	// allFaults are likewise the faults.
	allFaults uint64
}

// events runs the program. before is called when it is ready to make its events, after when it
// has made them but is still alive.
func events(t *testing.T, before, after func(), args ...string) did {
	t.Helper()
	w := start(t, args...)
	before()
	w.work()
	after()
	return w.end()
}

// workload is the running program.
type workload struct {
	*await.Program
	t   *testing.T
	did did
}

// start starts the program and waits until it is ready to make its events.
func start(t *testing.T, args ...string) *workload {
	t.Helper()
	path, err := eventsProgram()
	if err != nil {
		probetest.Skip(t, "a C compiler", err)
	}
	w := &workload{t: t, Program: await.Converse(t, exec.Command(path, append([]string{"--wait"}, args...)...))}
	w.says("ready")
	asleep(t, w.Process.Pid)
	return w
}

func (w *workload) says(want string) {
	w.t.Helper()
	if s := w.Line(w.t); s != want {
		w.t.Fatalf("%v says %q, want %s", w.Args, s, want)
	}
}

// work lets the program make its events and waits until it has.
func (w *workload) work() {
	w.t.Helper()
	fmt.Fprintln(w.In)
	if err := json.Unmarshal([]byte(w.Line(w.t)), &w.did); err != nil {
		w.t.Fatal(err)
	}
	w.says("done")
	asleep(w.t, w.did.PID)
}

// end lets the program end and returns what it did.
func (w *workload) end() did {
	w.t.Helper()
	fmt.Fprintln(w.In)
	if code := w.ExitStatus(w.t); code != 0 {
		w.t.Fatal(w.Last())
	}
	if u, ok := w.ProcessState.SysUsage().(*syscall.Rusage); ok {
		w.did.allVoluntary, w.did.allInvoluntary = uint64(u.Nvcsw), uint64(u.Nivcsw)
		w.did.allFaults = uint64(u.Minflt + u.Majflt)
	}
	// getrusage(2) truncates both times to microseconds.
	w.did.total = (w.ProcessState.UserTime() + w.ProcessState.SystemTime() + 2*time.Microsecond).Seconds()
	return w.did
}

// asleep waits until the main thread of a process has left the CPU, because its CPU time is
// accounted only then.
func asleep(t *testing.T, pid int) {
	t.Helper()
	await.Event(t, "the program is asleep", func() error {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			t.Fatal(err)
		}
		if _, rest, _ := strings.Cut(string(b), ") "); !strings.HasPrefix(rest, "S") {
			return fmt.Errorf("its state is %.1s", rest)
		}
		return nil
	})
}

// syscallCounts sums up by "process syscall".
func syscallCounts(c *Counters) map[string]uint64 {
	out := map[string]uint64{}
	SyscallCounts{c}.ByProcess(func(process, syscall string, n uint64) { out[process+" "+syscall] += n })
	return out
}

func TestSyscallsAreExact(t *testing.T) {
	const n = 200_000
	name := func() string { return probetest.Name("ev") }
	pinned, free, threads, before, renamed, shared, full := name(), name(), name(), name(), name(), name(), name()
	cases := []struct {
		name   string
		limits Limits
		args   []string
		want   map[string]uint64
	}{
		{"pinned", Limits{}, []string{"--comm", pinned, "--cpu", probetest.CPUs(t)[0], "getppid", fmt.Sprint(n)}, map[string]uint64{pinned + " getppid": n}},
		{"unpinned", Limits{}, []string{"--comm", free, "getppid", fmt.Sprint(n)}, map[string]uint64{free + " getppid": n}},
		{"threads", Limits{}, []string{"--comm", threads, "--threads", "5", "getppid", fmt.Sprint(n)}, map[string]uint64{threads + " getppid": 5 * n}},
		{"renamed", Limits{}, []string{"--comm", before, "rename", fmt.Sprint(n), renamed}, map[string]uint64{before + " getppid": n, renamed + " getppid": n, before + " prctl": 1}},
		{"shared rows", Limits{Bytes: 1}, []string{"--comm", shared, "--threads", "5", "getppid", fmt.Sprint(n)}, map[string]uint64{shared + " getppid": 5 * n}},
		{"pairs full", Limits{Pairs: slots}, []string{"--comm", full, "getppid", fmt.Sprint(n)}, nil},
		{"processes full", Limits{Processes: 1}, []string{"--comm", full, "getppid", fmt.Sprint(n)}, nil},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			c := openProgram(t, Syscalls, tc.limits)
			cpus, err := ebpf.PossibleCPU()
			if err != nil {
				t.Fatal(err)
			}
			if rows := len(c.maps["counts"]) / 8 / pairs; (tc.limits.Bytes == 1 || cpus == 1) != (rows == 1) {
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
			// Full tables fold into "other" and lose nothing. The rest of the machine may be in
			// there too.
			var others uint64
			for key := range is {
				if strings.HasPrefix(key, Other+" ") || strings.HasSuffix(key, " "+Other) {
					others += is[key] - was[key]
				} else if strings.HasPrefix(key, full) {
					t.Errorf("%s is counted by name although the table is full", key)
				}
			}
			if others+missed < n {
				t.Errorf("other has %d events and %d were missed, want at least %d", others, missed, n)
			}
			if folded := (SyscallCounts{c}).ByProcess(func(string, string, uint64) {}); folded < n {
				t.Errorf("folded %d, want at least %d", folded, n)
			}
		})
	}
}

// shared returns what the open programs of this machine share.
func shared() registry {
	defer kernelOf(local).Unlock()
	return *kernelOf(local).Lock()
}

// attachedHooks returns the number of attached hooks of c.
func attachedHooks(c *Counters) int {
	held := c.links.Lock()
	defer c.links.Unlock()
	return held.attached()
}

// Both exist at the same time: one reads a table that the other filled.
func TestProcessTableIsShared(t *testing.T) {
	a := openProgram(t, Syscalls, Limits{})
	b, err := Switches.open(local, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if n := shared().tableUsers; n != 2 {
		t.Errorf("%d users of the process table, want 2", n)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	name := probetest.Name("closed")
	key := name + " getppid"
	was := syscallCounts(a)[key]
	events(t, func() {}, func() {
		exactly(t, a, "calls after another user of the table was closed", syscallCounts(a)[key]-was, 1000)
	}, "--comm", name, "getppid", "1000")
}

func (n Switched) switches() uint64 { return n.Voluntary + n.Involuntary }

// switchesOf returns the counts of Switches, by process.
func switchesOf(t *testing.T, c *Counters) map[string]Switched {
	t.Helper()
	if err := c.Visit(); err != nil {
		t.Fatal(err)
	}
	out := map[string]Switched{}
	SwitchCounts{c}.ByProcess(func(process string, n Switched) { out[process] = n })
	return out
}

// ioCalls returns a process's calls that read and that write (proc_pid_io(5)).
func ioCalls(t *testing.T, pid int) (out [2]uint64) {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, calls, _ := strings.Cut(string(b), "syscr:")
	if _, err := fmt.Sscanf(calls, "%d\nsyscw: %d", &out[0], &out[1]); err != nil {
		t.Fatalf("%q: %v", b, err)
	}
	return out
}

func TestSwitches(t *testing.T) {
	name := probetest.Name("switch")
	read := func(c *Counters) Switched { return switchesOf(t, c)[name] }
	t.Run("kinds", func(t *testing.T) {
		c := openProgram(t, Switches, Limits{})
		var was, is Switched
		d := events(t, func() { was = read(c) }, func() { is = read(c) }, "--comm", name, "switches", "20000")
		v, i := is.Voluntary-was.Voluntary, is.Involuntary-was.Involuntary
		// The program reads its own counters inside the observer's window, so the count is at
		// least that, and at most the kernel's count for the process from its start to its end.
		if v < d.Voluntary || v > d.allVoluntary || i < d.Involuntary || i > d.allInvoluntary {
			t.Errorf("counted %d voluntary and %d involuntary, the kernel %d to %d and %d to %d", v, i, d.Voluntary, d.allVoluntary, d.Involuntary, d.allInvoluntary)
		}
		if d.Voluntary+d.Involuntary < 20000 {
			t.Errorf("only %d switches happened", d.Voluntary+d.Involuntary)
		}
	})
	t.Run("life", func(t *testing.T) {
		c := openProgram(t, Switches, Limits{})
		from, err := sinceBoot()
		if err != nil {
			t.Fatal(err)
		}
		var lives Switched
		events(t, func() { read(c) }, func() { lives = read(c) }, "--comm", name, "switches", "100")
		if to, err := sinceBoot(); err != nil || lives.Started < from || lives.Started > to {
			t.Errorf("the process started at %d, want between %d and %d: %v", lives.Started, from, to, err)
		}
		read(c) // it started before this visit
		if got := read(c); got.Started != 0 || got.NS != lives.NS && got.NS < lives.NS {
			t.Errorf("it has ended, but counts as living: %+v", got)
		}
		// One that starts and ends between two visits.
		read(c)
		events(t, func() {}, func() {}, "--comm", name, "switches", "100")
		if got := read(c); got.Started <= lives.Started {
			t.Errorf("a process lived since the visit before, but it is not known: %+v, before %+v", got, lives)
		}
		if got := read(c); got.Started != 0 {
			t.Errorf("nothing has lived since the visit before: %+v", got)
		}
	})
	t.Run("cpu time", func(t *testing.T) {
		c := openProgram(t, Switches, Limits{})
		var was, is Switched
		d := events(t, func() { was = read(c) }, func() { is = read(c) }, "--comm", name, "cpu", "300")
		// At least the time of the events, at most that of the whole process.
		if got := float64(is.NS-was.NS) / 1e9; got < d.CPUSeconds || got > d.total {
			t.Errorf("counted %v s of CPU time, want between %v and %v", got, d.CPUSeconds, d.total)
		}
	})
	t.Run("reads and writes", func(t *testing.T) {
		c := openProgram(t, Switches, Limits{})
		w := start(t, "--comm", name, "reads", "5000")
		counted := func() (out [2]uint64) {
			n := read(c)
			return [2]uint64{n.Reads, n.Writes}
		}
		was, before := counted(), ioCalls(t, w.Process.Pid)
		w.work()
		is, after := counted(), ioCalls(t, w.Process.Pid)
		w.end()
		for i, kind := range []string{"reads", "writes"} {
			if got, want := is[i]-was[i], after[i]-before[i]; got != want {
				t.Errorf("counted %d %s, the kernel %d", got, kind, want)
			}
		}
		if is[0]-was[0] < 5000 || is[1] == was[1] {
			t.Errorf("counted %d reads and %d writes, want 5000 and the program's own line", is[0]-was[0], is[1]-was[1])
		}
	})
}

// faultsUntilNow is the number of faults of a process, fields 10 and 12 of /proc/PID/stat.
func faultsUntilNow(t *testing.T, pid int) uint64 {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	var minor, major uint64
	if f := strings.Fields(rest); len(f) > 9 {
		_, err = fmt.Sscan(f[7]+" "+f[9], &minor, &major)
	}
	if err != nil {
		t.Fatal(err)
	}
	return minor + major
}

func TestFaults(t *testing.T) {
	name := probetest.Name("fault")
	read := func(c *Counters) map[string]uint64 {
		out := map[string]uint64{}
		FaultCounts{c}.ByProcess(func(process string, space, cause int, n uint64) {
			if process == name {
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
			w := start(t, "--comm", name, "faults", cause, fmt.Sprint(n))
			before, was := faultsUntilNow(t, w.Process.Pid), read(c)
			w.work()
			is := read(c)
			d := w.end()
			var all uint64
			for key := range is {
				all += is[key] - was[key]
			}
			// The program reads its own counters inside the observer's window. At most there are those of the process
			// until its end, and those that end in a signal, which getrusage(2) does not count.
			least, most := d.MinorFaults+d.MajorFaults, d.allFaults-before
			if want == "user protection" || want == "user instruction_fetch" {
				least, most = least+n, most+n
			}
			if got := is[want] - was[want]; got < n || got > all || all < least || all > most {
				t.Errorf("counted %d of %q and %d in all, want %d and %d to %d", got, want, all, n, least, most)
			}
		})
	}
}

// The program counts the whole machine: at least what this test does, and no more where the kernel's tracer says that
// no one else did anything.
func TestPageCache(t *testing.T) {
	t.Run("typed", func(t *testing.T) { testPageCache(t, PageCache) })
	t.Run("raw", func(t *testing.T) {
		second := *PageCache
		second.hooks = slices.Clone(PageCache.hooks)
		for i := range second.hooks {
			second.hooks[i].variants = second.hooks[i].variants[1:2]
		}
		testPageCache(t, &second)
	})
}

// pageEvent is what the tracepoints say of an event: the operation, the file and the page.
var pageEvent = regexp.MustCompile(`^(\w+): .*\bino[= ](\w+)\b.*\b(?:ofs|index)=(\d+)`)

// alone reports whether the tracer saw nothing but this thread's operations on one file, each page once.
func alone(x *probetest.Tracer) bool {
	events, lost := x.Read()
	seen, file := map[string]bool{}, map[string]string{}
	for _, e := range events {
		m := pageEvent.FindStringSubmatch(e.Event)
		if m == nil || e.Thread != strconv.Itoa(unix.Gettid()) || file[m[1]] != "" && file[m[1]] != m[2] || seen[m[1]+m[3]] {
			return false
		}
		file[m[1]], seen[m[1]+m[3]] = m[2], true
	}
	return lost == 0 && len(events) > 0
}

func testPageCache(t *testing.T, p *Program) {
	c := openProgram(t, p, Limits{})
	read := func() (out [len(Operations)]uint64) {
		PageCacheCounts{c}.Pages(func(i int, n uint64) { out[i] = n })
		return out
	}
	for _, name := range Operations {
		if !c.has(name) {
			probetest.Skip(t, "", fmt.Errorf("this kernel has no hook for %s: %w", name, c.Lost))
		}
	}
	// The pages of tmpfs are always in memory and do not count as cache.
	dir := t.TempDir()
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil || fs.Type == unix.TMPFS_MAGIC {
		t.Skipf("%s is no disk file system (%v)", dir, err)
	}
	var tracepoints []string
	for _, name := range []string{"filemap/mm_filemap_add_to_page_cache", "filemap/mm_filemap_get_pages", "writeback/writeback_dirty_folio"} {
		if ok, err := local.Exists("/sys/kernel/tracing/events/" + name); err == nil && ok { // the second since Linux 6.12
			tracepoints = append(tracepoints, name)
		}
	}
	x := probetest.NewTracer(t, tracepoints...)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const pages = 1024
	size := pages * os.Getpagesize()
	for _, chunk := range []int{size / pages, size / 64, size} {
		exact := 0
		during := func(what string, operation int, f func()) {
			x.Clear()
			was := read()[operation]
			f()
			n, alone := read()[operation]-was, alone(x)
			if alone {
				exact++
			}
			if n < pages || alone && n > pages {
				t.Errorf("%d bytes at a time: %d pages %s, want %d; alone: %v", chunk, n, what, pages, alone)
			}
		}
		for range 3 {
			// Without NOATIME, updating the access time would also read a page of the disk.
			f, err := os.OpenFile(filepath.Join(dir, "pages"), os.O_RDWR|os.O_CREATE|os.O_EXCL|unix.O_NOATIME, 0o600)
			if err != nil {
				t.Fatal(err)
			}
			buf := make([]byte, chunk)
			through := func(op func([]byte) (int, error)) {
				for range size / chunk {
					if n, err := op(buf); err != nil || n != chunk {
						t.Errorf("%d bytes: %v", n, err)
					}
				}
			}
			rewind := func() {
				if _, err := f.Seek(0, io.SeekStart); err != nil {
					t.Error(err)
				}
			}
			during("added by writing", 0, func() { through(f.Write) })
			rewind()
			if err := f.Sync(); err != nil {
				t.Error(err)
			}
			during("dirtied by writing over clean pages", 2, func() { through(f.Write) })
			rewind()
			during("accessed by reading what is cached", 1, func() { through(f.Read) })
			if err := errors.Join(f.Sync(), unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)); err != nil {
				t.Error(err)
			}
			rewind()
			during("added by reading from disk", 0, func() { through(f.Read) })
			if err := errors.Join(f.Close(), os.Remove(f.Name())); err != nil {
				t.Error(err)
			}
		}
		t.Logf("%d bytes at a time: no one else had pages in %d of 12 steps", chunk, exact)
	}
}

// If the kernel refuses a hook, the others work, and the error names it.
func TestRefusedHook(t *testing.T) {
	needKernel(t)
	broken := *PageCache
	broken.hooks = slices.Clone(PageCache.hooks)
	broken.hooks[2].variants = []variant{
		{"no_such_program", typed},
		// It loads, but attaches to another tracepoint.
		{"add_btf", raw("no_such_tracepoint")},
	}
	c, err := broken.Open(local)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if c.Lost == nil || !strings.Contains(c.Lost.Error(), "hook dirty") || !strings.Contains(c.Lost.Error(), "no_such_program") || probe.Remedy(c.Lost) == "" {
		t.Errorf("lost %v, advice %q", c.Lost, probe.Remedy(c.Lost))
	}
	PageCacheCounts{c}.Pages(func(i int, _ uint64) {
		if Operations[i] == "dirty" {
			t.Error("an operation that is not counted has a value")
		}
	})
	if !c.has("add") || !c.has("buffer_dirty") {
		t.Error("the other hooks are gone too")
	}

	broken.hooks = broken.hooks[2:3]
	if c, err := broken.Open(local); err == nil {
		c.Close()
		t.Error("opened although no hook is left")
	}
}

// Every variant counts, not only the first one that this kernel accepts.
func TestVariants(t *testing.T) {
	for _, p := range []*Program{Syscalls, Switches, Faults} {
		for i := range p.hooks[0].variants {
			v := p.hooks[0].variants[i]
			t.Run(v.program, func(t *testing.T) {
				one := *p
				one.hooks = []hook{p.hooks[0]}
				one.hooks[0].variants = []variant{v}
				c := openProgram(t, &one, Limits{})
				var n uint64
				name := probetest.Name("var")
				count := func() {
					SyscallCounts{c}.ByProcess(func(process, syscall string, m uint64) {
						if process == name && syscall == "getppid" {
							n += m
						}
					})
				}
				args := []string{"getppid", "5000"}
				switch p {
				case Switches:
					args = []string{"switches", "2500"}
					count = func() {
						n += switchesOf(t, c)[name].switches()
					}
				case Faults:
					args = []string{"faults", "write", "5000"}
					count = func() {
						FaultCounts{c}.ByProcess(func(process string, _, cause int, m uint64) {
							if process == name && Causes[cause] == "write" {
								n += m
							}
						})
					}
				}
				var before uint64
				d := events(t, func() { count(); before, n = n, 0 }, func() { count() }, append([]string{"--comm", name}, args...)...)
				least, most := uint64(5000), uint64(5000)
				switch p {
				case Switches: // at least two for each round trip; more where waking preempts, as on PREEMPT_RT
					least, most = d.Voluntary+d.Involuntary, d.allVoluntary+d.allInvoluntary
				case Faults:
					most = d.allFaults
				}
				if n -= before; n < least || n > most {
					t.Errorf("counted %d events, want %d to %d", n, least, most)
				}
			})
		}
	}
}

// The function that older kernels have instead of a tracepoint for reads.
func TestAccessByFunction(t *testing.T) {
	needKernel(t)
	for _, v := range PageCache.hooks[1].variants[2:] {
		t.Run(v.program, func(t *testing.T) {
			one := *PageCache
			one.hooks = []hook{{name: "access", variants: []variant{v}}}
			c, err := one.Open(local)
			if err != nil {
				probetest.Skip(t, "", err)
			}
			defer c.Close()
			f, err := os.Open("/proc/self/exe")
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			const pages = 256
			var was, is uint64
			PageCacheCounts{c}.Pages(func(_ int, n uint64) { was = n })
			if _, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, io.LimitReader(f, int64(pages*os.Getpagesize())), make([]byte, os.Getpagesize())); err != nil {
				t.Fatal(err)
			}
			PageCacheCounts{c}.Pages(func(_ int, n uint64) { is = n })
			if is-was < pages {
				t.Errorf("counted %d pages, at least %d were read", is-was, pages)
			}
		})
	}
}

// Nothing stays attached: after Close a call costs as much as before.
func TestCloseDetaches(t *testing.T) {
	needKernel(t)
	c, err := Syscalls.Open(local)
	if err != nil {
		t.Fatal(err)
	}
	// This second descriptor keeps the program alive, so its run count is readable.
	p, err := c.programs()[0].Clone()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	stats, err := ebpf.EnableStats(unix.BPF_STATS_RUN_TIME)
	if err != nil {
		probetest.Skip(t, "statistics", fmt.Errorf("enable statistics: %w", err))
	}
	defer stats.Close()
	runsDuring := func() uint64 {
		was, err := p.Stats()
		if err != nil {
			t.Fatal(err)
		}
		for range 100 {
			unix.Getppid()
		}
		is, err := p.Stats()
		if err != nil {
			t.Fatal(err)
		}
		return is.RunCount - was.RunCount
	}
	if n := runsDuring(); n < 100 {
		t.Errorf("%d runs in 100 calls while attached", n)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if n := runsDuring(); n != 0 {
		t.Errorf("%d runs after Close", n)
	}
	if r := shared(); r.tableUsers != 0 || r.table != nil || len(r.open) != 0 {
		t.Errorf("still shared: %d users, %d maps, %d open", r.tableUsers, len(r.table), len(r.open))
	}
}

// TestMeter: what the programs cost is known once one was measured, and grows with their runs.
func TestMeter(t *testing.T) {
	needKernel(t)
	h, _ := fakeClock()
	m, err := NewMeter(h)
	if err != nil {
		t.Fatal(err)
	}
	if c := m.Costs(); c != (Costs{}) {
		t.Errorf("costs are known before anything was measured: %+v", c)
	}
	sys, err := Syscalls.open(h, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	defer sys.Close()
	calls := func() {
		events(t, func() {}, func() {}, "--comm", probetest.Name("meter"), "getppid", "300000")
	}
	calls()
	first := m.Costs()
	n := sys.Events()
	t.Logf("%d events: body %.1f ns, dispatch %.1f ns each", n, first.Body/float64(n)*1e9, first.Dispatch/float64(n)*1e9)
	if !first.Known || first.Maps == 0 || first.Body+first.Dispatch <= 0 || first.Dispatch < 0 {
		t.Errorf("%d system calls cost nothing, or the maps take no memory: %+v", n, first)
	}
	calls()
	if second := m.Costs(); second.Body+second.Dispatch <= first.Body+first.Dispatch {
		t.Errorf("costs do not grow: %+v, then %+v", first, second)
	}
}
