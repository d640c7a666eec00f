package environment

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/await"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/host/hosttest"
	"github.com/teescope/teescope/internal/result"
)

func write(t *testing.T, f *hosttest.Fixture, name, text string) {
	t.Helper()
	p := filepath.Join(f.Host.Root, name)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// watched plays a run on a fixture: the files before, then those after, ten seconds later.
func watched(t *testing.T, fixture string, own float64, before, after map[string]string) result.Interference {
	t.Helper()
	f := hosttest.Open(t, fixture)
	now := time.Unix(1000, 0)
	f.Host.Now = func() time.Time { return now }
	for name, text := range before {
		write(t, f, name, text)
	}
	w, err := Watch(f.Host)
	if err != nil {
		t.Fatal(err)
	}
	w.Begin()
	now = now.Add(10 * time.Second)
	for name, text := range after {
		write(t, f, name, text)
	}
	return w.Finish(own)
}

// idle and busy are two CPUs before and after ten seconds: CPU 0 worked for 6 s
// and was stolen from for 1 s, CPU 1 worked for 1 s.
var (
	idle = map[string]string{
		"proc/stat":            "cpu  0 0 0 0\ncpu0 1000 0 500 9000 10 5 5 20 0 0\ncpu1 1000 0 500 9000 0 0 0 0 0 0\nintr 5\n",
		"proc/self/stat":       "7 (a ) b) S 1 1 1 0 -1 4194560 1 0 0 0 120 30 900 900 20 0 1 0 100\n",
		"proc/vmstat":          "nr_free_pages 5\npswpin 10\npswpout 20\n",
		"proc/pressure/memory": "some avg10=0.00 avg60=0.00 avg300=0.00 total=1000000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n",
		"proc/loadavg":         "1.25 0.50 0.25 1/200 4242\n",
		"sys/fs/cgroup/user.slice/user-1000.slice/cpu.stat": "usage_usec 5\nnr_periods 9\nnr_throttled 3\nthrottled_usec 8\n",
		"sys/fs/cgroup/user.slice/cpu.stat":                 "usage_usec 5\nnr_throttled 100\n",
	}
	busy = map[string]string{
		"proc/stat":            "cpu  0 0 0 0\ncpu0 1500 0 550 9300 0 30 30 120 200 0\ncpu1 1050 0 550 9900 0 0 0 0 0 0\n",
		"proc/self/stat":       "7 (a ) b) S 1 1 1 0 -1 4194560 1 0 0 0 140 60 990 990 20 0 1 0 100\n",
		"proc/vmstat":          "nr_free_pages 9\npswpin 12\npswpout 25\n",
		"proc/pressure/memory": "some avg10=0.00 avg60=0.00 avg300=0.00 total=1500000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n",
		"proc/loadavg":         "9.00 0.50 0.25 1/200 4242\n",
		"sys/fs/cgroup/user.slice/user-1000.slice/cpu.stat": "usage_usec 5\nnr_periods 9\nnr_throttled 5\nthrottled_usec 8\n",
		"sys/fs/cgroup/user.slice/cpu.stat":                 "usage_usec 5\nnr_throttled 101\n",
	}
)

func is(t *testing.T, what string, got *float64, want float64) {
	t.Helper()
	if got == nil {
		t.Errorf("%s is missing, want %v", what, want)
	} else if math.Abs(*got-want) > 1e-9 {
		t.Errorf("%s is %v, want %v", what, *got, want)
	}
}

func TestInterference(t *testing.T) {
	i := watched(t, "testdata/metal-sgx.txtar", 3.5, idle, busy)
	// CPU 0: 500 user, 50 system, 25 + 25 interrupts, 300 idle, 100 stolen; its
	// iowait went back by 10. CPU 1: 100 busy, 900 idle.
	const all = 500 + 50 + 50 + 290 + 100 + 100 + 900
	is(t, "steal", i.StealRatio, 100./all)
	is(t, "harness", i.HarnessCPU, 0.5)
	is(t, "foreign", i.ForeignCPU, (600+100-350-50)/float64(all))
	is(t, "swap", i.SwapBytes, float64(7*unix.Getpagesize()))
	is(t, "load", i.LoadBefore, 1.25)
	is(t, "pressure", i.MemoryPressure, 0.05)
	is(t, "throttling", i.ThrottleEvents, 3)
	if !strings.Contains(i.Missing["throttle_events.thermal"], "no thermal_throttle") {
		t.Errorf("missing: %v", i.Missing)
	}

	// More was run on purpose than the kernel counted: its ticks are coarse.
	is(t, "foreign", watched(t, "testdata/metal-sgx.txtar", 60, idle, busy).ForeignCPU, 0)

	hot := func(a, b string) map[string]string {
		m := map[string]string{}
		m["sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count"] = a
		m["sys/devices/system/cpu/cpu1/thermal_throttle/core_throttle_count"] = b
		return m
	}
	is(t, "throttling by heat", watched(t, "testdata/metal-sgx.txtar", 0, with(idle, hot("5", "0")), with(busy, hot("7", "1"))).ThrottleEvents, 6)
}

func with(ms ...map[string]string) map[string]string {
	out := map[string]string{}
	for _, m := range ms {
		for k, v := range m {
			out[k] = v
		}
	}
	return out
}

// TestInterferenceMissing removes or damages each source: its value is null with a reason, never 0, and the others
// stay.
func TestInterferenceMissing(t *testing.T) {
	for _, tt := range []struct {
		name, file, text string
		fields           []string
		reason           string
	}{
		{"stat stands still", "proc/stat", idle["proc/stat"], []string{"steal_ratio", "foreign_cpu_ratio"}, "stand still"},
		{"stat spoilt", "proc/stat", "cpu0 a b c d e\n", []string{"steal_ratio", "foreign_cpu_ratio"}, `parse line 1 of /proc/stat: cpu0 user: "a" is not a count`},
		{"stat without CPUs", "proc/stat", "intr 5\n", []string{"steal_ratio", "foreign_cpu_ratio"}, "no line of a CPU"},
		{"self spoilt", "proc/self/stat", "7 (x) S 1", []string{"harness_cpu_seconds", "foreign_cpu_ratio"}, "fields after the command"},
		{"self is not a number", "proc/self/stat", "7 (x) S 1 1 1 0 -1 4194560 1 0 0 0 x 30 1", []string{"harness_cpu_seconds", "foreign_cpu_ratio"}, "parse"},
		{"vmstat without swap", "proc/vmstat", "nr_free_pages 5\n", []string{"swap_bytes"}, "without swap"},
		{"vmstat went back", "proc/vmstat", "pswpin 0\npswpout 0\n", []string{"swap_bytes"}, "went back"},
		{"no line some", "proc/pressure/memory", "full total=5\n", []string{"memory_pressure_ratio"}, "no line"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			i := watched(t, "testdata/metal-sgx.txtar", 1, idle, with(busy, map[string]string{tt.file: tt.text}))
			values := map[string]*float64{"steal_ratio": i.StealRatio, "foreign_cpu_ratio": i.ForeignCPU, "swap_bytes": i.SwapBytes,
				"throttle_events": i.ThrottleEvents, "load_before": i.LoadBefore, "memory_pressure_ratio": i.MemoryPressure,
				"harness_cpu_seconds": i.HarnessCPU}
			for _, field := range tt.fields {
				if values[field] != nil || !strings.Contains(i.Missing[field], tt.reason) {
					t.Errorf("%s: %s is %v, reason %q", tt.name, field, values[field], i.Missing[field])
				}
				delete(values, field)
			}
			for field, v := range values {
				if v == nil || i.Missing[field] != "" {
					t.Errorf("%s: %s is %v, reason %q", tt.name, field, v, i.Missing[field])
				}
			}
		})
	}
	// Nothing but CPU times.
	i := watched(t, "testdata/cut-gvisor.txtar", 0, map[string]string{"proc/stat": idle["proc/stat"]}, nil)
	for _, field := range []string{"steal_ratio", "foreign_cpu_ratio", "swap_bytes", "throttle_events", "load_before", "memory_pressure_ratio",
		"harness_cpu_seconds", "cpu_hertz"} {
		t.Run(field, func(t *testing.T) {
			if i.Missing[field] == "" {
				t.Errorf("%s is missing without a reason", field)
			}
		})
	}
	f := hosttest.Open(t, "testdata/cut-nothing.txtar")
	if _, err := Watch(f.Host); err == nil {
		t.Error("a machine without /proc/stat is watched")
	}
	write(t, f, "proc/stat", idle["proc/stat"])
	w, err := Watch(f.Host)
	if err != nil {
		t.Fatal(err)
	}
	if i := w.Finish(1); len(i.Missing) == 0 || i.StealRatio != nil {
		t.Errorf("an End without a Begin gives %+v", i)
	}
}

