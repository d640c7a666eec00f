package verdict

import (
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/stats"
	"github.com/teescope/teescope/internal/tee"
)

// lab is an experiment under construction: by default native against gramine-sgx, interleaved on one host, everything
// known and nothing wrong.
type lab struct {
	*result.Experiment
	rnd *rand.Rand
}

func newLab(metric, unit, direction string, arms ...string) *lab {
	if arms == nil {
		arms = []string{"native", "gramine-sgx"}
	}
	end := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	l := &lab{rnd: rand.New(rand.NewPCG(1, 2)), Experiment: &result.Experiment{ID: "1", Name: "test", StartedAt: end.Add(-time.Hour), EndedAt: &end,
		Design:   result.Design{Kind: result.Interleaved, Seed: 1, PairsPlanned: 10, Alpha: 0.05, Margin: 0.03, Primary: metric, Subject: "environment"},
		Workload: result.Workload{Name: "redis", Version: 1, Metrics: []result.MetricDesc{{Name: metric, Unit: unit, Better: direction}}},
	}}
	for i, a := range arms {
		env := result.Environment{ID: a, Role: result.Treatment, Launcher: a, Fingerprint: "fp-" + a, Class: "class",
			Params: map[string]string{}, Subject: map[string]string{}, Hardware: result.Hardware{Serial: "host-1"}, TEE: result.TEE{Type: "none"}}
		switch {
		case i == 0:
			env.Role = result.Baseline
		case i < len(arms)-1:
			env.Role = result.Intermediate
		}
		if strings.HasSuffix(a, "-sgx") {
			env.TEE = result.TEE{Type: "sgx", Active: true, Declared: true, Evidence: []tee.Evidence{{Source: "quote", Value: "0123"}}}
		}
		l.Environments = append(l.Environments, env)
	}
	return l
}

// add makes n runs of a case in an arm around centre, with a spread of sd (of the logarithm). The noise of runs in a
// pair is independent.
func (l *lab) add(cas, env string, n int, centre, sd float64) *lab {
	for pair := range n {
		l.run(cas, env, pair, centre*math.Exp(sd*l.rnd.NormFloat64()))
	}
	return l
}

func (l *lab) run(cas, env string, pair int, v float64) *result.Run {
	if findCase(l.Experiment, cas) == nil {
		params := map[string]string{}
		if k, v, ok := strings.Cut(cas, "="); ok {
			params[k] = v
		}
		l.Cases = append(l.Cases, result.Case{ID: cas, Params: params, Identity: "sha256:" + cas})
	}
	zero := 0.0
	l.Runs = append(l.Runs, result.Run{ID: fmt.Sprintf("p%02d-%s-%s", pair, cas, env), Env: env, Case: cas, Pair: pair, Status: result.OK, Seconds: 10,
		StartedAt: l.StartedAt.Add(time.Duration(pair) * time.Minute), OutputDigest: "sha256:answer", Clock: "tsc",
		Metrics: []result.Metric{{Name: l.Design.Primary, Value: &v, Source: result.Measured}},
		Interference: result.Interference{StealRatio: &zero, ForeignCPU: &zero, ThrottleEvents: &zero, SwapBytes: &zero, MemoryPressure: &zero,
			Frequency: &result.Spread{}}})
	return &l.Runs[len(l.Runs)-1]
}

// each changes the runs of an arm ("" is all).
func (l *lab) each(env string, f func(*result.Run)) *lab {
	for i := range l.Runs {
		if env == "" || l.Runs[i].Env == env {
			f(&l.Runs[i])
		}
	}
	return l
}

// also gives all runs of an arm another metric.
func (l *lab) also(env, name, unit, direction string, v float64) *lab {
	if l.Desc(name) == nil {
		l.Workload.Metrics = append(l.Workload.Metrics, result.MetricDesc{Name: name, Unit: unit, Better: direction})
	}
	return l.each(env, func(r *result.Run) {
		r.Metrics = append(r.Metrics, result.Metric{Name: name, Value: &v, Source: result.Measured})
	})
}

// differ compares the few fields that the tests set.
func differ(a, b *result.Environment) []result.Difference {
	var out []result.Difference
	add := func(field, x, y string) {
		if x != y {
			out = append(out, result.Difference{Field: field, Baseline: x, Treatment: y})
		}
	}
	add("launcher", a.Launcher, b.Launcher)
	for _, k := range []string{"proxy", "memory"} {
		add("params."+k, a.Params[k], b.Params[k])
	}
	add("subject.binary", a.Subject["binary"], b.Subject["binary"])
	add("digests.server", a.Digests["server"], b.Digests["server"])
	add("tee.type", a.TEE.Type, b.TEE.Type)
	add("tee.settings.epc", a.TEE.Settings["epc"], b.TEE.Settings["epc"])
	add("hardware.cpu_model", a.Hardware.CPUModel, b.Hardware.CPUModel)
	add("hardware.host_id", a.Hardware.Serial, b.Hardware.Serial)
	add("software.kernel", a.Software.Kernel, b.Software.Kernel)
	for _, k := range []string{"network", "storage"} {
		add("software.encryption."+k, a.Software.Encryption[k], b.Software.Encryption[k])
	}
	if len(a.Hardware.NICs) > 0 && len(b.Hardware.NICs) > 0 {
		add("hardware.nics.eth0.mtu", fmt.Sprint(a.Hardware.NICs[0].MTU), fmt.Sprint(b.Hardware.NICs[0].MTU))
	}
	return out
}

