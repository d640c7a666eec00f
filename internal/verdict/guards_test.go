package verdict

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/stats"
	"github.com/teescope/teescope/internal/tee"
)

// trial is an experiment, how it is concluded, and the guard's expected message.
type trial struct {
	lab     *lab
	o       Options
	says    string // part of a message; "" for silence
	level   result.Level
	verdict stats.Verdict // of the first primary comparison
}

// trials has for every guard one case where it speaks, one where it is silent, and one where it cannot check and must
// say so. always is why a guard has no such case.
type trials struct {
	speaks          []trial
	silent, unknown *trial
	always          string
}

func one(l *lab, says string) *trial { return &trial{lab: l, says: says} }

// credit gives a run twelve windows, the first of them above a limit, whose height changes from run to run by a factor.
func credit(above int, change float64) func(*result.Run) {
	return func(r *result.Run) {
		level := 100 * math.Pow(change, float64(r.Pair))
		w := &result.Warmup{Steady: true, Width: 1}
		for i := range 12 {
			v := level * (1 + 0.01*float64(i%3))
			if i < above {
				v = 3 * level
			}
			w.Windows = append(w.Windows, v)
		}
		r.Warmup = w
	}
}

// TestFall: what is a provider's limit and what is not.
func TestFall(t *testing.T) {
	for name, c := range map[string]struct {
		windows []float64
		at      float64 // 0: none
	}{
		"credit used up":     {[]float64{30, 31, 30, 10, 10, 10, 10, 10}, 3},
		"a warm-up":          {[]float64{1, 2, 5, 10, 10, 10, 10, 10}, 0},
		"one slow window":    {[]float64{10, 10, 3, 10, 10, 10, 10, 10}, 0},
		"one fast window":    {[]float64{30, 10, 10, 10, 10, 10, 10, 10}, 0},
		"a slow fall":        {[]float64{30, 27, 24, 21, 18, 15, 12, 9}, 0},
		"noise after a fall": {[]float64{30, 30, 30, 10, 14, 8, 12, 10}, 0},
		"a small fall":       {[]float64{11, 11, 11, 10, 10, 10, 10, 10}, 0},
		"nothing":            {[]float64{9, 9, 9, 0, 0, 0, 0, 0}, 0},
		"too short":          {[]float64{30, 30, 10, 10, 10}, 0},
		"no windows":         {nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			f, ok := fallOf(&result.Warmup{Windows: c.windows, Width: 1})
			if ok != (c.at > 0) || ok && f != (fall{30, 10, c.at}) {
				t.Errorf("%s: %+v, %v", name, f, ok)
			}
		})
	}
	if _, ok := fallOf(nil); ok {
		t.Error("a run without windows")
	}
}

// blindDisk are runs of 4 KiB each whose second arm has no view of the block layer, with the bytes that the machine's disks moved for
// each operation.
func blindDisk(base, treat float64, hosts ...string) *lab {
	l := latency().also("native", "block_layer_ratio", "ratio", "none", 1).also("", "read_bytes_per_second", "bytes_per_second", "none", 4096).also("", "read_operations_per_second", "operations_per_second", "none", 1)
	for i, moved := range []float64{base, treat} {
		l.env(i, func(e *result.Environment) { e.Hardware.Serial = hosts[i] }).each(l.Environments[i].ID, func(r *result.Run) {
			r.Counters = append(r.Counters, result.Counter{Name: "tee_block_bytes_total", Labels: map[string]string{"device": "vda", "operation": "read"}, Value: &moved, PerOperation: &moved, Scope: "machine", Trust: result.Partial})
		})
	}
	return l
}

// latency returns a lower-is-better twin of redis(), a third slower.
func latency(arms ...string) *lab {
	l := newLab("latency_seconds", "seconds", "lower", arms...)
	for i, e := range l.Environments {
		l.add("default", e.ID, 10, 85e-6*(1+float64(i)/3), 0.01)
	}
	return l
}

func (l *lab) ceiling(metric, env string, v float64, source string) *lab {
	l.Design.Ceilings = append(l.Design.Ceilings, result.Ceiling{Metric: metric, Env: env, Value: v, Source: source})
	return l
}

func (l *lab) env(i int, f func(*result.Environment)) *lab { f(&l.Environments[i]); return l }

// sweep runs cases of a parameter in both arms, with one value for each.
func sweep(l *lab, param string, xs []int, values map[string][]float64) *lab {
	for i, x := range xs {
		for _, env := range l.Environments {
			l.add(fmt.Sprintf("%s=%d", param, x), env.ID, 8, values[env.ID][i], 0.001)
		}
	}
	return l
}

func floorOf(l *lab, f Floor) *NoiseFloor {
	return &NoiseFloor{Host: "host-1", Workload: l.Workload.Name, Version: l.Workload.Version, Metric: l.Design.Primary,
		Cases: map[string]Floor{"sha256:" + l.Cases[0].ID: f}}
}

