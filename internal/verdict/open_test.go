package verdict

import (
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/stats"
)

// TestWhatDecides: more pairs are suggested, with their probability, only where the spread or their number is what blocks. Whatever
// else blocks is named, and no number of pairs.
func TestWhatDecides(t *testing.T) {
	noisy := func(n int) *lab {
		return newLab("seconds", "seconds", "lower").add("default", "native", n, 1, 0.2).add("default", "gramine-sgx", n, 1.02, 0.2)
	}
	busy := func(l *lab, share float64) *lab {
		return l.each("", func(r *result.Run) { v := share; r.Interference.ForeignCPU = &v })
	}
	for name, c := range map[string]struct {
		lab   *lab
		o     Options
		says  string // of what is open
		pairs bool
	}{
		"spread":                           {noisy(8), Options{}, "pairs in all would probably decide (4 in 5)", true},
		"few pairs":                        {noisy(5), Options{}, "a verdict needs at least 6 pairs", true},
		"others, though it is beyond 1":    {busy(latency(), 0.8), Options{}, "more pairs would not decide the verdict: other programs used 80 % of the CPUs", false},
		"others and spread":                {busy(noisy(8), 0.8), Options{}, "more pairs would not decide the verdict: other programs used 80 % of the CPUs", false},
		"others, and few pairs":            {busy(noisy(5), 0.8), Options{}, "more pairs would not decide the verdict: other programs used 80 % of the CPUs", false},
		"steal":                            {latency().each("", func(r *result.Run) { v := 0.8; r.Interference.StealRatio = &v }), Options{}, "the hypervisor took 80 % of the CPU time", false},
		"a stand-in with spread":           {noisy(8).env(1, func(e *result.Environment) { e.StandsFor = "sgx" }), Options{}, "", false},
		"nothing is open":                  {latency(), Options{}, "", false},
		"others that are set aside or few": {busy(latency(), 0.05), Options{}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			if strings.Contains(name, "beyond 1") || name == "steal" { // close enough that others might explain it
				c.lab.each("gramine-sgx", func(r *result.Run) { v := 1.3 * *c.lab.Runs[0].Metrics[0].Value; r.Metrics[0].Value = &v })
			}
			p := c.lab.conclude(c.o).Comparisons[0]
			if !strings.Contains(p.Open, c.says) || (c.says == "") != (p.Open == "") {
				t.Errorf("%s: open %q, want %q; verdict %s, %q", name, p.Open, c.says, p.Verdict, p.Reasons)
			}
			if c.pairs != (p.PairsNeeded > 0) && p.StandIn == "" {
				t.Errorf("%s: %d pairs needed", name, p.PairsNeeded)
			}
			// A document of an older version has no such words.
			old := *c.lab.Experiment
			old.Comparisons = append([]result.Comparison(nil), old.Comparisons...)
			old.Comparisons[0].Open, old.Comparisons[0].StandIn, old.Comparisons[0].Details = "", "", nil
			if got := Concluded(&old, c.o).Comparisons[0]; got.Open != p.Open || got.StandIn != p.StandIn || got.Headline != p.Headline {
				t.Errorf("%s: restated %q, %q, %q", name, got.Open, got.StandIn, got.Headline)
			}
		})
	}
}