func scaling(khz ...string) map[string]string {
	m := map[string]string{}
	for cpu, v := range khz {
		m[fmt.Sprintf("sys/devices/system/cpu/cpu%d/cpufreq/scaling_cur_freq", cpu)] = v
	}
	return m
}

// TestFrequency: a reading of the busy CPU, or null with the reason that it is blind.
func TestFrequency(t *testing.T) {
	const metal, guest = "testdata/metal-sgx.txtar", "testdata/guest-tdx-gcp.txtar"
	virtual := map[string]string{"proc/cpuinfo": "processor : 0\ncpu MHz : 2000.5\nflags : aperfmperf hypervisor\n"}
	for _, tt := range []struct {
		name, fixture string
		files         map[string]string
		hertz         float64
		reason        string
	}{
		{"cpuinfo with aperfmperf", metal, nil, 3600e6, ""},
		{"cpufreq", metal, scaling("3100000", "800000"), 3100e6, ""},
		{"cpufreq unreadable", metal, scaling("<unknown>", "<unknown>"), 0, "blind: no frequency"},
		{"guest, constant MHz", guest, nil, 0, "blind: the hypervisor does not show"},
		{"guest, one value", guest, virtual, 0, "blind: a constant"},
		{"sandbox", "testdata/cut-gvisor.txtar", nil, 0, "blind: the hypervisor"},
		{"arm without cpufreq", "testdata/guest-arm64.txtar", nil, 0, "blind: no cpufreq driver"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			i := watched(t, tt.fixture, 1, with(idle, tt.files), busy)
			if tt.hertz == 0 {
				if i.Frequency != nil || !strings.Contains(i.Missing["cpu_hertz"], tt.reason) {
					t.Errorf("%s: %+v, reason %q", tt.name, i.Frequency, i.Missing["cpu_hertz"])
				}
				return
			}
			if want := (result.Spread{Min: tt.hertz, Mean: tt.hertz, Max: tt.hertz, N: 1}); i.Frequency == nil || *i.Frequency != want {
				t.Errorf("%s: %+v, reason %q, want %+v", tt.name, i.Frequency, i.Missing["cpu_hertz"], want)
			}
		})
	}
}