var guardTrials = map[string]trials{
	"missing-metric": {
		speaks: []trial{
			{latency().each("gramine-sgx", func(r *result.Run) { r.Metrics[0].Value, r.Metrics[0].Reason = nil, "the output does not have it" }), Options{},
				"no run in gramine-sgx has latency_seconds: the output does not have it", result.Refuse, stats.Invalid},
			{latency().each("native", func(r *result.Run) { *r.Metrics[0].Value = 0 }), Options{}, "is 0 s: a ratio needs values above 0", result.Refuse, stats.Invalid},
			{func() *lab { l := latency(); l.Design.Primary = "typo"; return l }(), Options{}, `the primary metric "typo" is not declared`, result.Refuse, stats.Invalid},
		},
		silent: one(latency(), ""),
		always: "a document says itself what it holds",
	},
	"different-job": {
		speaks: []trial{{latency().each("gramine-sgx", func(r *result.Run) { r.OutputDigest = "sha256:other" }), Options{},
			"native gave sha256:answer, gramine-sgx gave sha256:other", result.Refuse, stats.Invalid},
			{latency().each("gramine-sgx", func(r *result.Run) { r.OutputDigest = "sha256:0123456789abcdef TLS_CHACHA20" }), Options{},
				"native gave sha256:answer, gramine-sgx gave sha256:0123456789ab TLS_CHACHA20", result.Refuse, stats.Invalid},
			{latency().each("native", func(r *result.Run) { r.OutputDigest = fmt.Sprint("n=", r.Pair%2) }), Options{}, "runs of one arm did different work", result.Refuse, stats.Invalid},
			{latency().each("gramine-sgx", func(r *result.Run) {
				if r.OutputDigest = "sha256:other"; r.Pair == 3 {
					r.OutputDigest = ""
				}
			}), Options{}, "gramine-sgx gave sha256:other", result.Refuse, stats.Invalid}},
		silent:  one(latency(), ""),
		unknown: one(latency().each("native", func(r *result.Run) { r.OutputDigest = "" }), "10 of 20 runs"),
	},
	"several-dimensions": {
		speaks: []trial{
			{latency().env(1, func(e *result.Environment) { e.Software.Kernel = "6.8" }), Options{}, `kernel (software.kernel "" / 6.8)`, result.Warn, stats.Cost},
			{func() *lab {
				l := latency("base", "head")
				l.Design.Subject = "binary"
				return l.env(1, func(e *result.Environment) {
					e.Launcher, e.Subject["binary"], e.Software.Kernel = "base", "./b", "6.8"
				})
			}(), Options{}, "base and head also differ in kernel", result.Refuse, stats.Invalid},
			{func() *lab { l := latency(); l.Design.Subject = "binary+environment"; return l }(), Options{}, "more than one thing: binary+environment", result.Warn, stats.Cost},
		},
		silent:  one(latency(), ""),
		unknown: one(latency().env(1, func(e *result.Environment) { e.Missing = map[string]string{"hardware.microcode": "no /proc/cpuinfo"} }), "hardware.microcode"),
	},
	"changed-meanwhile": {
		speaks: []trial{{latency().env(1, func(e *result.Environment) {
			e.Changed = map[string]string{"software.clock_source": `"tsc" before the runs, "hpet" after`}
		}), Options{}, `gramine-sgx changed during the experiment: software.clock_source was "tsc" before the runs, "hpet" after`, result.Refuse, stats.Invalid}},
		silent: one(latency(), ""),
		always: "the engine looks twice, and fails when it cannot",
	},
	"spec-value": {
		speaks: []trial{{latency().each("native", func(r *result.Run) { r.Metrics[0].Source = result.VendorSpec }), Options{}, "in 10 runs) is presented as a measurement but comes from vendor_spec", result.Refuse, stats.Invalid}},
		silent: one(latency(), ""),
		unknown: one(latency().each("native", func(r *result.Run) { r.Metrics[0].Source = "" }),
			"has no stated origin"),
	},
	"tee-evidence": {
		speaks: []trial{{latency().env(1, func(e *result.Environment) { e.TEE.Evidence = nil }), Options{},
			"gramine-sgx is declared to run in sgx, but nothing shows that sgx was on", result.Refuse, stats.Invalid},
			{latency().env(1, func(e *result.Environment) { e.TEE.Active = false }), Options{}, "nothing shows", result.Refuse, stats.Invalid}},
		silent: one(latency().env(1, func(e *result.Environment) {
			e.TEE.Evidence, e.TEE.Facts = nil, []tee.Facts{{Kind: "sgx", Role: tee.Guest, Active: true}}
		}), ""),
		unknown: one(latency().env(1, func(e *result.Environment) {
			e.TEE, e.Missing = result.TEE{Type: "unknown"}, map[string]string{"tee": "cannot read the environment from inside: no answer"}
		}), "whether gramine-sgx runs in a TEE: cannot read the environment from inside: no answer"),
	},
	"tee-in-baseline": {
		speaks: []trial{
			{latency("qemu", "qemu-sgx").env(0, func(e *result.Environment) {
				e.Launcher, e.TEE = "qemu-sgx", result.TEE{Type: "sgx", Active: true, Evidence: []tee.Evidence{{Source: "quote"}}}
			}), Options{}, "although one should run without it", result.Refuse, stats.Invalid},
			{latency("native", "runsc").env(0, func(e *result.Environment) {
				e.TEE = result.TEE{Type: "tdx", Active: true, Evidence: []tee.Evidence{{Source: "CPUID"}}}
			}), Options{}, "the baseline native runs in tdx, so the ratio is not the cost of tdx", result.Warn, stats.Cost},
		},
		silent:  one(latency(), ""),
		unknown: one(latency().env(0, func(e *result.Environment) { e.TEE.Type = "unknown" }), "whether the baseline native runs in a TEE"),
	},
	"tee-debug": {
		speaks: []trial{{latency().env(1, func(e *result.Environment) { e.TEE.Debug = true }), Options{}, "gramine-sgx runs in sgx in debug mode, so it is not protected", result.Refuse, stats.Invalid},
			{func() *lab {
				l := latency("old-sgx", "new-sgx")
				l.Design.Subject = "binary"
				return l.env(0, func(e *result.Environment) { e.Launcher, e.TEE.Debug = "new-sgx", true }).env(1, func(e *result.Environment) { e.TEE.Debug = true })
			}(), Options{}, "neither represents production", result.Warn, stats.Cost}},
		silent:  one(latency(), ""),
		unknown: one(latency().env(1, func(e *result.Environment) { e.TEE.Evidence = nil }), "is in debug mode"),
	},
	"emulated": {
		speaks: []trial{{latency().env(1, func(e *result.Environment) {
			e.TEE.Settings = map[string]string{"accelerator": "tcg: software emulation"}
		}), Options{},
			"gramine-sgx is emulated in software", result.Warn, stats.Cost}},
		silent: one(latency().env(1, func(e *result.Environment) { e.TEE.Settings = map[string]string{"accelerator": "kvm"} }), ""),
		always: "a launcher that emulates knows it",
	},
	"made-up": {
		speaks: []trial{{latency().env(1, func(e *result.Environment) {
			e.TEE.Settings = map[string]string{"measures": "nothing: durations are made up"}
		}), Options{}, "gramine-sgx measures nothing", result.Warn, stats.Cost}},
		silent: one(latency(), ""),
		always: "the fake launcher says so itself",
	},
	"stand-in": {
		speaks: []trial{{latency().env(1, func(e *result.Environment) { e.StandsFor = "sgx" }), Options{},
			"and only stands in for sgx", result.Warn, stats.Cost}},
		silent: one(latency(), ""),
		always: "the experiment declares it, and the name of a metric says that its device is simulated",
	},
	"too-few-pairs": {
		speaks: []trial{{newLab("s", "seconds", "lower").add("default", "native", 5, 1, 0.01).add("default", "gramine-sgx", 5, 2, 0.01), Options{},
			"only 5 valid pairs; at least 6 are needed", result.Warn, stats.Inconclusive},
			{newLab("s", "seconds", "lower").add("default", "native", 5, 1, 0.01), Options{}, "no pair has a value in both native and gramine-sgx", result.Refuse, stats.Invalid}},
		silent: one(newLab("s", "seconds", "lower").add("default", "native", 6, 1, 0.01).add("default", "gramine-sgx", 6, 2, 0.01), ""),
		always: "pairs can be counted",
	},
	"failed-runs": {
		speaks: []trial{{latency().each("gramine-sgx", func(r *result.Run) {
			if r.Pair == 3 {
				r.Status, r.Reason, r.Metrics[0].Value = result.Failed, "killed by signal 9", nil
			}
		}), Options{}, "1 of 10 runs in gramine-sgx gave no value; reason of the last failure: killed by signal 9", result.Warn, stats.Cost},
			{latency().each("gramine-sgx", func(r *result.Run) {
				if r.Pair < 3 {
					r.Status, r.Reason = result.Failed, "timeout"
				}
			}), Options{}, "3 of 10 runs", result.Warn, stats.Inconclusive}},
		silent: one(latency(), ""),
		always: "the status of a run is always there",
	},
	"no-steady-state": {
		speaks: []trial{{latency().each("native", func(r *result.Run) { r.Warmup = &result.Warmup{Steady: r.Pair > 7} }), Options{},
			"8 of 10 runs in native reached no steady state", result.Refuse, stats.Invalid},
			{latency().each("native", func(r *result.Run) { r.Warmup = &result.Warmup{Steady: r.Pair > 1} }), Options{}, "are left out: they reached no steady state", result.Warn, stats.Cost}},
		silent:  one(latency().each("", func(r *result.Run) { r.Warmup = &result.Warmup{Steady: true} }), ""),
		unknown: one(latency().each("", func(r *result.Run) { r.Missing = map[string]string{"warmup": "no log of windows"} }), "whether the runs in native reached a steady state: no log of windows"),
	},
	"disturbed": {
		speaks: []trial{
			{latency().each("native", func(r *result.Run) {
				if v := 0.25; r.Pair == 3 {
					r.Interference.StealRatio = &v
				}
			}), Options{}, "1 of 10 pairs of gramine-sgx against native were disturbed: pair 3 (native: 25 % steal); they are set aside", result.Warn, stats.Cost},
			{latency().each("gramine-sgx", func(r *result.Run) { v := 0.3; r.Interference.ForeignCPU = &v }), Options{}, "is typically 0 % in native and 30 % in gramine-sgx, which may slow a run by a factor of up to 1.43; this does not cancel", result.Warn, stats.Inconclusive},
			{latency().each("", func(r *result.Run) { v := 0.3; r.Interference.ForeignCPU = &v }), Options{}, "all pairs are used", result.Warn, stats.Cost},
			{latency().each("", func(r *result.Run) { v := 0.7; r.Interference.ForeignCPU = &v }), Options{}, "a factor of up to 3.33; this does not cancel", result.Warn, stats.Inconclusive},
			{redis().each("", func(r *result.Run) { v := 0.6; r.Interference.ForeignCPU = &v }), Options{}, "a factor of up to 2.5; the interval is beyond that factor", result.Warn, stats.Cost},
			{latency().each("gramine-sgx", func(r *result.Run) {
				v := 120.0
				r.Counters = []result.Counter{{Name: "tee_sgx_epc_pages_evicted_total", Value: &v}}
			}), Options{}, "1,200 EPC pages were evicted in 10 runs", result.Warn, stats.Cost},
		},
		silent:  one(latency(), ""),
		unknown: one(latency().each("native", func(r *result.Run) { r.Interference.StealRatio = nil }), "whether runs in native were disturbed by steal by the host"),
	},
	"clock-source": {
		speaks: []trial{{latency().each("gramine-sgx", func(r *result.Run) {
			if r.Pair > 5 {
				r.Clock = "hpet"
			}
		}), Options{}, "timed by different clocks: tsc, hpet", result.Refuse, stats.Invalid},
			{latency().env(0, func(e *result.Environment) { e.Software.ClockSource = "tsc" }).env(1, func(e *result.Environment) { e.Software.ClockSource = "hyperv" }), Options{},
				"native reads the clock source tsc, and gramine-sgx reads hyperv", result.Warn, stats.Cost},
			{latency().also("", "clock_disagreement_ratio", "ratio", "lower", 0.2), Options{}, "the clock in native and teescope's clock disagree by 20 %", result.Warn, stats.Inconclusive},
			{latency().also("native", "clock_disagreement_ratio", "ratio", "lower", 0.01), Options{}, "not checked: whether the clock in gramine-sgx agrees", result.Note, stats.Cost}},
		silent:  one(latency(), ""),
		unknown: one(latency().each("native", func(r *result.Run) { r.Clock = "" }), "which clock timed 10 runs"),
	},
	"error-rate": {
		speaks: []trial{{counting(latency()).each("gramine-sgx", func(r *result.Run) { r.Errors = map[string]int{"timeout": 20} }), Options{},
			"0 % of the operations failed in native and 2 % in gramine-sgx", result.Refuse, stats.Invalid},
			{counting(latency()).each("", func(r *result.Run) { r.Errors = map[string]int{"timeout": 20} }), Options{}, "2 %", result.Warn, stats.Cost}},
		silent:  one(counting(latency()).each("native", func(r *result.Run) { r.Errors = map[string]int{"timeout": 1} }), ""),
		unknown: one(latency().each("native", func(r *result.Run) { r.Errors = map[string]int{"timeout": 1} }), "there were 10 errors in native and 0 in gramine-sgx"),
	},
	"outliers": {
		speaks: []trial{{latency().each("native", func(r *result.Run) {
			if r.Pair == 4 {
				*r.Metrics[0].Value *= 1.2
			}
		}), Options{}, "run p04-default-native has 102 µs", result.Warn, stats.Cost},
			{latency().each("native", func(r *result.Run) {
				if r.Pair == 4 {
					*r.Metrics[0].Value *= 1.08
				}
			}), Options{}, "run p04-default-native", result.Note, stats.Cost}},
		silent: one(newLab("s", "seconds", "lower").add("default", "native", 10, 1, 0).add("default", "gramine-sgx", 10, 2, 0), ""),
		always: "with fewer than 6 runs too-few-pairs speaks",
	},
	"bimodal": {
		speaks: []trial{{modes(latency(), "gramine-sgx"), Options{}, "has two modes", result.Warn, stats.Inconclusive},
			{modes(modes(latency(), "native"), "gramine-sgx"), Options{}, "has two modes", result.Warn, stats.Cost}},
		silent: one(latency(), ""),
		unknown: one(newLab("s", "seconds", "lower").add("default", "native", 6, 1, 0.01).add("default", "gramine-sgx", 6, 2, 0.01),
			"whether default in native has two modes"),
	},
	"impossible-value": {
		speaks: []trial{{latency().ceiling("latency_seconds", "native", 1e-3, "one turn of the disk"), Options{},
			"in native is 85", result.Refuse, stats.Invalid}},
		silent: one(latency(), ""),
		always: "a ceiling that is not given is not known of",
	},
	"saturated": {
		speaks: []trial{
			{redis().ceiling("requests_per_second", "native", 102e3, "NIC eth0"), Options{}, "native reached the ceiling", result.Warn, stats.Cost},
			{redis().ceiling("requests_per_second", "gramine-sgx", 33e3, "quota"), Options{}, "gramine-sgx reached the ceiling", result.Warn, stats.Inconclusive},
			{newLab("x_per_second", "bytes_per_second", "higher").add("default", "native", 8, 118e6, 0.001).add("default", "gramine-sgx", 8, 117e6, 0.001).ceiling("x_per_second", "", 125e6, "NIC eth0"), Options{}, "both native and gramine-sgx reached the ceiling", result.Refuse, stats.Invalid},
		},
		silent: &trial{lab: redis().ceiling("requests_per_second", "", 1e6, "NIC eth0")},
		always: "a ceiling that is not given is not known of",
	},
	"throttled": {
		speaks: []trial{
			{redis().each("native", credit(4, 1)), Options{}, "in 10 of 10 runs of op=get in native, requests per second fell from 300", result.Note, stats.Cost},
			{redis().each("native", credit(4, 1)), Options{}, "native was throttled in op=get: the ratio is a bound", result.Warn, stats.Cost},
			{redis().each("gramine-sgx", credit(4, 1)), Options{}, "gramine-sgx was throttled in op=get: the ratio is a bound", result.Warn, stats.Inconclusive},
			{redis().each("", credit(4, 1)), Options{}, "both native and gramine-sgx were throttled", result.Refuse, stats.Invalid},
			{redis().ceiling("requests_per_second", "native", 102e3, "NIC eth0").each("gramine-sgx", credit(4, 1)), Options{},
				"gramine-sgx was throttled in op=get, and a limit was found in the other arm too", result.Refuse, stats.Invalid},
		},
		silent: one(redis().each("native", credit(10, 1)).each("gramine-sgx", credit(4, 0.9)), ""),
		always: "a run without windows is one number, and shows no fall",
	},
	"cache-answered": {
		speaks: []trial{{latency().also("native", "fio_block_layer_ratio", "ratio", "none", 0.03).also("gramine-sgx", "fio_block_layer_ratio", "ratio", "none", 1), Options{},
			"a cache answered for native: the devices saw 3 % of the requests in native and 100 % in gramine-sgx", result.Refuse, stats.Invalid},
			{latency().also("", "block_layer_ratio", "ratio", "none", 0.5), Options{}, "in both arms", result.Warn, stats.Cost},
			{blindDisk(4096, 12, "h", "h"), Options{}, "a cache answered for gramine-sgx: the devices saw 100 % of the requests in native and 0.293 % in gramine-sgx", result.Refuse, stats.Invalid}},
		silent:  one(latency().also("", "block_layer_ratio", "ratio", "none", 1.02), ""),
		unknown: one(latency().also("native", "block_layer_ratio", "ratio", "none", 1), "the block layer of gramine-sgx was not measured"),
	},
	"client-limited": {
		speaks: []trial{{latency().also("native", "client_cpu_ratio", "ratio", "none", 0.97).also("gramine-sgx", "client_cpu_ratio", "ratio", "none", 0.5), Options{},
			"97 % of its CPUs were busy", result.Refuse, stats.Invalid},
			{latency().also("", "load_late_ratio", "ratio", "none", 0.05), Options{}, "5 % of the requests were sent late", result.Refuse, stats.Invalid}},
		silent:  one(latency().also("", "load_late_ratio", "ratio", "none", 0.005), ""),
		unknown: one(latency().also("native", "client_cpu_ratio", "ratio", "none", 0.2), "no run has client_cpu_ratio"),
	},
	"retried": {
		speaks: []trial{{latency().also("", "retried_ratio", "ratio", "lower", 0.05), Options{}, "5 % of the requests were sent twice", result.Warn, stats.Cost},
			{latency().also("", "retried_ratio", "ratio", "lower", 0).also("native", "new_connection_ratio", "ratio", "none", 0).also("gramine-sgx", "new_connection_ratio", "ratio", "none", 1), Options{},
				"only one of native and gramine-sgx reused connections", result.Warn, stats.Cost}},
		silent:  one(latency().also("", "retried_ratio", "ratio", "lower", 0.005), ""),
		unknown: one(latency().also("native", "retried_ratio", "ratio", "lower", 0), "no run has retried_ratio"),
	},
	"bottleneck": {
		speaks: []trial{
			{served(redis(), 0.5, 0.4), Options{}, "no resource was used up in op=get in native (all CPUs together 40 %): too few connections", result.Note, stats.Cost},
			{served(redis(), 0.97, 0.6), Options{}, "in gramine-sgx was the CPU time of the server under test: 97 % of its time", result.Note, stats.Cost},
			{served(redis(), 0.5, 0.95), Options{}, "(95 %), and several programs shared the CPUs: server 50 %, origin 30 %, client 20 %", result.Warn, stats.Cost},
			{served(redis(), 0.97, 0.6).also("native", "softirq_busiest_ratio", "ratio", "lower", 0.96), Options{}, "in native was one CPU's soft interrupts (the network): 96 %", result.Warn, stats.Cost},
		},
		silent: one(redis(), ""),
		unknown: one(served(redis(), 0.5, 0.4).also("native", "log_busy_ratio", "ratio", "lower", 0).each("native", func(r *result.Run) {
			r.Metrics[len(r.Metrics)-1] = result.Metric{Name: "log_busy_ratio", Reason: "it does not say"}
		}), "whether writing the log limited the throughput of op=get in native"),
	},
	"suspect-baseline": {
		speaks: []trial{{sweep(newLab("mips", "instructions_per_second", "higher"), "threads", []int{1, 2}, map[string][]float64{"native": {10, 19}, "gramine-sgx": {4, 15}}), Options{},
			"gramine-sgx is 3.75 times as fast with threads=2 as with threads=1, an efficiency of 188 %, so its runs with threads=1 were probably too slow; against native the cost ratio of its medians is 2.5x at threads=1 and 1.27x at 2", result.Warn, stats.Inconclusive}},
		silent: one(sweep(newLab("mips", "instructions_per_second", "higher"), "threads", []int{1, 2}, map[string][]float64{"native": {10, 19}, "gramine-sgx": {8, 15}}), ""),
		always: "a missing value is missing-metric",
	},
	"linearity": {
		speaks: []trial{
			{sweep(newLab("messages_per_second", "messages_per_second", "higher"), "messages", []int{100, 1000}, map[string][]float64{"native": {781, 7815}, "gramine-sgx": {700, 705}}), Options{},
				"10 times the work (messages=100 to 1000) takes 0.999 times the time", result.Refuse, stats.Invalid},
			{sweep(newLab("s", "seconds", "lower"), "loops", []int{1, 2}, map[string][]float64{"native": {1, 1.5}, "gramine-sgx": {2, 4}}), Options{}, "2 times the work", result.Warn, stats.Cost},
			{redis().each("native", func(r *result.Run) { r.Seconds = 0.128 }), Options{}, "is a rate, but a run takes only 128 ms", result.Warn, stats.Cost},
		},
		silent: one(sweep(newLab("s", "seconds", "lower"), "loops", []int{1, 2}, map[string][]float64{"native": {1, 2}, "gramine-sgx": {2, 4}}), ""),
		unknown: one(sweep(newLab("messages_per_second", "messages_per_second", "higher"), "messages", []int{100, 1000}, map[string][]float64{"native": {100, 100}, "gramine-sgx": {50, 50}}).
			each("native", func(r *result.Run) {
				if r.Case == "messages=100" {
					r.Metrics[0].Value = nil
				}
			}), "whether the time of messages_per_second grows"),
	},
	"wide-interval": {
		speaks: []trial{{newLab("s", "seconds", "lower").add("default", "native", 10, 1, 0.1).add("default", "gramine-sgx", 10, 1, 0.1), Options{}, "a cost ratio of 1.012x [0.923, 1.11], with a margin of 3 %; 10 pairs would detect a difference of 13.6 % with a probability of 80 %; 149 pairs in all would probably decide (4 in 5)", result.Note, stats.Inconclusive}},
		silent: one(newLab("s", "seconds", "lower").add("default", "native", 10, 1, 0.001).add("default", "gramine-sgx", 10, 1, 0.001), ""),
		always: "an interval is there or too-few-pairs speaks",
	},
	"noise-floor": {
		speaks: []trial{{func() *lab {
			return newLab("s", "seconds", "lower").add("default", "native", 10, 1, 0.001).add("default", "gramine-sgx", 10, 1.05, 0.001)
		}(), Options{}, "a cost of 1.050x is within the noise floor of 6 %, which 20 pairs of identical arms showed", result.Warn, stats.Inconclusive}},
		silent:  one(latency(), ""),
		unknown: one(latency(), "there is no A/A calibration of this host and job"),
	},
	"same-host-client": {
		speaks: []trial{{func() *lab { l := latency(); l.Design.Client = result.SameHost; return l }(), Options{},
			"the load generator ran on the same machine as the servers", result.Note, stats.Cost},
			{func() *lab {
				l := latency().env(1, func(e *result.Environment) { e.Boot, e.Clock = "b", &result.ClockOffset{} })
				l.Design.Client = result.SameHost
				return l
			}(), Options{}, "the load generator ran on the same machine as the servers of native", result.Note, stats.Cost},
			{inPod("same"), Options{}, "the load generator ran on the same machine as the servers of gramine-sgx", result.Note, stats.Cost},
			{func() *lab { l := inPod("other"); l.Design.Client += "; " + result.SameHost; return l }(), Options{},
				"the load generator ran on the same machine as the servers of native", result.Note, stats.Cost}},
		silent:  one(inPod("other"), ""),
		unknown: one(inPod("any"), "whether the load of gramine-sgx ran on the node of its servers"),
	},
	"machine-clocks": {
		speaks: []trial{
			{latency().env(1, func(e *result.Environment) { e.Clock = &result.ClockOffset{Seconds: 3600.2, Uncertainty: 0.01} }), Options{},
				"the clock of gramine-sgx is 1h0m0.2s ahead of teescope's clock", result.Warn, stats.Cost},
			{latency().env(1, func(e *result.Environment) { e.Clock = &result.ClockOffset{Seconds: -3600.2, Uncertainty: 0.5} }), Options{},
				"behind teescope's clock", result.Warn, stats.Cost},
			{func() *lab {
				l := latency()
				l.Design.Client, l.Design.ClientClock = "ssh:client", &result.ClockOffset{Seconds: 3600}
				return l
			}(), Options{}, "the clock of ssh:client is", result.Warn, stats.Cost},
		},
		silent:  one(latency().env(1, func(e *result.Environment) { e.Clock = &result.ClockOffset{Seconds: 1.4, Uncertainty: 0.5} }), ""),
		unknown: one(latency().env(1, func(e *result.Environment) { e.Boot = "b" }), "whether the clock of gramine-sgx agrees with teescope's clock"),
	},
	"other-platform": {
		speaks: []trial{{latency().env(1, func(e *result.Environment) { e.Hardware.Serial, e.Class = "host-2", "other" }), Options{},
			"grade D and is called a platform difference", result.Note, stats.Cost}},
		silent: one(latency(), ""),
		unknown: one(latency().env(1, func(e *result.Environment) {
			e.Hardware.Serial, e.Missing = "", map[string]string{"hardware.host_id": "no /etc/machine-id"}
		}), "whether gramine-sgx ran on the same host: no /etc/machine-id"),
	},
}