func (l *lab) conclude(o Options) *lab {
	if o.Diff == nil {
		o.Diff = differ
	}
	Conclude(l.Experiment, o)
	return l
}

// spoke returns the guards with an id.
func (l *lab) spoke(id string) []result.Guard {
	var out []result.Guard
	for _, g := range l.Guards {
		if g.ID == id {
			out = append(out, g)
		}
	}
	return out
}

// redis returns a plain cost: 3.1 times, ten pairs.
func redis() *lab {
	return newLab("requests_per_second", "requests_per_second", "higher").add("op=get", "native", 10, 100e3, 0.02).add("op=get", "gramine-sgx", 10, 100e3/3.1, 0.02)
}

func TestConclude(t *testing.T) {
	l := redis().also("native", "latency_seconds", "seconds", "lower", 0.001).also("gramine-sgx", "latency_seconds", "seconds", "lower", 0.003).
		also("", "connections", "", "none", 50).conclude(Options{})
	if len(l.Comparisons) != 2 {
		t.Fatalf("%d comparisons, want one for each metric with a direction", len(l.Comparisons))
	}
	c := l.Comparisons[0]
	if !c.Primary || c.Verdict != stats.Cost || !c.Material || c.Pairs != 10 || c.Grade != result.GradeA || l.Design.Grade != result.GradeA {
		t.Errorf("the primary comparison is %+v", c)
	}
	if c.Ratio == nil || math.Abs(*c.Ratio*3.1-1) > 0.05 || math.Abs(*c.Cost**c.Ratio-1) > 1e-9 || *c.CostLow > *c.Cost || *c.CostHigh < *c.Cost {
		t.Errorf("ratio %v, cost %v [%v, %v]", *c.Ratio, *c.Cost, *c.CostLow, *c.CostHigh)
	}
	s := l.Comparisons[1]
	if s.Primary || s.Verdict != "" || s.Material || s.Ratio == nil || math.Abs(*s.Ratio-3) > 1e-9 {
		t.Errorf("the secondary comparison is %+v", s)
	}
	if l.Comparisons[0].Headline != Sentence(l.Experiment, &l.Comparisons[0]) || l.Comparisons[0].Headline == "" {
		t.Error("no headline")
	}
	before := fmt.Sprintf("%+v", l.Guards)
	l.conclude(Options{})
	if after := fmt.Sprintf("%+v", l.Guards); after != before {
		t.Errorf("concluding again changes the guards\n%s\n%s", before, after)
	}
}

// TestDocument: a conclusion is a valid document.
func TestDocument(t *testing.T) {
	l := redis().conclude(Options{})
	l.SchemaVersion = result.SchemaVersion
	path := filepath.Join(t.TempDir(), "result.json")
	if err := result.Write(path, l.Experiment); err != nil {
		t.Fatal(err)
	}
	back, err := result.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if back.Comparisons[0].Headline != l.Comparisons[0].Headline || len(back.Guards) != len(l.Guards) {
		t.Errorf("read back %+v", back.Comparisons)
	}
}

func TestOutputPerArm(t *testing.T) {
	l := redis().each("native", func(r *result.Run) { r.OutputDigest = "of another version" })
	l.Workload.OutputPerArm = true
	l.conclude(Options{})
	if g := l.spoke("different-job"); len(g) != 1 || g[0].Level != result.Note || l.Comparisons[0].Verdict != stats.Cost {
		t.Errorf("guards %+v, verdict %s", g, l.Comparisons[0].Verdict)
	}
}

func TestForeignGuardIsKeptAndHeeded(t *testing.T) {
	l := redis()
	l.Guards = []result.Guard{{ID: "engine-stopped", Level: result.Refuse, Message: "an arm was given up"}, {ID: "outliers", Message: "of an older conclusion"}}
	l.conclude(Options{})
	if l.Comparisons[0].Verdict != stats.Invalid || len(l.spoke("engine-stopped")) != 1 || len(l.spoke("outliers")) != 0 {
		t.Errorf("verdict %s, guards %+v", l.Comparisons[0].Verdict, l.Guards)
	}
}

