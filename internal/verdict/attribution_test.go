package verdict

import (
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/explain"
	"github.com/teescope/teescope/internal/explain/causes"
	"github.com/teescope/teescope/internal/explain/prices"
	"github.com/teescope/teescope/internal/result"
)

// The counters of these tests, written as PromQL does.
const (
	cpuSeconds  = explain.CPUAccount
	waitSeconds = explain.WaitSamples
	syscalls    = explain.CallCount
	switches    = explain.SwitchCount
	pageFaults  = explain.FaultCount
)

var labelled = regexp.MustCompile(`(\w+)="([^"]*)"`)

// catalog holds the prices and causes that attributions use.
var catalog = &explain.Catalog{Prices: prices.Catalog(), Causes: causes.All}

// counted gives all runs of an arm counters of the process app per operation, and the total of each metric; cpu is
// CPU time in seconds.
func (l *lab) counted(env string, cpu float64, counters map[string]float64) *lab {
	return l.each(env, func(r *result.Run) {
		totals := map[string]float64{cpuSeconds: cpu}
		add := func(name string, labels map[string]string, v float64) {
			r.Counters = append(r.Counters, result.Counter{Name: name, Labels: labels, Value: &v, PerOperation: &v, Scope: "process", Trust: result.Full})
		}
		add(cpuSeconds, map[string]string{"process": "app-" + env}, cpu)
		for counter, v := range counters {
			name, _, _ := strings.Cut(counter, "{")
			labels := map[string]string{"process": "app-" + env}
			for _, m := range labelled.FindAllStringSubmatch(counter, -1) {
				labels[m[1]] = m[2]
			}
			totals[name] += v
			add(name, labels, v)
		}
		for _, name := range []string{syscalls, switches, waitSeconds, pageFaults} {
			totals[name] += 0
		}
		for name, v := range totals {
			add(name, nil, v)
		}
	})
}