// inPod has a treatment in a pod, with a load of its own.
func inPod(nodes string) *lab {
	l := latency().env(1, func(e *result.Environment) {
		e.Launcher, e.Params, e.Clock = "pod", map[string]string{"load": "pod", "nodes": nodes}, &result.ClockOffset{}
	})
	l.Design.Client = "a pod of the cluster"
	return l
}

// served sets the use of the CPUs: by the server under test, and in total.
func served(l *lab, server, all float64) *lab {
	return l.also("", "client_cpu_ratio", "ratio", "lower", 0.2).also("", "server_cpu_ratio", "ratio", "lower", server).
		also("", "origin_cpu_ratio", "ratio", "lower", 0.3).also("", "machine_cpu_ratio", "ratio", "lower", all)
}

// counting gives every run a thousand operations.
func counting(l *lab) *lab {
	l.also("", "operations", "operations", "none", 1000)
	l.Workload.Operations = "operations"
	return l
}

// modes multiplies the values of every other run of an arm by 1.5.
func modes(l *lab, env string) *lab {
	return l.each(env, func(r *result.Run) {
		if r.Pair%2 == 0 {
			*r.Metrics[0].Value *= 1.5
		}
	})
}

func TestGuards(t *testing.T) {
	for _, r := range Guards {
		trs, ok := guardTrials[r.ID]
		if !ok {
			t.Errorf("%s: no test where it speaks", r.ID)
			continue
		}
		if r.Doc == "" || r.Help == "" || r.Effect == "" || !strings.HasSuffix(r.Doc, ".") || strings.Trim(r.ID, "abcdefghijklmnopqrstuvwxyz-") != "" {
			t.Errorf("%s: needs a kebab-case id, a doc of sentences, an effect and a help", r.ID)
		}
		check := func(name string, tr trial) {
			t.Run(r.ID+"/"+name, func(t *testing.T) { tr.check(t, r.ID) })
		}
		for i, tr := range trs.speaks {
			if r.ID == "noise-floor" {
				tr.o.Calibration = floorOf(tr.lab, Floor{Paired: 0.06, Pairs: 20})
			}
			check(fmt.Sprintf("speaks-%d", i), tr)
		}
		silent := *trs.silent
		if r.ID == "noise-floor" {
			silent.o.Calibration = floorOf(silent.lab, Floor{Paired: 0.01, Pairs: 20})
		}
		check("silent", silent)
		switch {
		case trs.unknown != nil:
			u := *trs.unknown
			u.level = result.Note
			if r.ID == "spec-value" { // a value without a stated origin is refused
				u.level = result.Refuse
			}
			check("cannot-tell", u)
		case trs.always == "":
			t.Errorf("%s: neither a test where it cannot tell nor a reason why there is none", r.ID)
		}
	}
	if len(guardTrials) != len(Guards) {
		t.Errorf("%d guards, tests for %d", len(Guards), len(guardTrials))
	}
}