func TestLadder(t *testing.T) {
	l := newLab("seconds", "seconds", "lower", "native", "gramine-direct", "gramine-sgx")
	for i, a := range []string{"native", "gramine-direct", "gramine-sgx"} {
		l.add("default", a, 10, []float64{1, 5, 6}[i], 0.01)
	}
	l.conclude(Options{})
	var got []string
	for _, c := range l.Comparisons {
		got = append(got, fmt.Sprintf("%d %s/%s %.1f", c.Rung, c.Treatment, c.Baseline, *c.Cost))
	}
	want := "1 gramine-direct/native 5.0, 0 gramine-sgx/native 6.0, 2 gramine-sgx/gramine-direct 1.2"
	if strings.Join(got, ", ") != want {
		t.Errorf("got %s, want %s", strings.Join(got, ", "), want)
	}
}

func TestPairsAreFormedByIndex(t *testing.T) {
	l := newLab("seconds", "seconds", "lower")
	for pair := range 8 { // the machine slows down by half during the experiment: only pairs show 1.1
		base := 1 + float64(pair)/16
		l.run("default", "native", pair, base)
		l.run("default", "gramine-sgx", 7-pair, 1.1*(1+float64(7-pair)/16))
	}
	l.Runs[0].Status, l.Runs[0].Reason = result.Failed, "killed"
	l.conclude(Options{})
	c := l.Comparisons[0]
	if c.Pairs != 7 || math.Abs(*c.Ratio-1.1) > 1e-9 || c.Verdict != stats.Cost {
		t.Errorf("%d pairs, ratio %v, verdict %s", c.Pairs, *c.Ratio, c.Verdict)
	}
}

func TestGrade(t *testing.T) {
	for _, c := range []struct {
		kind        result.Kind
		hosts       [2]string
		classes     [2]string
		want        result.Grade
		overhead    bool
		cannottells int
	}{
		{result.Interleaved, [2]string{"h", "h"}, [2]string{"c", "c"}, result.GradeA, true, 0},
		{result.Blocked, [2]string{"h", "h"}, [2]string{"c", "c"}, result.GradeB, true, 0},
		{result.Unpaired, [2]string{"h", "h"}, [2]string{"c", "c"}, result.GradeB, true, 0},
		{result.Interleaved, [2]string{"h", "i"}, [2]string{"c", "c"}, result.GradeC, false, 0},
		{result.Interleaved, [2]string{"h", "i"}, [2]string{"c", "d"}, result.GradeD, false, 0},
		{result.Interleaved, [2]string{"h", "i"}, [2]string{"same CPU", "same CPU, SGX"}, result.GradeC, false, 0},
		{result.Interleaved, [2]string{"", ""}, [2]string{"c", "c"}, result.GradeC, false, 2},
		{result.Interleaved, [2]string{"", ""}, [2]string{"", ""}, result.GradeD, false, 2},
	} {
		l := redis()
		l.Design.Kind = c.kind
		for i := range l.Environments {
			e := &l.Environments[i]
			e.Hardware.Serial, e.Class = c.hosts[i], c.classes[i]
			if strings.HasPrefix(e.Class, "same CPU") {
				e.Hardware.CPUModel, e.Hardware.CPUs = "Xeon", 8
			}
		}
		l.conclude(Options{})
		got := l.Comparisons[0]
		if got.Grade != c.want || l.Design.Grade != c.want {
			t.Errorf("%+v: grade %s", c, got.Grade)
		}
		if costs := strings.Contains(got.Headline, "costs"); costs != c.overhead || strings.Contains(got.Headline, "overhead") || (Term(got.Grade) == "overhead") != c.overhead {
			t.Errorf("%+v: headline %q", c, got.Headline)
		}
		unknown := 0
		for _, g := range l.spoke("other-platform") {
			if strings.HasPrefix(g.Message, "not checked") {
				unknown++
			}
		}
		if unknown != c.cannottells {
			t.Errorf("%+v: guards %+v", c, l.spoke("other-platform"))
		}
	}
}

// TestGradeOfTwoMachines: two machines of one kind are grade C, also where runs were interleaved and their clocks agree.
func TestGradeOfTwoMachines(t *testing.T) {
	for class, want := range map[string]result.Grade{"c": result.GradeC, "d": result.GradeD} {
		t.Run(class, func(t *testing.T) {
			l := redis()
			for i := range l.Environments {
				e := &l.Environments[i]
				e.Hardware.Serial, e.Class, e.Clock = []string{"h", "i"}[i], []string{"c", class}[i], &result.ClockOffset{Uncertainty: 0.1}
			}
			if l.conclude(Options{}); l.Comparisons[0].Grade != want {
				t.Errorf("class %s: grade %s", class, l.Comparisons[0].Grade)
			}
		})
	}
}