// TestCause: the largest part of a difference is named with its remedy, also if one arm has none of it.
func TestCause(t *testing.T) {
	costs := &result.UnitCosts{Units: []result.UnitCost{{Event: "syscall", Seconds: 2e-7}, {Event: "switch_same_core", Seconds: 1e-6}, {Event: "fault_write", Seconds: 5e-7}, {Event: "copy_page", Seconds: 2e-7}}}
	faults, entries := explain.EnclaveFaults, explain.EnclaveEntries+`{runtime="gramine"}`
	bounced := explain.BouncedBytes + `{device="vda"}`
	inTask, inInterrupt := explain.BounceTime+`{context="task",operation="map"}`, explain.BounceTime+`{context="interrupt",operation="sync"}`
	read := syscalls + `{syscall="read"}`
	converted, exceptions := explain.Conversions+`{direction="to_shared"}`, explain.GuestExceptions+`{kind="tdx",reason="wrmsr"}`
	for _, c := range []struct {
		name        string
		cost        float64 // of the treatment
		base, treat map[string]float64
		cpu         [2]float64
		unexplained float64
		tee         bool     // the TEE is what is explained
		want        []string // words of the sentence; none if there is no sentence
	}{
		{"clock", 2, map[string]float64{read: 1}, map[string]float64{read: 1, syscalls + `{syscall="clock_gettime"}`: 16}, [2]float64{10e-6, 14e-6}, 0.2, false,
			[]string{"In gramine-sgx, at least 80 % of the extra time of an operation goes into asking the kernel for the time", "+16 clock_gettime per operation at 200 ns", "vDSO usable ("}},
		{"lock", 2, map[string]float64{read: 1}, map[string]float64{read: 1, syscalls + `{syscall="futex"}`: 3, switches + `{kind="voluntary"}`: 2, waitSeconds + `{call="futex",state="lock"}`: 20e-6, waitSeconds + `{call="read",state="sleep"}`: 1}, [2]float64{10e-6, 14e-6}, 1.4 / 24, false,
			[]string{"94.2 %", "waiting for locks", "+20 µs asleep in futex per operation, +2 voluntary switches per operation at 1 µs", "hold the lock for less time"}},
		{"wake-ups without locks", 2, map[string]float64{read: 1}, map[string]float64{read: 1, syscalls + `{syscall="futex"}`: 3, switches + `{kind="voluntary"}`: 2}, [2]float64{10e-6, 14e-6}, 0.35, false,
			[]string{"65 %", "putting threads to sleep", "+2 voluntary switches"}},
		{"faults of a gain", 0.5, map[string]float64{pageFaults + `{cause="write",space="user"}`: 10}, map[string]float64{read: 1}, [2]float64{14e-6, 5e-6}, (9 - 5 + 0.2) / 9, false,
			[]string{"In gramine-sgx, 55.6 % of the time that an operation saves went into taking memory from the kernel", "in native (-10 page faults (write) per operation at 500 ns)."}},
		{"bounce buffers", 2, map[string]float64{read: 1, bounced: 0}, map[string]float64{read: 1, bounced: 81920}, [2]float64{10e-6, 14e-6}, 0, true,
			[]string{"100 % of the extra time of an operation goes into copying data through bounce buffers", "+8.19e+04 swiotlb bounced bytes (vda) per operation at"}},
		{"timed bounce buffers", 2, map[string]float64{read: 1, bounced: 0, inTask: 0, inInterrupt: 0}, map[string]float64{read: 1, bounced: 81920, inTask: 1e-6, inInterrupt: 2e-6}, [2]float64{10e-6, 14e-6}, 0.25, true,
			[]string{"75 % of the extra time of an operation goes into copying data through bounce buffers", "+2 µs in bounce buffers (sync, in context interrupt) per operation, +1 µs in bounce buffers (map, in context task) per operation"}},
		{"EPC paging", 2, map[string]float64{faults: 0, explain.EnclavePages + `{operation="loaded_back"}`: 0}, map[string]float64{faults: 0.3, explain.EnclavePages + `{operation="loaded_back"}`: 0.3, explain.EnclaveFaultTime + "_sum": 3e-6, explain.EnclaveFaultTime + "_count": 0.3}, [2]float64{10e-6, 14e-6}, 0.25, true,
			[]string{"75 % of the extra time of an operation goes into loading enclave pages back into the EPC", "+0.3 faults on enclave memory per operation at 10 µs", "fit into the EPC"}},
		{"enclave transitions", 2, map[string]float64{entries: 0}, map[string]float64{entries: 1}, [2]float64{10e-6, 14e-6}, 1 - 0.75*4.2e-6/4e-6, true, nil}, // at its price from literature, which may be the double
		{"conversions", 2, map[string]float64{converted: 0}, map[string]float64{converted: 0.2, explain.ConversionTime + `_sum{direction="to_shared"}`: 3e-6, explain.ConversionTime + `_count{direction="to_shared"}`: 0.2,
			explain.ConversionTime + `_sum{direction="to_private"}`: 1, explain.ConversionTime + `_count{direction="to_private"}`: 1}, [2]float64{10e-6, 14e-6}, 0.25, true,
			[]string{"75 % of the extra time of an operation goes into converting memory between private and shared", "+0.2 private memory conversions (to shared) per operation at 15 µs"}},
		{"acceptance, once", 2, map[string]float64{explain.Acceptances: 0, explain.AcceptedBytes: 0}, map[string]float64{explain.Acceptances: 0.1, explain.AcceptedBytes: 8192, explain.AcceptTime + "_sum": 2e-6, explain.AcceptTime + "_count": 0.1}, [2]float64{10e-6, 14e-6}, 0.5, true, nil},
		{"exceptions at a price from literature", 2, map[string]float64{exceptions: 0}, map[string]float64{exceptions: 6}, [2]float64{10e-6, 15.3e-6}, 1 - 6*4.5e-7/5.3e-6, true,
			[]string{"50.9 % of the extra time of an operation goes into", "+6 guest exceptions (tdx, wrmsr) per operation at 450 ns"}},
		{"more unexplained than explained", 2, map[string]float64{read: 1}, map[string]float64{read: 1, syscalls + `{syscall="clock_gettime"}`: 16}, [2]float64{10e-6, 16.5e-6}, 3.3 / 6.5, false, nil},
		{"nothing but reads", 2, map[string]float64{read: 1}, map[string]float64{read: 11}, [2]float64{10e-6, 14e-6}, 0.5, false, nil},
		{"no difference", 1.01, map[string]float64{read: 1}, map[string]float64{read: 2}, [2]float64{10e-6, 10.1e-6}, math.NaN(), false, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLab("seconds", "seconds", "lower").add("default", "native", 10, 1, 0.001).add("default", "gramine-sgx", 10, c.cost, 0.001)
			l.counted("native", c.cpu[0], c.base).counted("gramine-sgx", c.cpu[1], c.treat)
			l.UnitCosts = costs
			l.conclude(Options{Diff: differ, Catalog: catalog})
			said := l.Comparisons[0].Cause
			if (said == "") != (c.want == nil) {
				t.Errorf("%s: said %q", c.name, said)
			}
			for _, w := range c.want {
				if !strings.Contains(said, w) {
					t.Errorf("%s: said %q, want %q in it", c.name, said, w)
				}
			}
			if tee := catalog.Compared(l.Experiment, &l.Comparisons[0]).TEE; (tee != nil) != c.tee {
				t.Errorf("%s: the TEE's part is %+v", c.name, tee)
			} else if tee != nil && (math.Abs(tee.Share.Value-(1-c.unexplained)) > 1e-9 || !strings.HasPrefix(tee.Title, "Events of the TEE are ")) {
				t.Errorf("%s: the TEE's part is %+v, want the rest of %v", c.name, tee, c.unexplained)
			}
			rests, last := 0, math.Inf(1)
			for _, a := range l.Attribution {
				if a.Unexplained != nil {
					rests++
					if math.Abs(*a.Unexplained-c.unexplained) > 1e-9 {
						t.Errorf("%s: %v is unexplained, want %v", c.name, *a.Unexplained, c.unexplained)
					}
				}
				if !strings.Contains(a.Reason, "an order of magnitude") && (a.Share == nil) == (a.Reason == "") {
					t.Errorf("%s: %s has the share %v and the reason %q", c.name, a.Counter, a.Share, a.Reason)
				}
				w := -1.0
				if a.Seconds != nil {
					w = math.Abs(*a.Seconds)
				}
				if w > last {
					t.Errorf("%s: %s comes after what is less", c.name, a.Counter)
				} else {
					last = w
				}
			}
			if want := 1; math.IsNaN(c.unexplained) && rests != 0 || !math.IsNaN(c.unexplained) && rests != want {
				t.Errorf("%s: %d rests", c.name, rests)
			}
		})
	}
}

