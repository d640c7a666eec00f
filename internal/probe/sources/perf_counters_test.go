package sources

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/await"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/probe/probetest"
)

// software replaces the hardware's events on machines without any: the kernel counts these
// itself, on the same path.
var software = []perfSet{
	perfSetOf(unix.PERF_TYPE_SOFTWARE, []uint64{unix.PERF_COUNT_SW_PAGE_FAULTS, unix.PERF_COUNT_SW_CONTEXT_SWITCHES},
		describePerf("test_faults", "Page faults", "PERF_COUNT_SW_PAGE_FAULTS"),
		describePerf("test_switches", "Context switches", "PERF_COUNT_SW_CONTEXT_SWITCHES")),
	perfSetOf(unix.PERF_TYPE_SOFTWARE, []uint64{unix.PERF_COUNT_SW_CPU_MIGRATIONS},
		describePerf("test_migrations", "Migrations", "PERF_COUNT_SW_CPU_MIGRATIONS")),
}

func openSoftware(t *testing.T, h *host.Host) *perfCounters {
	t.Helper()
	p, err := openPerf(h, software, func(err error) error { return err })
	if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) {
		probetest.Skip(t, "llc", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// readPerf reads once: series "name label label" to value.
func readPerf(t *testing.T, p *perfCounters) (map[string]float64, error) {
	t.Helper()
	out := map[string]float64{}
	err := p.Read(t.Context(), func(s metric.Sample) {
		out[strings.Join(append([]string{s.Desc.Name}, s.Labels...), " ")] = s.Value
	})
	return out, err
}

func mustReadPerf(t *testing.T, p *perfCounters) map[string]float64 {
	t.Helper()
	out, err := readPerf(t, p)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestPerfMachine compares the sums over all CPUs with the kernel's own.
func TestPerfMachine(t *testing.T) {
	p := openSoftware(t, host.Local())
	kernel := func() [2]float64 {
		var out [2]float64
		for i, f := range []struct{ path, name string }{{"/proc/vmstat", "pgfault"}, {"/proc/stat", "ctxt"}} {
			b, err := os.ReadFile(f.path)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := fmt.Sscan(regexp.MustCompile(`(?m)^` + f.name + ` (\d+)`).FindStringSubmatch(string(b))[1], &out[i]); err != nil {
				t.Fatal(err)
			}
		}
		return out
	}
	outer := kernel()
	before := mustReadPerf(t, p)
	inner := kernel()
	const pages = 5000
	b, err := unix.Mmap(-1, 0, pages*unix.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	_ = unix.Madvise(b, unix.MADV_NOHUGEPAGE) // without huge pages in the kernel there is nothing to switch off
	for i := range pages {
		b[i*unix.Getpagesize()] = 1
	}
	if err := unix.Munmap(b); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("sh", "-c", "for i in 1 2 3 4 5 6 7 8 9; do cat /proc/version; done").CombinedOutput(); err != nil {
		t.Fatalf("sh: %v: %s", err, out)
	}
	inner2 := kernel()
	after := mustReadPerf(t, p)
	outer2 := kernel()
	// Programs may end by faults that the kernel's sum of faults does not include. A CPU may be between both counters
	// of switches.
	faults, switches := after["tee_test_faults_total"]-before["tee_test_faults_total"], after["tee_test_switches_total"]-before["tee_test_switches_total"]
	if faults < pages {
		t.Errorf("%v page faults, want at least %d", faults, pages)
	}
	cpus := float64(runtime.NumCPU())
	between(t, "context switches", inner2[1]-inner[1]-cpus, switches, outer2[1]-outer[1]+cpus)
	if switches < 9 {
		t.Errorf("%v context switches while nine programs ran", switches)
	}
}

// TestPerfProcess counts the known events of a program, in its existing threads and in new ones.
func TestPerfProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events")
	if out, err := exec.Command("cc", "-static", "-O2", "-pthread", "-o", path, "../../../workloads/events/events.c").CombinedOutput(); err != nil {
		probetest.Skip(t, "a C compiler", fmt.Errorf("build events: %w: %s", err, out))
	}
	name := probetest.Name("perf")
	named := func(int) probe.Scope {
		return probe.Scope{Process: &metric.NamePattern{Regexp: regexp.MustCompile("^" + name + "$")}}
	}
	faults := func(u *syscall.Rusage) int64 { return u.Minflt + u.Majflt }
	for _, c := range []struct {
		name  string
		args  []string
		scope func(pid int) probe.Scope
		want  func(d did) (series string, least float64)
		most  func(*syscall.Rusage) int64 // from the start of the process to its end
	}{
		{"by name", []string{"faults", "write", "5000"}, named,
			func(did) (string, float64) { return "tee_process_test_faults_total " + name, 5000 }, faults},
		{"by id", []string{"faults", "write", "3000"},
			func(pid int) probe.Scope { return probe.Scope{PIDs: []int{pid}} },
			func(d did) (string, float64) {
				return fmt.Sprintf("tee_pid_test_faults_total %d %s", d.PID, name), 3000
			}, faults},
		{"new threads", []string{"switches", "2000"}, named,
			func(d did) (string, float64) {
				return "tee_process_test_switches_total " + name, float64(d.Voluntary + d.Involuntary)
			},
			func(u *syscall.Rusage) int64 { return u.Nvcsw + u.Nivcsw }},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := openSoftware(t, host.Local())
			events := await.Converse(t, exec.Command(path, append([]string{"--comm", name, "--wait"}, c.args...)...))
			events.Line(t) // ready
			if err := p.Adjust("", c.scope(events.Process.Pid)); err != nil {
				t.Fatal(err)
			}
			before := mustReadPerf(t, p)
			fmt.Fprintln(events.In)
			var d did
			if err := json.Unmarshal([]byte(events.Line(t)), &d); err != nil {
				t.Fatal(err)
			}
			events.Line(t) // done
			series, least := c.want(d)
			got := mustReadPerf(t, p)[series] - before[series]
			fmt.Fprintln(events.In)
			if code := events.ExitStatus(t); code != 0 {
				t.Fatal(events.Last())
			}
			most := float64(c.most(events.ProcessState.SysUsage().(*syscall.Rusage)))
			between(t, series, least, got, most)
			if strings.HasPrefix(series, "tee_pid") {
				byName := mustReadPerf(t, p)["tee_process_test_faults_total "+name] - before["tee_process_test_faults_total "+name]
				between(t, "the sum by name", got, byName, most)
			}
			// Counts of ended threads stay, and their counters are closed.
			if last := mustReadPerf(t, p)[series] - before[series]; last < got {
				t.Errorf("%s falls from %v to %v when the process ends", series, got, last)
			}
			if n := watching(p); n != 0 {
				t.Errorf("%d processes are watched after the end", n)
			}
		})
	}
}

// did is the output of workloads/events.
type did struct {
	PID                    int
	Voluntary, Involuntary uint64
}

// pmu is a host whose counters a test sets. A missing target is offline.
type pmu struct {
	online string
	values map[host.PerfTarget]host.PerfReading
	opened int
	errs   map[host.PerfEvent]error
}

type pmuGroup struct {
	*pmu
	target host.PerfTarget
	n      int
}

func (g *pmuGroup) Read() (host.PerfReading, error) {
	r, ok := g.values[g.target]
	if !ok {
		return r, unix.ENODEV
	}
	r.Values = slices.Repeat(r.Values, g.n)[:g.n]
	return r, nil
}

func (g *pmuGroup) Close() error { g.opened--; return nil }

func (u *pmu) host(t *testing.T) *host.Host {
	h := &host.Host{Root: t.TempDir()}
	u.put(t, h)
	h.Perf = func(target host.PerfTarget, events ...host.PerfEvent) (host.PerfGroup, error) {
		if _, ok := u.values[target]; !ok {
			return nil, unix.ENODEV
		}
		for _, e := range events {
			if u.errs[e] != nil {
				return nil, u.errs[e]
			}
		}
		u.opened++
		return &pmuGroup{u, target, len(events)}, nil
	}
	return h
}

func (u *pmu) put(t *testing.T, h *host.Host) {
	t.Helper()
	if err := h.Install("/sys/devices/system/cpu/online", []byte(u.online+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}

func counted(value uint64, enabled, running time.Duration) host.PerfReading {
	return host.PerfReading{Enabled: enabled, Running: running, Values: []uint64{value}}
}

// Shared counters are extrapolated, and no total ever falls, whatever the shares are and
// whichever CPU goes offline.
func TestPerfSharedAndHotplug(t *testing.T) {
	cpu0, cpu1 := host.PerfTarget{CPU: 0}, host.PerfTarget{CPU: 1}
	u := &pmu{online: "0-1", values: map[host.PerfTarget]host.PerfReading{cpu0: {Values: []uint64{0}}, cpu1: {Values: []uint64{0}}}}
	h := u.host(t)
	p, err := openPerf(h, software, func(err error) error { return err })
	if err != nil {
		t.Fatal(err)
	}
	last := 0.0
	for i, step := range []struct {
		what     string
		online   string
		values   map[host.PerfTarget]host.PerfReading
		total    float64
		coverage float64
	}{
		{"alone", "0-1", map[host.PerfTarget]host.PerfReading{cpu0: counted(100, 1*time.Second, 1*time.Second), cpu1: counted(200, time.Second, time.Second)}, 300, 1},
		{"half the time", "0-1", map[host.PerfTarget]host.PerfReading{cpu0: counted(150, 2*time.Second, 1500*time.Millisecond), cpu1: counted(250, 2*time.Second, 1500*time.Millisecond)}, 500, 0.5},
		{"never", "0-1", map[host.PerfTarget]host.PerfReading{cpu0: counted(150, 3*time.Second, 1500*time.Millisecond), cpu1: counted(300, 3*time.Second, 2500*time.Millisecond)}, 550, 0.5},
		{"again", "0-1", map[host.PerfTarget]host.PerfReading{cpu0: counted(250, 4*time.Second, 2500*time.Millisecond), cpu1: counted(300, 4*time.Second, 3500*time.Millisecond)}, 750, 2. / 3},
		{"one goes", "0", map[host.PerfTarget]host.PerfReading{cpu0: counted(260, 5*time.Second, 3500*time.Millisecond)}, 760, 1},
		{"it comes back, from zero", "0-1", map[host.PerfTarget]host.PerfReading{cpu0: counted(270, 6*time.Second, 4500*time.Millisecond), cpu1: counted(5, time.Second, time.Second)}, 775, 1},
		{"its counters die though it is there", "0-1", map[host.PerfTarget]host.PerfReading{cpu0: counted(280, 7*time.Second, 5500*time.Millisecond)}, 785, 1},
	} {
		u.online, u.values = step.online, step.values
		u.put(t, h)
		got, err := readPerf(t, p)
		if err != nil {
			t.Errorf("%s: %v", step.what, err)
		}
		if v := got["tee_test_faults_total"]; v != step.total || v < last {
			t.Errorf("%s: total %v after %v, want %v", step.what, v, last, step.total)
		}
		if v := got[probe.Coverage.Name]; v < step.coverage-0.001 || v > step.coverage+0.001 {
			t.Errorf("%s: coverage %v, want %v", step.what, v, step.coverage)
		}
		estimated := p.groups.Lock().estimated
		p.groups.Unlock()
		if estimated != (i >= 1) {
			t.Errorf("%s: estimated %v", step.what, estimated)
		}
		last = got["tee_test_faults_total"]
	}
	if err := p.Close(); err != nil || u.opened != 0 {
		t.Errorf("%d groups are open after Close: %v", u.opened, err)
	}
}

// If a machine lacks one of two sets, that is reported, and the other counts.
func TestPerfMissingSet(t *testing.T) {
	u := &pmu{online: "0", values: map[host.PerfTarget]host.PerfReading{{CPU: 0}: counted(7, time.Second, time.Second)},
		errs: map[host.PerfEvent]error{software[1].events[0]: unix.ENOENT}}
	p := openSoftware(t, u.host(t))
	got, err := readPerf(t, p)
	if !errors.Is(err, unix.ENOENT) || got["tee_test_faults_total"] != 7 {
		t.Errorf("%v, %v", got, err)
	}
	if _, ok := got["tee_test_migrations_total"]; ok {
		t.Error("an event that is not counted has a value")
	}
}

// Processes that a wide filter matches beyond the bounds are reported, and nothing more is
// opened.
func TestPerfManyProcesses(t *testing.T) {
	values := map[host.PerfTarget]host.PerfReading{{CPU: 0}: counted(0, time.Second, time.Second)}
	u := &pmu{online: "0", values: values}
	h := u.host(t)
	const processes, threads = 70, 6
	for i := range processes {
		pid := 1000 * (i + 1)
		stat := fmt.Sprintf("%d (many) S 1%s 77%s", pid, strings.Repeat(" 0", 17), strings.Repeat(" 0", 30))
		if err := h.Install(fmt.Sprintf("/proc/%d/stat", pid), []byte(stat), 0o644); err != nil {
			t.Fatal(err)
		}
		for k := range threads {
			if err := h.Mkdir(fmt.Sprintf("/proc/%d/task/%d", pid, pid+k)); err != nil {
				t.Fatal(err)
			}
			values[host.PerfTarget{Thread: pid + k}] = counted(1, time.Second, time.Second)
		}
	}
	p := openSoftware(t, h)
	if err := p.Adjust("", probe.Scope{Process: &metric.NamePattern{Regexp: regexp.MustCompile("many")}}); err != nil {
		t.Fatal(err)
	}
	got, err := readPerf(t, p)
	// Three descriptors for each thread, so 341 threads fit.
	const fit = maxDescriptors / 3
	if err == nil || probe.Remedy(err) == "" || !strings.Contains(err.Error(), "processes or threads") {
		t.Errorf("the error is %v", err)
	}
	if v := got["tee_process_test_faults_total many"]; v != fit {
		t.Errorf("%v threads are counted, want %d", v, fit)
	}
	if n := watching(p); n != maxWatched {
		t.Errorf("%d processes are watched, want %d", n, maxWatched)
	}
	if err := p.Adjust("", probe.Scope{}); err != nil {
		t.Fatal(err)
	}
	if u.opened != len(software) {
		t.Errorf("%d groups are open after the filter was removed, want those of one CPU", u.opened)
	}
	if v := mustReadPerf(t, p)["tee_process_test_faults_total many"]; v != fit {
		t.Errorf("what was counted fell to %v", v)
	}
}

// A process that may not be counted is reported in every reading, and has no series.
func TestPerfForeignProcess(t *testing.T) {
	u := &pmu{online: "0", values: map[host.PerfTarget]host.PerfReading{{CPU: 0}: counted(0, time.Second, time.Second)}}
	h := u.host(t)
	stat := fmt.Sprintf("50 (theirs) S 1%s 77%s", strings.Repeat(" 0", 17), strings.Repeat(" 0", 30))
	if err := errors.Join(h.Install("/proc/50/stat", []byte(stat), 0o644), h.Mkdir("/proc/50/task/50")); err != nil {
		t.Fatal(err)
	}
	open := h.Perf
	h.Perf = func(target host.PerfTarget, events ...host.PerfEvent) (host.PerfGroup, error) {
		if target.Thread > 0 {
			return nil, unix.EACCES
		}
		return open(target, events...)
	}
	p := openSoftware(t, h)
	if err := p.Adjust("", probe.Scope{Process: &metric.NamePattern{Regexp: regexp.MustCompile("theirs")}}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		got, err := readPerf(t, p)
		if !errors.Is(err, unix.EACCES) {
			t.Errorf("the error is %v", err)
		}
		if v, ok := got["tee_process_test_faults_total theirs"]; ok {
			t.Errorf("what is not counted has value %v", v)
		}
	}
}

// Names beyond the limit are counted together.
func TestPerfManyNames(t *testing.T) {
	u := &pmu{online: "0", values: map[host.PerfTarget]host.PerfReading{{CPU: 0}: counted(0, time.Second, time.Second)}}
	h := u.host(t)
	p := openSoftware(t, h)
	for i := range maxNames + 10 {
		u.values[host.PerfTarget{Thread: 50}] = counted(1, time.Second, time.Second)
		stat := fmt.Sprintf("50 (name%d) S 1%s %d%s", i, strings.Repeat(" 0", 17), i, strings.Repeat(" 0", 30))
		if err := errors.Join(h.Install("/proc/50/stat", []byte(stat), 0o644), h.Mkdir("/proc/50/task/50")); err != nil {
			t.Fatal(err)
		}
		if err := p.Adjust("", probe.Scope{Process: &metric.NamePattern{Regexp: regexp.MustCompile("name")}}); err != nil {
			t.Fatal(err)
		}
		mustReadPerf(t, p)
	}
	got := mustReadPerf(t, p)
	sum := 0.0
	for series, v := range got {
		if strings.HasPrefix(series, "tee_process_test_faults_total ") {
			sum += v
		}
	}
	if sum != maxNames+10 || got["tee_process_test_faults_total other"] != 10 || got[probe.Folded.Name] == 0 {
		t.Errorf("the sum is %v, other has %v, folded %v", sum, got["tee_process_test_faults_total other"], got[probe.Folded.Name])
	}
}

func FuzzStat(f *testing.F) {
	for _, s := range []string{"", "1 (a) S", "77 (a) b) S 1" + strings.Repeat(" 0", 40), "77 () S 1" + strings.Repeat(" 9", 40), "7 (k) I 2 0 0 0 -1 2129984" + strings.Repeat(" 0", 30)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if name, _, ok, err := parseStat("stat", s); ok && name == "" || !ok && err == nil && !strings.Contains(s, "(") {
			t.Errorf("%q gives name %q", s, name)
		}
	})
}

// watching returns the number of processes that p watches.
func watching(p *perfCounters) int {
	held := p.groups.Lock()
	defer p.groups.Unlock()
	return len(held.watched.now)
}
