package environment

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/machine"
	"github.com/teescope/teescope/internal/result"
)

// fewTicks is the number of clock ticks on all CPUs together from which shares of them are meaningful.
const fewTicks = 10

// Watcher reads what disturbs a run, on the harness's machine. It serves one run at a
// time: Begin, the run, Finish, and again.
type Watcher struct {
	h         *host.Host
	groups    *machine.Cgroups
	noGroups  error
	throttles []string // thermal throttle counts, one a CPU
	speeds    *speeds
	blind     string // why there are no speeds
	before    *snapshot
	sampler   *sampler
}

// Watch returns a watcher of what can be watched on h. It fails without CPU times in /proc/stat: nothing relevant
// could be watched.
func Watch(h *host.Host) (*Watcher, error) {
	if _, err := readTimes(h); err != nil {
		return nil, fmt.Errorf("watch for interference: %w", err)
	}
	w := &Watcher{h: h}
	w.groups, w.noGroups = machine.OwnCgroups(h)
	w.throttles, _ = h.Glob(cpuDir + "cpu[0-9]*/thermal_throttle/core_throttle_count")
	w.speeds, w.blind = findSpeeds(h)
	return w, nil
}

// Clock returns the machine's current clock source, "" if the kernel does not state it.
func (w *Watcher) Clock() string {
	s, _ := w.h.ReadString("/sys/devices/system/clocksource/clocksource0/current_clocksource")
	return s
}

// reading is a counter's value, or why it is missing.
type reading struct {
	value float64
	err   error
}

// snapshot is the state of all counters at one moment.
type snapshot struct {
	times                              map[int]times // by CPU
	noTimes                            error
	at                                 time.Time
	self, swap, stall, quota, overheat reading
	load                               reading
}

// Begin records the state before a run. Each Begin needs its Finish, even if the run is
// abandoned: until then the frequency is read once a second.
func (w *Watcher) Begin() {
	if w.sampler != nil {
		w.sampler.finish()
	}
	s := w.readCounters()
	w.before, w.sampler = &s, nil
	if w.speeds != nil {
		w.sampler = w.speeds.start(s.times)
	}
}

// Finish reports what happened since Begin. own is the CPU time in seconds of everything run on purpose (the workload, a
// load generator); the harness's own is known. The rest was used by others, so workload time missing from own counts
// as foreign.
func (w *Watcher) Finish(own float64) result.Interference {
	i := result.Interference{Missing: map[string]string{}}
	if w.before == nil {
		for _, f := range []string{"steal_ratio", "foreign_cpu_ratio", "throttle_events", "swap_bytes", "load_before",
			"memory_pressure_ratio", "cpu_hertz", "harness_cpu_seconds"} {
			i.Missing[f] = "the run was not watched from its beginning"
		}
		return i
	}
	before, after := w.before, w.readCounters()
	w.before = nil
	seconds := after.at.Sub(before.at).Seconds()

	since := func(field string, scale float64, a, b reading) *float64 {
		switch d := b.value - a.value; {
		case a.err != nil || b.err != nil:
			i.Missing[field] = reason(cmp.Or(a.err, b.err))
		case d < 0:
			i.Missing[field] = "the counter went back"
		default:
			d *= scale
			return &d
		}
		return nil
	}
	i.HarnessCPU = since("harness_cpu_seconds", 1, before.self, after.self)
	i.SwapBytes = since("swap_bytes", float64(syscall.Getpagesize()), before.swap, after.swap)
	if seconds > 0 {
		i.MemoryPressure = since("memory_pressure_ratio", 1e-6/seconds, before.stall, after.stall)
	} else {
		i.Missing["memory_pressure_ratio"] = "no time has passed"
	}
	// Either one alone is a value; the missing one is reported with it.
	const heat, quota = "throttle_events.thermal", "throttle_events.quota"
	i.ThrottleEvents = since(heat, 1, before.overheat, after.overheat)
	if n := since(quota, 1, before.quota, after.quota); i.ThrottleEvents == nil {
		i.ThrottleEvents = n
	} else if n != nil {
		*i.ThrottleEvents += *n
	}
	if i.ThrottleEvents == nil {
		i.Missing["throttle_events"] = i.Missing[heat] + "; " + i.Missing[quota]
	}
	if before.load.err == nil {
		i.LoadBefore = &before.load.value
	} else {
		i.Missing["load_before"] = reason(before.load.err)
	}
	w.shares(&i, before, &after, own)
	w.frequency(&i)
	return i
}

// shares splits CPU times into the parts that were stolen and that others used.
func (w *Watcher) shares(i *result.Interference, before, after *snapshot, own float64) {
	var all, busy, steal float64
	for cpu, t := range after.times {
		if was, ok := before.times[cpu]; ok { // otherwise it came online during the run
			// The kernel may report slightly less than before (proc(5) about iowait).
			all += max(0, t.all-was.all)
			busy += max(0, t.busy-was.busy)
			steal += max(0, t.steal-was.steal)
		}
	}
	why := ""
	switch err := cmp.Or(before.noTimes, after.noTimes); {
	case err != nil:
		why = reason(err)
	case all == 0 && after.at.Sub(before.at) > time.Second/2:
		why = "the kernel's CPU times stand still, as those of a sandbox do"
	case all < fewTicks:
		why = "the run was too short for the kernel's CPU times"
	}
	if why != "" {
		i.Missing["steal_ratio"], i.Missing["foreign_cpu_ratio"] = why, why
		return
	}
	stolen := steal / all
	i.StealRatio = &stolen
	if i.HarnessCPU == nil {
		i.Missing["foreign_cpu_ratio"] = i.Missing["harness_cpu_seconds"]
		return
	}
	foreign := max(0, busy-(own+*i.HarnessCPU)*machine.TicksPerSecond) / all
	i.ForeignCPU = &foreign
}