// TestUncalibrated: without prices differences stand, with the reason.
func TestUncalibrated(t *testing.T) {
	for why, costs := range map[string]*result.UnitCosts{
		"the result holds no unit costs":              nil,
		"the machine was too busy":                    {Reason: "the machine was too busy"},
		"syscall is not calibrated on this machine":   {Units: []result.UnitCost{{Event: "fault_write", Seconds: 1e-6}}},
		"the CPU time of the workload was not counte": {Units: []result.UnitCost{{Event: "syscall", Seconds: 1e-6}}},
	} {
		t.Run(why, func(t *testing.T) {
			l := latency()
			one := 1.0
			l.each("", func(r *result.Run) {
				r.Counters = []result.Counter{{Name: syscalls, PerOperation: &one, Trust: result.Full}}
			})
			l.UnitCosts = costs
			l.conclude(Options{Catalog: catalog})
			if a := l.Attribution[0]; a.Share != nil || !strings.Contains(a.Reason, why) || l.Comparisons[0].Cause != "" {
				t.Errorf("%s: %+v", why, a)
			}
		})
	}
}

// TestDearerNowhere: arms in the same environment have the same system calls. If one was measured next to another
// load, its calls are no more expensive for that.
func TestDearerNowhere(t *testing.T) {
	call := syscalls + `{syscall="clock_gettime"}`
	for _, same := range []bool{true, false} {
		l := newLab("seconds", "seconds", "lower").add("default", "native", 10, 1, 0.001).add("default", "gramine-sgx", 10, 2, 0.001)
		l.counted("native", 10e-6, map[string]float64{call: 1}).counted("gramine-sgx", 14e-6, map[string]float64{call: 16})
		base, treat := l.Environment("native"), l.Environment("gramine-sgx")
		base.Call, treat.Call = &result.CallCost{Seconds: 2.7e-7, Low: 2.4e-7, High: 2.8e-7, Seen: 1}, &result.CallCost{Seconds: 2.2e-7, Low: 2.2e-7, High: 2.3e-7, Seen: 1}
		if same {
			treat.Launcher, treat.Fingerprint = base.Launcher, base.Fingerprint
		}
		l.conclude(Options{Diff: differ, Catalog: catalog})
		if rows := slices.ContainsFunc(l.Attribution, func(a result.Attribution) bool { return a.Counter == result.Dearer }); rows == same {
			t.Errorf("same environment %v: a row for calls that cost another price: %v", same, rows)
		}
	}
}

