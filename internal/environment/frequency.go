package environment

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/contain"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/machine"
	"github.com/teescope/teescope/internal/result"
)

// most is the largest number of CPUs whose frequency is read at once, if each needs a read.
const most = 8

// speeds reads the frequency of the busy CPUs. Idle ones would show the governor's idle
// state, not the run.
type speeds struct {
	*host.Host
	files bool // scaling_cur_freq of each CPU; else /proc/cpuinfo for all
	guest bool
	every time.Duration // interval of the readings
}

// findSpeeds chooses the source, or returns why there is none. On x86 both sources are the mean of APERF/MPERF over
// the last tick if the CPU shows these registers (kernel arch/x86/kernel/cpu/aperfmperf.c). Without them the "cpu
// MHz" of /proc/cpuinfo is the calibrated clock of the time stamp counter: a constant that says nothing about the
// run, and the value that virtual machines show. On other architectures scaling_cur_freq is what the cpufreq driver
// reads or last set.
func findSpeeds(h *host.Host) (*speeds, string) {
	text, _ := machine.ReadCPUInfo(h)
	info := text.First().Map()
	flags := strings.Fields(info["flags"])
	s := &speeds{Host: h, guest: slices.Contains(flags, "hypervisor") || machine.Guest(h), every: time.Second}
	files, _ := h.Glob(cpuDir + "cpu[0-9]*/cpufreq/scaling_cur_freq")
	switch {
	case len(files) > 0:
		s.files = true
		return s, ""
	case slices.Contains(flags, "aperfmperf") && info["cpu MHz"] != "":
		return s, ""
	case s.guest:
		return nil, "the hypervisor does not show this virtual machine the CPU's frequency (no cpufreq driver, no APERF and MPERF)"
	}
	return nil, "no cpufreq driver, and no APERF and MPERF"
}

// read returns the frequencies in hertz of the CPUs that were busy at least half
// of the time between two readings of their times, or of the busiest.
func (s *speeds) read(before, now map[int]times) []float64 {
	var busy []int
	best, share := -1, 0.0
	for cpu, t := range now {
		was := before[cpu]
		all := t.all - was.all
		if all <= 0 {
			continue
		}
		r := (t.busy - was.busy) / all
		if r >= 0.5 {
			busy = append(busy, cpu)
		}
		if r > share {
			best, share = cpu, r
		}
	}
	slices.Sort(busy)
	if len(busy) == 0 && best >= 0 {
		busy = []int{best}
	}
	if !s.files {
		return s.listed(busy)
	}
	var out []float64
	for _, cpu := range busy[:min(len(busy), most)] {
		khz, err := s.ReadUint(fmt.Sprintf("%scpu%d/cpufreq/scaling_cur_freq", cpuDir, cpu))
		if err == nil && khz > 0 {
			out = append(out, float64(khz)*1e3)
		}
	}
	return out
}

// listed reads /proc/cpuinfo once for all CPUs.
func (s *speeds) listed(cpus []int) []float64 {
	if len(cpus) == 0 {
		return nil
	}
	info, _ := machine.ReadCPUInfo(s.Host)
	var out []float64
	for cpu, hertz := range info.Hertz() {
		if slices.Contains(cpus, cpu) {
			out = append(out, hertz)
		}
	}
	return out
}

// sampler reads frequencies at intervals until it is ended.
type sampler struct {
	stop chan struct{}
	out  chan []float64
}

func (s *speeds) start(before map[int]times) *sampler {
	a := &sampler{stop: make(chan struct{}), out: make(chan []float64)}
	go func() {
		tick := time.NewTicker(s.every)
		defer tick.Stop()
		var all []float64
		more := func() {
			_ = contain.Call("reading frequencies", func() error { // fewer readings
				now, err := readTimes(s.Host)
				if err == nil {
					all = append(all, s.read(before, now)...)
					before = now
				}
				return err
			})
		}
		for {
			select {
			case <-tick.C:
				more()
			case <-a.stop:
				if len(all) == 0 { // a run shorter than that
					more()
				}
				a.out <- all
				return
			}
		}
	}()
	return a
}

// finish stops the readings, waits for the goroutine and returns the results.
func (a *sampler) finish() []float64 {
	close(a.stop)
	return <-a.out
}

// Spread describes readings; nil for none.
func Spread(x []float64) *result.Spread {
	if len(x) == 0 {
		return nil
	}
	sum, squares := 0.0, 0.0
	for _, v := range x {
		sum += v
	}
	mean := sum / float64(len(x))
	for _, v := range x {
		squares += (v - mean) * (v - mean)
	}
	s := &result.Spread{Min: slices.Min(x), Mean: mean, Max: slices.Max(x), N: len(x)}
	if len(x) > 1 && mean != 0 {
		s.CV = math.Sqrt(squares/float64(len(x)-1)) / mean
	}
	return s
}