// TestDevicesOfBlindArm: the machine's disks decide for an arm without a view of the block layer, but only if they show the other arm's
// bytes and both arms ran on that machine.
func TestDevicesOfBlindArm(t *testing.T) {
	const unchecked = "the block layer of gramine-sgx was not measured"
	trial{lab: blindDisk(4096, 4000, "h", "h")}.check(t, "cache-answered")
	trial{lab: blindDisk(4096, 12, "h", "elsewhere"), says: unchecked, level: result.Note}.check(t, "cache-answered")
	trial{lab: blindDisk(4096, 12, "", ""), says: unchecked, level: result.Note}.check(t, "cache-answered")
	trial{lab: blindDisk(7, 12, "h", "h"), says: unchecked, level: result.Note}.check(t, "cache-answered")
}

// TestDebugNotKnown: a TEE that does not say whether it is open for debugging is not closed.
func TestDebugNotKnown(t *testing.T) {
	l := latency().env(1, func(e *result.Environment) {
		e.Missing = map[string]string{"tee.debug": "not known: its policy is in its report"}
	})
	trial{lab: l, says: "whether gramine-sgx is in debug mode: not known: its policy is in its report", level: result.Note}.check(t, "tee-debug")
}

func (tr trial) check(t *testing.T, id string) {
	l := tr.lab.conclude(tr.o)
	gs := l.spoke(id)
	if tr.says == "" {
		if len(gs) != 0 {
			t.Errorf("it is not silent: %+v", gs)
		}
		return
	}
	i := slices.IndexFunc(gs, func(g result.Guard) bool { return strings.Contains(g.Message, tr.says) })
	if i < 0 {
		t.Fatalf("no guard says %q: %+v", tr.says, gs)
	}
	if unchecked := strings.HasPrefix(gs[i].Message, "not checked: "); gs[i].Level != tr.level || (gs[i].Help == "") != unchecked {
		t.Errorf("level %q, want %q; help %q of %q", gs[i].Level, tr.level, gs[i].Help, gs[i].Message)
	}
	if _, err := json.Marshal(l.Experiment); err != nil {
		t.Error(err) // a value that JSON lacks
	}
	if tr.verdict == "" {
		return
	}
	for _, c := range l.Comparisons {
		if c.Primary || l.Design.Primary == "typo" {
			if c.Verdict != tr.verdict {
				t.Errorf("verdict %q, want %q: %q", c.Verdict, tr.verdict, c.Reasons)
			}
			return
		}
	}
	t.Error("no comparison")
}

// TestFailedAlone: failed runs are said of an environment that was compared with none.
func TestFailedAlone(t *testing.T) {
	l := newLab("s", "seconds", "lower", "native").add("default", "native", 10, 1, 0.01).each("native", func(r *result.Run) {
		if r.Pair == 3 {
			r.Status, r.Reason, r.Metrics[0].Value = result.Failed, "killed by signal 9", nil
		}
	})
	Conclude(l.Experiment, Options{})
	if i := slices.IndexFunc(l.Guards, func(g result.Guard) bool { return g.ID == "failed-runs" }); i < 0 || l.Guards[i].Level != result.Warn ||
		!strings.Contains(l.Guards[i].Message, "1 of 10 runs in native gave no value; reason of the last failure: killed by signal 9") {
		t.Errorf("guards %+v", l.Guards)
	}
}