// TestDearer: calls that cost more in one arm explain their additional cost, also if the arm's own calls are not
// counted. The calls that are counted are then no separate cause.
func TestDearer(t *testing.T) {
	read, wake := syscalls+`{syscall="read"}`, syscalls+`{syscall="futex"}`
	for _, c := range []struct {
		name        string
		call        result.CallCost // of the treatment; the baseline's is 100 ns
		wakes       float64         // counted in the treatment, besides one read; the baseline has two reads
		unexplained float64
		assumed     bool
	}{
		{"hidden", result.CallCost{Seconds: 1.1e-6, Low: 1e-6, High: 1.2e-6}, 0.5, 0.5, true},
		{"hidden, too dear", result.CallCost{Seconds: 3.1e-6, Low: 3e-6, High: 3.2e-6}, 0.5, -0.5, true},
		{"hidden, and yet more are seen", result.CallCost{Seconds: 1.1e-6, Low: 1e-6, High: 1.2e-6}, 3, 1 - 2*2e-7/4e-6, false},
		{"seen", result.CallCost{Seconds: 1.1e-6, Low: 1e-6, High: 1.2e-6, Seen: 1}, 3, 1 - (4e-6+2*2e-7)/4e-6, false},
		{"partly seen", result.CallCost{Seconds: 1.1e-6, Low: 1e-6, High: 1.2e-6, Seen: 0.5}, 3, 1 - 2*2e-7/4e-6, false},
		{"no spread", result.CallCost{Seconds: 1.1e-7, Low: 0.9e-7, High: 1.2e-7, Seen: 1}, 3, 1 - 2*2e-7/4e-6, false},
	} {
		l := newLab("seconds", "seconds", "lower").add("default", "native", 10, 1, 0.001).add("default", "gramine-sgx", 10, 2, 0.001)
		l.counted("native", 10e-6, map[string]float64{read: 2}).counted("gramine-sgx", 14e-6, map[string]float64{read: 1, wake: c.wakes})
		l.UnitCosts = &result.UnitCosts{Units: []result.UnitCost{{Event: "syscall", Seconds: 2e-7}}}
		l.Environment("native").Call = &result.CallCost{Seconds: 1e-7, Low: 0.9e-7, High: 1.1e-7, Seen: 1}
		l.Environment("gramine-sgx").Call = &c.call
		l.conclude(Options{Diff: differ, Catalog: catalog})
		rests := 0
		for _, a := range l.Attribution {
			if a.Counter == result.Dearer && strings.Contains(a.Reason, "assumed") != c.assumed {
				t.Errorf("%s: assumed: %q", c.name, a.Reason)
			}
			if a.Counter == result.Dearer && (math.Abs(*a.UnitLow-(c.call.Low-1.1e-7)) > 1e-12 || math.Abs(*a.UnitHigh-(c.call.High-0.9e-7)) > 1e-12 || *a.UnitLow > *a.UnitCost || *a.UnitCost > *a.UnitHigh) {
				t.Errorf("%s: a call costs %g more, from %g to %g", c.name, *a.UnitCost, *a.UnitLow, *a.UnitHigh)
			}
			if a.Counter != result.Dearer && (a.UnitLow != nil || a.UnitHigh != nil) {
				t.Errorf("%s: %s has a range", c.name, a.Counter)
			}
			if a.Counter == wake && (a.Share == nil) != c.assumed {
				t.Errorf("%s: the arm's own calls have the share %v", c.name, a.Share)
			}
			if a.Unexplained != nil {
				rests++
				if math.Abs(*a.Unexplained-c.unexplained) > 1e-9 {
					t.Errorf("%s: %v is unexplained, want %v", c.name, *a.Unexplained, c.unexplained)
				}
			}
		}
		if rests != 1 {
			t.Errorf("%s: %d rests", c.name, rests)
		}
	}
}