func (w *Watcher) frequency(i *result.Interference) {
	const field = "cpu_hertz"
	if w.sampler == nil {
		i.Missing[field] = "blind: " + w.blind
		return
	}
	spread := Spread(w.sampler.finish())
	w.sampler = nil
	switch {
	case spread == nil:
		i.Missing[field] = "blind: no frequency could be read during the run"
	case w.speeds.guest && spread.Min == spread.Max:
		i.Missing[field] = "blind: a constant, which in a virtual machine is not a measurement"
	default:
		i.Frequency = spread
	}
}

// readCounters reads all counters.
func (w *Watcher) readCounters() snapshot {
	s := snapshot{at: w.h.Now()}
	s.times, s.noTimes = readTimes(w.h)
	s.self.value, s.self.err = ownCPU(w.h)
	s.swap.value, s.swap.err = swapped(w.h)
	s.stall.value, s.stall.err = stalled(w.h)
	s.load.value, s.load.err = load(w.h)
	var ok bool
	switch {
	case w.noGroups != nil:
		s.quota.err = w.noGroups
	default:
		if s.quota.value, ok, s.quota.err = w.groups.Throttled(); s.quota.err == nil && !ok {
			s.quota.err = errors.New("no cgroup counts throttling")
		}
	}
	if len(w.throttles) == 0 {
		s.overheat.err = errors.New("no thermal_throttle below " + path.Clean(cpuDir) + " (usual in a virtual machine)")
	}
	for _, f := range w.throttles {
		v, err := w.h.ReadUint(f)
		s.overheat.value += float64(v)
		s.overheat.err = cmp.Or(s.overheat.err, err)
	}
	return s
}

// times are the CPU times of one CPU since boot, in ticks.
type times struct{ all, busy, steal float64 }

// readTimes reads /proc/stat. Guests' time is part of user time. A CPU with a bad cell is left out; what else is wrong
// there does not matter.
func readTimes(h *host.Host) (map[int]times, error) {
	b, err := h.ReadFile("/proc/stat")
	if err != nil {
		return nil, err
	}
	out := map[int]times{}
	err = machine.ParseStat(b, func(c machine.CPUTimes) {
		var t times
		for i, mode := range machine.CPUModes {
			n := float64(c.Ticks[i])
			switch mode {
			case "guest", "guest_nice":
				continue
			case "steal":
				t.steal = n
			case "idle", "iowait":
			default:
				t.busy += n
			}
			t.all += n
		}
		if c.Whole {
			out[c.CPU] = t
		}
	}, nil)
	if len(out) == 0 {
		return nil, cmp.Or(err, errors.New("parse /proc/stat: no line of a CPU"))
	}
	return out, nil
}

// ownCPU returns the CPU time of this process in seconds, without its children.
func ownCPU(h *host.Host) (float64, error) {
	const file = "/proc/self/stat"
	text, err := h.ReadString(file)
	if err != nil {
		return 0, err
	}
	return machine.ProcessSeconds(file, text)
}

// swapped returns the number of pages swapped in and out since boot.
func swapped(h *host.Host) (float64, error) {
	text, err := h.ReadString("/proc/vmstat")
	if err != nil {
		return 0, err
	}
	sum, found := 0.0, 0
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) == 2 && slices.Contains([]string{"pswpin", "pswpout"}, f[0]) {
			n, err := machine.ParseCount(f[1])
			if err != nil {
				return 0, fmt.Errorf("parse /proc/vmstat: %s: %w", f[0], err)
			}
			sum += float64(n)
			found++
		}
	}
	if found != 2 {
		return 0, errors.New("/proc/vmstat has no pswpin and pswpout: a kernel without swap")
	}
	return sum, nil
}

// stalled returns the time in microseconds for which some task waited for memory (Documentation/accounting/psi.rst).
func stalled(h *host.Host) (float64, error) {
	text, err := h.ReadString("/proc/pressure/memory")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(text) {
		if _, v, ok := strings.Cut(line, " total="); ok && strings.HasPrefix(line, "some ") {
			n, err := machine.ParseCount(strings.TrimSpace(v))
			if err != nil {
				return 0, fmt.Errorf("parse /proc/pressure/memory: %w", err)
			}
			return float64(n), nil
		}
	}
	return 0, errors.New("parse /proc/pressure/memory: no line \"some\"")
}

// load returns the average number of tasks that wanted a CPU over the last minute.
func load(h *host.Host) (float64, error) {
	text, err := h.ReadString("/proc/loadavg")
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(text, " ")
	v, err := strconv.ParseFloat(first, 64)
	if err != nil || !(v >= 0 && v < 1e9) {
		return 0, fmt.Errorf("parse /proc/loadavg: %q", first)
	}
	return v, nil
}