// TestFrequencyDuringRun reads more than once in a run, and accepts a guest's readings if they vary.
func TestFrequencyDuringRun(t *testing.T) {
	f := hosttest.Open(t, "testdata/guest-nitro-aws.txtar")
	speed := func(n int) {
		write(t, f, "proc/stat", fmt.Sprintf("cpu0 %d 0 0 100\n", 100*n))
		for name, text := range scaling(fmt.Sprint(2000000 + n)) {
			write(t, f, name, text)
		}
	}
	synctest.Test(t, func(t *testing.T) { // whose clock waits for the readings
		speed(1)
		w, err := Watch(f.Host)
		if err != nil {
			t.Fatal(err)
		}
		w.speeds.every = time.Millisecond
		w.Begin()
		for n := range 100 {
			speed(n + 2)
			time.Sleep(time.Millisecond)
		}
		if s := w.Finish(0).Frequency; s == nil || s.N < 2 || s.Min < 2e9 || s.Max <= s.Min || s.Mean <= s.Min || s.CV <= 0 {
			t.Errorf("%+v", s)
		}
	})
}

// TestBusyCPUs: those busy half the time, or else the busiest, at most eight.
func TestBusyCPUs(t *testing.T) {
	f := hosttest.Open(t, "testdata/cut-nothing.txtar")
	var khz []string
	for cpu := range 12 {
		khz = append(khz, fmt.Sprint(1000+cpu))
	}
	for name, text := range scaling(khz...) {
		write(t, f, name, text)
	}
	s, why := findSpeeds(f.Host)
	if s == nil {
		t.Fatal(why)
	}
	load := func(shares ...float64) map[int]times {
		m := map[int]times{}
		for cpu, share := range shares {
			m[cpu] = times{all: 100, busy: 100 * share}
		}
		return m
	}
	for _, tt := range []struct {
		now  map[int]times
		want []float64
	}{
		{load(0.1, 0.5, 0.9, 0.4), []float64{1001e3, 1002e3}},
		{load(0.1, 0.2, 0.0), []float64{1001e3}},
		{load(0, 0, 0), nil},
		{map[int]times{}, nil},
		{load(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1), []float64{1000e3, 1001e3, 1002e3, 1003e3, 1004e3, 1005e3, 1006e3, 1007e3}},
	} {
		if got := s.read(nil, tt.now); fmt.Sprint(got) != fmt.Sprint(tt.want) {
			t.Errorf("%v: %v, want %v", tt.now, got, tt.want)
		}
	}
}

func TestSpread(t *testing.T) {
	if s := Spread(nil); s != nil {
		t.Errorf("nothing is %+v", s)
	}
	s := Spread([]float64{1, 2, 3})
	if s.Min != 1 || s.Mean != 2 || s.Max != 3 || s.CV != 0.5 || s.N != 3 {
		t.Errorf("%+v", s)
	}
}

// TestWatchHere watches this machine while a process of known CPU time runs. The
// watcher leaves no goroutine behind.
func TestWatchHere(t *testing.T) {
	w, err := Watch(host.Local())
	if err != nil {
		t.Fatal(err)
	}
	before := runtime.NumGoroutine()
	w.Begin()
	w.Begin() // an abandoned run
	cmd := exec.Command("sh", "-c", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	i := w.Finish((cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds())
	await.Event(t, "the watcher's goroutines have ended", func() error {
		if n := runtime.NumGoroutine(); n > before {
			return fmt.Errorf("%d goroutines, %d before", n, before)
		}
		return nil
	})
	ratio := func(what string, v *float64) {
		if v == nil && i.Missing[what] == "" || v != nil && (*v < 0 || *v > 1) {
			t.Errorf("%s is %v, reason %q", what, v, i.Missing[what])
		}
	}
	ratio("steal_ratio", i.StealRatio)
	ratio("foreign_cpu_ratio", i.ForeignCPU)
	ratio("memory_pressure_ratio", i.MemoryPressure)
	if i.LoadBefore == nil || i.HarnessCPU == nil {
		t.Errorf("%+v", i)
	}
	if i.Frequency == nil && !strings.HasPrefix(i.Missing["cpu_hertz"], "blind: ") {
		t.Errorf("no frequency, reason %q", i.Missing["cpu_hertz"])
	}
	t.Logf("%+v; missing %v", i, i.Missing)
}