// TestStandIns: the role decides, not the launcher. An emulated guest, a declared stand-in and a simulated device are no cost and
// have no number before the word; the same launcher asked for as itself keeps its cost.
func TestStandIns(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*result.Environment)
		why    string
	}{
		"gVisor as gVisor": {func(e *result.Environment) { e.Launcher = "runsc" }, ""},
		"gVisor as a TEE":  {func(e *result.Environment) { e.Launcher, e.StandsFor = "runsc", "sgx" }, "gramine-sgx is really runsc, not sgx"},
		"an emulated guest": {func(e *result.Environment) {
			e.TEE.Settings = map[string]string{"accelerator": "tcg: software emulation"}
		}, "gramine-sgx is emulated in software"},
		"a guest with kvm":                      {func(e *result.Environment) { e.TEE.Settings = map[string]string{"accelerator": "kvm"} }, ""},
		"emulated, by what is seen from inside": {func(e *result.Environment) { e.Software.Hypervisor = "QEMU TCG (QEMU)" }, "gramine-sgx is emulated in software"},
		"made up":                               {func(e *result.Environment) { e.TEE.Settings = map[string]string{"measures": "nothing"} }, "gramine-sgx has made-up values"},
	} {
		t.Run(name, func(t *testing.T) {
			l := latency().env(1, c.change).conclude(Options{})
			p := l.Comparisons[0]
			if p.StandIn != c.why || p.Verdict != stats.Cost {
				t.Errorf("%s: %q, verdict %s", name, p.StandIn, p.Verdict)
			}
			if (c.why != "") != strings.HasPrefix(p.Headline, "stand-in: ") || strings.Contains(p.Headline, "costs") == (c.why != "") || c.why != "" && strings.Contains(p.Headline, "grade") {
				t.Errorf("%s: %s", name, p.Headline)
			}
			if l.AllStandIns() != (c.why != "") {
				t.Errorf("%s: all stand-ins is %v", name, l.AllStandIns())
			}
		})
	}
	l := newLab("simulated_response_seconds", "seconds", "lower").add("default", "native", 10, 1, 0.01).add("default", "gramine-sgx", 10, 2, 0.01).conclude(Options{})
	if p := l.Comparisons[0]; p.StandIn != "the device is simulated" || !strings.HasPrefix(p.Headline, "stand-in: ") {
		t.Errorf("a simulated device: %q, %s", p.StandIn, p.Headline)
	}
}

// TestCauseOfMonitor: the locks of a virtual machine's monitor are not those of the workload in it, so they are no cause, in new
// documents and in old ones, which only have the monitor's name.
func TestCauseOfMonitor(t *testing.T) {
	lock := map[string]float64{waitSeconds + `{call="futex",state="lock"}`: 20e-6}
	for name, mark := range map[string]func(*result.Counter){
		"a process":         nil,
		"QEMU, by its name": func(c *result.Counter) { c.Labels = with(c.Labels, "process", "qemu-system-x86") },
		"a monitor":         func(c *result.Counter) { c.Note = result.MonitorThreads },
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab("seconds", "seconds", "lower").add("default", "native", 10, 1, 0.001).add("default", "gramine-sgx", 10, 2, 0.001)
			l.counted("native", 10e-6, nil).counted("gramine-sgx", 14e-6, lock)
			if mark != nil {
				l.each("gramine-sgx", func(r *result.Run) {
					for i := range r.Counters {
						if len(r.Counters[i].Labels) > 0 {
							mark(&r.Counters[i])
						}
					}
				})
			}
			l.conclude(Options{Diff: differ, Catalog: catalog})
			c := &l.Comparisons[0]
			if (c.Cause == "") != (mark != nil) {
				t.Errorf("%s: cause %q", name, c.Cause)
			}
			for _, a := range l.Attribution {
				if mark != nil && a.Metric != cpuSeconds && (a.Share != nil || a.Cause != "" || a.Reason != result.MonitorThreads) {
					t.Errorf("%s: row %+v", name, a)
				}
			}
			for _, r := range catalog.Compared(l.Experiment, c).Rows {
				if mark != nil && (r.Cause != "" || r.Advice != "") {
					t.Errorf("%s: row %+v", name, r)
				}
			}
			// No cause under an inconclusive verdict.
			c.Verdict = stats.Inconclusive
			if said := catalog.CauseSentence(l.Experiment, c); said != "" {
				t.Errorf("%s: inconclusive, and says %q", name, said)
			}
		})
	}
}

func with(labels map[string]string, k, v string) map[string]string {
	out := map[string]string{k: v}
	for x, y := range labels {
		if x != k {
			out[x] = y
		}
	}
	return out
}