func TestSetAside(t *testing.T) {
	steal := func(l *lab, v float64, pairs ...int) *lab {
		return l.each("gramine-sgx", func(r *result.Run) {
			if slices.Contains(pairs, r.Pair) {
				r.Interference.StealRatio = &v
				*r.Metrics[0].Value /= 2
			}
		})
	}
	l := steal(redis(), 0.3, 2, 5).conclude(Options{})
	c := l.Comparisons[0]
	if c.Pairs != 8 || c.Verdict != stats.Cost {
		t.Errorf("%d pairs, %s: %q", c.Pairs, c.Verdict, c.Reasons)
	}
	if len(l.Runs) != 20 || l.Runs[12].Status != result.OK {
		t.Error("a run was changed or dropped")
	}
	// Steal slows down half of an equal arm: the verdict depends on whether those pairs count.
	l = steal(newLab("requests_per_second", "requests_per_second", "higher").add("default", "native", 20, 100, 0.001).
		add("default", "gramine-sgx", 20, 100, 0.001), 0.3, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11).conclude(Options{})
	if c := l.Comparisons[0]; c.Verdict != stats.Inconclusive || !strings.Contains(strings.Join(c.Reasons, " "), "with them") {
		t.Errorf("%d pairs, %s: %q", c.Pairs, c.Verdict, c.Reasons)
	}
	// Separate results lose disturbed runs only while both arms keep six.
	for left, want := range map[int]int{6: 6, 5: 10} {
		l = redis()
		l.Design.Kind = result.Unpaired
		l.each("native", func(r *result.Run) {
			if v := 0.5; r.Pair >= left {
				r.Interference.StealRatio = &v
			}
		}).conclude(Options{})
		if c := l.Comparisons[0]; c.Pairs != want {
			t.Errorf("%d runs are left undisturbed, %d are used: want %d", left, c.Pairs, want)
		}
	}
	// An engine's exclusion holds even if too few pairs are left.
	l = redis().each("native", func(r *result.Run) {
		if r.Pair > 3 {
			r.Status, r.Reason = result.Excluded, "clock step of 3 s"
		}
	}).conclude(Options{})
	if c := l.Comparisons[0]; c.Pairs != 4 || c.Verdict != stats.Inconclusive {
		t.Errorf("%d pairs, %s", c.Pairs, c.Verdict)
	}
}

func TestAttribution(t *testing.T) {
	l := redis()
	per := func(env, name string, trust result.Trust, v *float64) {
		l.each(env, func(r *result.Run) {
			r.Counters = append(r.Counters, result.Counter{Name: name, Labels: map[string]string{"process": "redis"}, PerOperation: v, Trust: trust})
		})
	}
	one, nine := 1.0, 9.0
	per("native", "tee_syscalls_total", result.Full, &one)
	per("gramine-sgx", "tee_syscalls_total", result.Partial, &nine)
	per("gramine-sgx", "tee_sgx_enclave_exits_total", result.Full, &nine)
	per("native", "tee_llc_misses_total", result.None, &one)
	per("gramine-sgx", "tee_llc_misses_total", result.None, &nine)
	per("native", "tee_page_faults_total", result.Full, nil)
	per("gramine-sgx", "tee_page_faults_total", result.Full, &nine)
	l.conclude(Options{Catalog: catalog})
	if len(l.Attribution) != 1 {
		t.Fatalf("rows %+v, want the one counter that both arms gave and that sees the workload", l.Attribution)
	}
	a := l.Attribution[0]
	if a.Counter != `tee_syscalls_total` || a.Delta != 8 || *a.Base != 1 || a.UnitCost != nil || a.Share != nil || a.Unexplained != nil ||
		a.Reason != "the counter covers only part of the workload, or includes other programs; not calibrated: the result holds no unit costs" {
		t.Errorf("row %+v", a)
	}
}

// TestAttributionOfRareEvents: a kind of event that some runs do not name next to a total did not happen in them; the
// median is over all pairs.
func TestAttributionOfRareEvents(t *testing.T) {
	l := latency()
	l.each("", func(r *result.Run) {
		total, rare := 10.0, 500.0
		r.Counters = []result.Counter{{Name: "tee_syscalls_total", PerOperation: &total, Trust: result.Full}}
		if r.Env == "gramine-sgx" && r.Pair < 3 || r.Env == "native" && r.Pair == 9 {
			r.Counters = append(r.Counters, result.Counter{Name: "tee_syscalls_total", Labels: map[string]string{"syscall": "futex"}, PerOperation: &rare, Trust: result.Full})
		}
	})
	l.conclude(Options{Catalog: catalog})
	for _, a := range l.Attribution {
		if a.Delta != 0 {
			t.Errorf("%s: %v more, want 0 in most pairs", a.Counter, a.Delta)
		}
	}
	if len(l.Attribution) != 2 {
		t.Errorf("rows %+v", l.Attribution)
	}
}
