package verdict

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/stats"
)

// builds returns a gate's experiment: two builds in one environment, head being slower by a factor.
func builds(slower, sd float64, pairs int, cases ...string) *lab {
	l := newLab("seconds", "seconds", "lower", "base", "head")
	l.Design.Subject = "binary"
	for i := range l.Environments {
		e := &l.Environments[i]
		e.Launcher, e.Subject["binary"], e.Digests = "native", "./"+e.ID, map[string]string{"server": e.ID}
	}
	if cases == nil {
		cases = []string{"default"}
	}
	for _, c := range cases {
		l.add(c, "base", pairs, 1, sd).add(c, "head", pairs, slower, sd)
	}
	return l
}

// rates returns a gate's experiment in which higher is better.
func rates(factor float64) *lab {
	l := builds(factor, 0.001, 10)
	l.Workload.Metrics[0].Better = "higher"
	return l
}

// barren returns a gate's experiment in which one arm has that many runs, all of which failed.
func barren(runs int) *lab {
	l := builds(1, 0.003, 10)
	var kept []result.Run
	for _, r := range l.Runs {
		l.Design.Order = append(l.Design.Order, result.Slot{Pair: r.Pair, Case: r.Case, Env: r.Env})
		if r.Env == "head" {
			r.Status, r.Reason, r.Metrics = result.Failed, "exit status 1", nil
		}
		if r.Env != "head" || r.Pair < runs {
			kept = append(kept, r)
		}
	}
	l.Runs = kept
	return l
}

func TestGate(t *testing.T) {
	opts := func(o Options) GateOptions {
		if o.Diff == nil {
			o.Diff = differ
		}
		return GateOptions{Options: o}
	}
	for _, c := range []struct {
		name string
		lab  *lab
		o    GateOptions
		want int
		says string
	}{
		{"equal builds", builds(1, 0.003, 10), opts(Options{}), Passed, "ok: no cost beyond the margin"},
		{"10 % slower", builds(1.1, 0.01, 10), opts(Options{}), Regression, "head costs 1.1"},
		{"10 % fewer requests", rates(0.9), opts(Options{}), Regression, "head costs 1.11x"},
		{"10 % more requests", rates(1.1), opts(Options{}), Passed, "head costs only 0.909x"},
		{"faster", builds(0.8, 0.01, 10), opts(Options{}), Passed, "head costs only 0.8"},
		{"slower, but within the margin", builds(1.015, 0.002, 10), opts(Options{}), Passed, "head costs 1.01"},
		{"about the margin", builds(1.03, 0.01, 10), opts(Options{}), Undecided, "inconclusive"},
		{"too much noise", builds(1, 0.1, 10), opts(Options{}), Undecided, "would probably decide"},
		{"noise, passed by policy", builds(1, 0.1, 10), GateOptions{Options{Diff: differ}, Pass}, Passed, "inconclusive: neither a regression nor its absence was shown; passed by policy"},
		{"noise, failed by policy", builds(1, 0.1, 10), GateOptions{Options{Diff: differ}, Fail}, Regression, "failed by policy"},
		{"a wider margin", builds(1.1, 0.01, 10), opts(Options{Margin: 0.2}), Passed, "ok"},
		{"five pairs", builds(1.5, 0.01, 5), opts(Options{}), Undecided, "at least 6 are needed"},
		{"six pairs of four cases", builds(1.5, 0.01, 6, "a", "b", "c", "d"), opts(Options{}), Undecided, "not significant after Holm's correction for 4 comparisons (P = 0.125)"},
		{"ten pairs of four cases", builds(1.5, 0.01, 10, "a", "b", "c", "d"), opts(Options{}), Regression, "regression"},
		{"the metric is missing in one arm", builds(1, 0.003, 10).each("head", func(r *result.Run) { r.Metrics[0].Value, r.Metrics[0].Reason = nil, "the output does not have it" }), opts(Options{}),
			NotValid, "run p00-default-head has no seconds: the output does not have it"},
		{"the metric is missing once", builds(1, 0.003, 10).each("head", func(r *result.Run) {
			if r.Pair == 7 {
				r.Metrics = nil
			}
		}), opts(Options{}), NotValid, "run p07-default-head has no seconds"},
		{"a run failed for want of the metric", builds(1, 0.003, 10).each("head", func(r *result.Run) {
			if r.Pair == 7 {
				r.Status, r.Reason, r.Metrics[0].Value = result.Failed, "no seconds: unknown version of the output", nil
			}
		}), opts(Options{}), NotValid, "run p07-default-head has no seconds: no seconds: unknown version"},
		{"a run crashed", builds(1, 0.003, 10).each("head", func(r *result.Run) {
			if r.Pair == 7 {
				r.Status, r.Reason, r.Metrics = result.Failed, "signal 9", nil
			}
		}), opts(Options{}), Passed, "failed-runs: 1 of 10 runs"},
		{"every run of an arm failed", builds(1, 0.003, 10).each("head", func(r *result.Run) { r.Status, r.Reason, r.Metrics = result.Failed, "exit status 1", nil }), opts(Options{}),
			NotValid, "no run in head has seconds: exit status 1"},
		{"no run of an arm", newLab("seconds", "seconds", "lower").add("default", "native", 10, 1, 0.01), opts(Options{}), NotValid, "case default has no run in gramine-sgx"},
		{"one arm", newLab("seconds", "seconds", "lower", "native").add("default", "native", 10, 1, 0.01), opts(Options{}), NotValid, "one arm"},
		{"a metric that is not declared", func() *lab { l := builds(1, 0.003, 10); l.Design.Primary = "p99_seconds"; return l }(), opts(Options{}), NotValid, "p99_seconds"},
		{"a run was taken out of the file", func() *lab {
			l := builds(1, 0.003, 10)
			for _, r := range l.Runs {
				l.Design.Order = append(l.Design.Order, result.Slot{Pair: r.Pair, Case: r.Case, Env: r.Env})
			}
			l.Runs = append(l.Runs[:3:3], l.Runs[4:]...)
			return l
		}(), opts(Options{}), NotValid, "the planned run of pair 3, case default, in base is missing"},
		{"the rest of a case that always failed was left out", barren(result.GiveUp), opts(Options{}), NotValid, "no run in head has seconds: exit status 1"},
		{"more than the rest was left out", barren(result.GiveUp - 1), opts(Options{}), NotValid, "the planned run of pair 2, case default, in head is missing"},
		{"not finished", func() *lab { l := builds(1, 0.003, 10); l.EndedAt = nil; return l }(), opts(Options{}), NotValid, "--resume"},
		{"another kernel in one arm", builds(1, 0.003, 10).env(1, func(e *result.Environment) { e.Software.Kernel = "6.8" }), opts(Options{}),
			NotValid, `differ in more than the subject "binary": kernel`},
		{"two subjects", func() *lab { l := builds(1, 0.003, 10); l.Design.Subject = "binary+environment"; return l }(), opts(Options{}), NotValid, "more than one thing (binary+environment)"},
		{"no difference at all", builds(1, 0.003, 10).env(1, func(e *result.Environment) {
			e.Subject, e.Digests = map[string]string{"binary": "./base"}, map[string]string{"server": "base"}
		}), opts(Options{}), NotValid, "do not differ in the subject binary"},
		{"no difference, on purpose", func() *lab {
			l := builds(1, 0.003, 10).env(1, func(e *result.Environment) {
				e.Subject, e.Digests = map[string]string{"binary": "./base"}, map[string]string{"server": "base"}
			})
			l.Design.Calibration, l.Design.Subject = true, ""
			return l
		}(), opts(Options{}), Passed, "ok"},
		{"environments not compared", builds(1, 0.003, 10), GateOptions{}, NotValid, "were not compared"},
		{"not read from inside", builds(1, 0.003, 10).env(0, func(e *result.Environment) { e.Missing = map[string]string{"hardware": "capture failed"} }), opts(Options{}), NotValid, "not read from inside"},
		{"a guard refuses", builds(1, 0.003, 10).each("head", func(r *result.Run) { r.OutputDigest = "other" }), opts(Options{}), NotValid, "different-job: the arms did different work"},
		{"a guard doubts", builds(1, 0.003, 10).each("", func(r *result.Run) { v := 0.9; r.Interference.ForeignCPU = &v }), opts(Options{}), Undecided, "does not cancel within a pair"},
		{"within the noise floor", func() *lab { return builds(1.05, 0.002, 10) }(), opts(Options{Calibration: &NoiseFloor{Host: "host-1", Workload: "redis", Version: 1,
			Metric: "seconds", Cases: map[string]Floor{"sha256:default": {Paired: 0.06}}}}), Undecided, "noise floor"},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := len(c.lab.Comparisons)
			r := Gate(c.lab.Experiment, c.o)
			if r.Status != c.want || !strings.Contains(r.Text, c.says) {
				t.Errorf("status %d, want %d with %q:\n%s", r.Status, c.want, c.says, r.Text)
			}
			if len(c.lab.Comparisons) != before {
				t.Error("the experiment was changed")
			}
		})
	}
}

// TestGateLevels runs the gate over simulated builds: equal ones must hardly ever fail, and ones that are 10 % slower
// must hardly ever pass.
func TestGateLevels(t *testing.T) {
	const rounds = 200
	alarms, passes := 0, 0
	missed, passed := 0, 0
	for i := range rounds {
		l := builds(1, 0.015, 10)
		shake(l, uint64(i), 1)
		switch Gate(l.Experiment, GateOptions{Options: Options{Diff: differ}}).Status {
		case Regression:
			alarms++
		case Passed:
			passes++
		}
		shake(l, uint64(i)+rounds, 1.1)
		switch Gate(l.Experiment, GateOptions{Options: Options{Diff: differ}}).Status {
		case Regression:
		case Passed:
			passed++
			fallthrough
		default:
			missed++
		}
	}
	t.Logf("of %d equal builds %d failed and %d passed; of %d slower ones %d were not seen and %d passed", rounds, alarms, passes, rounds, missed, passed)
	if alarms > rounds/20 || missed > rounds/20 || passed > 0 {
		t.Errorf("%d alarms, %d missed, %d passed in %d", alarms, missed, passed, rounds)
	}
}

// shake draws new values for a lab of two arms around 1 and factor.
func shake(l *lab, seed uint64, factor float64) {
	r := newLab("seconds", "seconds", "lower").rnd
	for range seed % 1000 {
		r.Uint64()
	}
	drift := 0.0
	for pair := range 10 {
		drift += 0.03 * r.NormFloat64() // of the machine, from pair to pair
		for i := range l.Runs {
			if run := &l.Runs[i]; run.Pair == pair {
				v := math.Exp(drift + 0.015*r.NormFloat64())
				if run.Env == "head" {
					v *= factor
				}
				run.Metrics[0].Value = &v
			}
		}
	}
}

// alone returns a result of one build.
func alone(name, binary, host string, seconds float64) *result.Experiment {
	l := newLab("seconds", "seconds", "lower", "native").add("default", "native", 10, seconds, 0.003)
	l.Name, l.ID, l.Design.Kind, l.Design.Subject = name, name, result.Single, ""
	l.env(0, func(e *result.Environment) {
		e.Subject["binary"], e.Hardware.Serial, e.Digests = binary, host, map[string]string{"server": binary}
	})
	return l.Experiment
}

func TestGateOfSeparateResults(t *testing.T) {
	calibration := func(host string, drift float64) *NoiseFloor {
		return &NoiseFloor{Host: host, Workload: "redis", Version: 1, Metric: "seconds", Cases: map[string]Floor{"sha256:default": {Paired: 0.005, Drift: drift, Pairs: 20}}}
	}
	for _, c := range []struct {
		name   string
		host   string
		slower float64
		cal    *NoiseFloor
		want   int
		says   string
	}{
		{"equal, without a calibration", "host-1", 1, nil, Undecided, "the host may have drifted between separate results"},
		{"slower, without a calibration", "host-1", 1.5, nil, Undecided, "the host may have drifted between separate results"},
		{"equal, calibrated", "host-1", 1, calibration("host-1", 0.01), Passed, "ok"},
		{"slower, calibrated", "host-1", 1.1, calibration("host-1", 0.01), Regression, "grade B"},
		{"slower by margin and drift, calibrated", "host-1", 1.035, calibration("host-1", 0.01), Undecided, ""},
		{"a calibration that drifts", "host-1", 1, calibration("host-1", 0.05), Undecided, "the drift of this host (5 %, from its calibration) is not below the margin of 3 %"},
		{"a calibration of another host", "host-1", 1, calibration("host-2", 0.01), Undecided, "the host may have drifted"},
		{"results of two hosts", "host-2", 1, calibration("host-1", 0.01), NotValid, "host (hardware.host_id"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := Options{Diff: differ, Calibration: c.cal}
			e, err := JoinResults([]*result.Experiment{alone("base", "./a", "host-1", 1), alone("head", "./b", c.host, c.slower)}, o)
			if err != nil {
				t.Fatal(err)
			}
			r := Gate(e, GateOptions{Options: o})
			if r.Status != c.want || !strings.Contains(r.Text, c.says) {
				t.Errorf("status %d, want %d with %q:\n%s", r.Status, c.want, c.says, r.Text)
			}
		})
	}
}

func TestAcross(t *testing.T) {
	o := Options{Diff: differ}
	a, b, c := alone("monday", "./a", "host-1", 1), alone("tuesday", "./a", "host-2", 2), alone("tuesday", "./a", "host-3", 3)
	e, err := JoinResults([]*result.Experiment{a, b, c}, o)
	if err != nil {
		t.Fatal(err)
	}
	var labels []string
	for _, env := range e.Environments {
		labels = append(labels, env.ID)
	}
	if got := strings.Join(labels, " "); got != "monday/native tuesday/native tuesday/native#2" {
		t.Errorf("labels %s", got)
	}
	if e.Design.Kind != result.Unpaired || e.Design.Grade != result.GradeC || len(e.Comparisons) != 2 || len(e.Runs) != 30 || e.Name != "monday / tuesday / tuesday" {
		t.Errorf("kind %s, grade %s, %d comparisons, %d runs, name %s", e.Design.Kind, e.Design.Grade, len(e.Comparisons), len(e.Runs), e.Name)
	}
	if c := e.Comparisons[1]; math.Abs(*c.Ratio-3) > 0.02 || c.Estimator != "hodges-lehmann-mann-whitney" || c.Replicate() != "unpaired run" || c.Pairs != 10 {
		t.Errorf("comparison %+v", c)
	}
	var from []string
	for _, env := range e.Environments {
		from = append(from, env.Joined.ID+" "+env.Joined.Name+" "+env.Joined.Env)
	}
	if j := e.Environments[0].Joined; j.Kind != result.Single || len(j.Own) != 0 {
		t.Errorf("the first result's design is %q with %d comparisons", j.Kind, len(j.Own))
	}
	if want := []string{a.ID + " monday native", b.ID + " tuesday native", c.ID + " tuesday#2 native"}; !slices.Equal(from, want) {
		t.Errorf("joined from %q, want %q", from, want)
	}
	if a.Environments[0].Joined != nil || a.Environments[0].ID != "native" || a.Runs[0].Env != "native" || a.Design.Kind != result.Single || a.Comparisons != nil {
		t.Error("a result that was given was changed")
	}

	// Another binary is another subject and not another job.
	e, err = JoinResults([]*result.Experiment{alone("base", "./a", "host-1", 1), alone("head", "./b", "host-1", 1)}, o)
	if err != nil || e.Design.Subject != "binary" || e.Design.Grade != result.GradeB {
		t.Errorf("subject %q, grade %s, %v", e.Design.Subject, e.Design.Grade, err)
	}

	// Cases that some results lack are left out, and named.
	more := alone("head", "./b", "host-1", 1)
	(&lab{Experiment: more, rnd: newLab("seconds", "seconds", "lower").rnd}).add("threads=2", "native", 10, 1, 0.01)
	e, err = JoinResults([]*result.Experiment{alone("base", "./a", "host-1", 1), more}, o)
	if err != nil || len(e.Cases) != 1 || len(e.Runs) != 20 {
		t.Fatalf("%v: %d cases, %d runs", err, len(e.Cases), len(e.Runs))
	}
	if g := (&lab{Experiment: e}).spoke("uncommon-cases"); len(g) != 1 || !strings.Contains(g[0].Message, "threads=2") {
		t.Errorf("guards %+v", e.Guards)
	}
}

// TestAcrossCeilings: a limit of a joined result is one of that result's arms, under their new names.
func TestAcrossCeilings(t *testing.T) {
	limited := func(name, host string, c ...result.Ceiling) *result.Experiment {
		e := alone(name, "./a", host, 1)
		e.Design.Ceilings = c
		return e
	}
	e, err := JoinResults([]*result.Experiment{limited("azure", "host-1", result.Ceiling{Metric: "seconds", Value: 1, Source: "a disk"}),
		limited("gcp", "host-2", result.Ceiling{Metric: "seconds", Env: "native", Value: 2, Source: "a link"}), limited("aws", "host-3")}, Options{Diff: differ})
	if err != nil {
		t.Fatal(err)
	}
	want := []result.Ceiling{{Metric: "seconds", Env: "azure/native", Value: 1, Source: "a disk"}, {Metric: "seconds", Env: "gcp/native", Value: 2, Source: "a link"}}
	if !slices.Equal(e.Design.Ceilings, want) {
		t.Errorf("ceilings %+v, want %+v", e.Design.Ceilings, want)
	}
}

// TestAcrossYears: results of clocks that are years apart are joined; the document spans them, and each run keeps its time.
func TestAcrossYears(t *testing.T) {
	now, later := alone("now", "./a", "host-1", 1), alone("later", "./a", "host-2", 2)
	end := later.StartedAt.AddDate(1, 0, 0)
	later.StartedAt, later.EndedAt = later.StartedAt.AddDate(1, 0, 0), &end
	for i := range later.Runs {
		later.Runs[i].StartedAt = later.Runs[i].StartedAt.AddDate(1, 0, 0)
	}
	for _, es := range [][]*result.Experiment{{now, later}, {later, now}} {
		e, err := JoinResults(es, Options{Diff: differ})
		if err != nil || !e.StartedAt.Equal(now.StartedAt) || len(e.Comparisons) != 1 || e.Comparisons[0].Ratio == nil {
			t.Fatalf("%v: %+v", err, e)
		}
		if first, last := e.Runs[0].StartedAt, e.Runs[len(e.Runs)-1].StartedAt; first.Sub(last).Abs() < 360*24*time.Hour {
			t.Errorf("runs of %v and %v", first, last)
		}
	}
}

// TestAcrossOneOfASweep: a job that is one of several cases there and the only one here is the same job.
func TestAcrossOneOfASweep(t *testing.T) {
	sweep, one := alone("a", "./a", "host-1", 1), alone("b", "./a", "host-1", 2)
	(&lab{Experiment: sweep, rnd: newLab("seconds", "seconds", "lower").rnd}).add("threads=2", "native", 10, 1, 0.01)
	one.Cases[0].ID, one.Cases[0].Identity = "only", sweep.Cases[1].Identity
	for i := range one.Runs {
		one.Runs[i].Case = "only"
	}
	for _, es := range [][]*result.Experiment{{sweep, one}, {one, sweep}} {
		e, err := JoinResults(es, Options{Diff: differ})
		if err != nil || len(e.Cases) != 1 || e.Cases[0].Identity != one.Cases[0].Identity || len(e.Runs) != 20 || len(e.Comparisons) != 1 {
			t.Errorf("%v: %+v", err, e)
		}
	}
	if one.Cases[0].ID != "only" || one.Runs[0].Case != "only" {
		t.Error("a result that was given was changed")
	}
}

func TestAcrossRefuses(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*result.Experiment)
		fields []string
	}{
		{"parameters", func(e *result.Experiment) {
			e.Cases[0].Params, e.Cases[0].Identity = map[string]string{"size": "64", "x": "1"}, "other"
		}, []string{"params.size", "params.x"}},
		{"data", func(e *result.Experiment) { e.Cases[0].DataDigest, e.Cases[0].Identity = "sha256:data", "other" }, []string{"data_digest"}},
		{"version", func(e *result.Experiment) { e.Workload.Version, e.Cases[0].Identity = 2, "other" }, []string{"workload.version"}},
		{"workload", func(e *result.Experiment) { e.Workload.Name, e.Cases[0].Identity = "fio", "other" }, []string{"workload.name"}},
		{"workload and case", func(e *result.Experiment) { e.Workload.Name, e.Cases[0].ID = "fio", "bs=4k" }, []string{"workload.name"}},
		{"primary metric", func(e *result.Experiment) { e.Design.Primary = "x" }, []string{"design.primary_metric"}},
		{"files", func(e *result.Experiment) { e.Cases[0].Identity = "other" }, []string{"identity"}},
		{"no identity", func(e *result.Experiment) { e.Cases[0].Identity = "" }, []string{"identity"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := alone("b", "./a", "host-1", 1)
			c.change(b)
			_, err := JoinResults([]*result.Experiment{alone("a", "./a", "host-1", 1), b}, Options{Diff: differ})
			var je *JobError
			if !errors.As(err, &je) {
				t.Errorf("%s: error %v", c.name, err)
				return
			}
			var got []string
			for _, f := range je.Fields {
				got = append(got, f.Field)
				if !strings.Contains(err.Error(), f.Field) {
					t.Errorf("%s: %v does not name %s", c.name, err, f.Field)
				}
			}
			if fmt.Sprint(got) != fmt.Sprint(c.fields) {
				t.Errorf("%s: fields %v, want %v", c.name, got, c.fields)
			}
		})
	}
	other := alone("b", "./a", "host-1", 1)
	other.Cases[0].ID, other.Cases[0].Identity = "threads=2", "other"
	if _, err := JoinResults([]*result.Experiment{alone("a", "./a", "host-1", 1), other}, Options{}); err == nil || !strings.Contains(err.Error(), "no case in common") {
		t.Errorf("no case in common: %v", err)
	}
	if _, err := JoinResults([]*result.Experiment{alone("a", "./a", "host-1", 1)}, Options{}); err == nil {
		t.Error("one result is compared")
	}
}

func twins(pairs int, favour, sd float64) *lab {
	l := newLab("seconds", "seconds", "lower", "a", "b").add("default", "a", pairs, 1, sd).add("default", "b", pairs, favour, sd)
	l.Environments[1].Launcher = "a"
	l.Design.Calibration, l.Design.Subject = true, ""
	return l
}

func TestCalibrate(t *testing.T) {
	l := twins(24, 1, 0.02)
	n, err := Calibrate(l.Experiment)
	if err != nil {
		t.Fatal(err)
	}
	f := n.Cases["sha256:default"]
	// The standard error of the estimate is about sd sqrt(2/24/0.955) = 0.6 %, of
	// which 19 in 20 lie below 1.96 times as much.
	if f.Pairs != 24 || f.Paired < 0.006 || f.Paired > 0.02 || math.Abs(f.Ratio-1) > f.Paired+1e-12 {
		t.Errorf("floor %+v", f)
	}
	if f.FalsePositives == nil || *f.FalsePositives > 0.15 || f.Level <= 0 || f.Level > 0.05 {
		t.Errorf("false positives %v at a level of %v", *f.FalsePositives, f.Level)
	}
	if f.Drift < 0.002 || f.Drift > 0.06 {
		t.Errorf("drift %v of a host that does not drift", f.Drift)
	}
	// A host that favours one of two identical arms is detected.
	n, err = Calibrate(twins(24, 1.12, 0.02).Experiment)
	if f := n.Cases["sha256:default"]; err != nil || f.Paired < 0.11 || *f.FalsePositives < 0.99 {
		t.Errorf("floor of a host that favours an arm %+v, %v", f, err)
	}
	// So is a host that slows down during the experiment, for separate results only.
	slow := twins(24, 1, 0.002).each("", func(r *result.Run) { *r.Metrics[0].Value *= 1 + float64(r.Pair)/48 })
	n, err = Calibrate(slow.Experiment)
	if f := n.Cases["sha256:default"]; err != nil || f.Paired > 0.003 || f.Drift < 0.2 {
		t.Errorf("floor of a host that drifts %+v, %v", f, err)
	}
	if n, err = Calibrate(twins(8, 1, 0.02).Experiment); err != nil || n.Cases["sha256:default"].FalsePositives != nil {
		t.Errorf("8 pairs give false positives: %+v, %v", n, err)
	}
	for name, bad := range map[string]*lab{
		"too few pairs":  twins(5, 1, 0.01),
		"unlike arms":    twins(10, 1, 0.01).env(1, func(e *result.Environment) { e.Launcher = "gramine" }),
		"unknown host":   twins(10, 1, 0.01).env(1, func(e *result.Environment) { e.Hardware.Serial = "" }),
		"three arms":     newLab("seconds", "seconds", "lower", "a", "b", "c").add("default", "a", 10, 1, 0.01),
		"no direction":   func() *lab { l := twins(10, 1, 0.01); l.Workload.Metrics[0].Better = "none"; return l }(),
		"no values":      twins(10, 1, 0.01).each("a", func(r *result.Run) { r.Metrics = nil }),
		"negative value": twins(10, 1, 0.01).each("a", func(r *result.Run) { *r.Metrics[0].Value = -1 }),
	} {
		t.Run(name, func(t *testing.T) {
			if n, err := Calibrate(bad.Experiment); err == nil {
				t.Errorf("%s: calibrated %+v", name, n)
			}
		})
	}
}

func TestCalibrationIsOfHostAndJob(t *testing.T) {
	l := twins(24, 1, 0.02)
	n, err := Calibrate(l.Experiment)
	if err != nil {
		t.Fatal(err)
	}
	covers := func(change func(*lab)) bool {
		l := builds(1.5, 0.01, 10)
		change(l)
		l.conclude(Options{Calibration: n})
		return l.Comparisons[0].NoiseFloor != nil
	}
	if !covers(func(*lab) {}) {
		t.Error("the calibration does not cover its own host and job")
	}
	for name, change := range map[string]func(*lab){
		"host":    func(l *lab) { l.Environments[1].Hardware.Serial = "host-2" },
		"job":     func(l *lab) { l.Cases[0].Identity = "other" },
		"version": func(l *lab) { l.Workload.Version = 2 },
	} {
		t.Run(name, func(t *testing.T) {
			if covers(change) {
				t.Errorf("it covers another %s", name)
			}
		})
	}
}

func TestChanges(t *testing.T) {
	day := func(i int) time.Time { return time.Date(2026, 1, 1+i, 0, 0, 0, 0, time.UTC) }
	r := newLab("seconds", "seconds", "lower").rnd
	var points []Point
	for i := 39; i >= 0; i-- { // in any order
		level := 1.0
		if i >= 20 {
			level = 1.2
		}
		for _, m := range []struct{ metric, better, fingerprint string }{{"seconds", "lower", "one"}, {"rate", "higher", "one"}} {
			points = append(points, Point{Key: Key{Workload: "redis", Metric: m.metric, Fingerprint: m.fingerprint}, At: day(i), Label: fmt.Sprint("commit-", i),
				Value: level * math.Exp(0.005*r.NormFloat64()), Better: m.better})
		}
		// The same step, but with a new fingerprint: another series, no alarm.
		points = append(points, Point{Key: Key{Workload: "redis", Metric: "seconds", Fingerprint: fmt.Sprint("kernel-", i/20)}, At: day(i),
			Value: level * math.Exp(0.005*r.NormFloat64()), Better: "lower"})
	}
	alarms := 0
	for _, s := range Changes(points, ChangeOptions{}) {
		for i := 1; i < len(s.Points); i++ {
			if s.Points[i].At.Before(s.Points[i-1].At) {
				t.Fatalf("%+v: points out of order", s.Key)
			}
		}
		if strings.HasPrefix(s.Key.Fingerprint, "kernel") {
			if len(s.Changes) != 0 || len(s.Points) != 20 {
				t.Errorf("%+v: %d points, changes %+v", s.Key, len(s.Points), s.Changes)
			}
			continue
		}
		alarms++
		if len(s.Changes) != 1 {
			t.Errorf("%+v: changes %+v", s.Key, s.Changes)
			continue
		}
		c := s.Changes[0]
		if c.Index != 20 || c.Label != "commit-20" || math.Abs(c.Ratio-1.2) > 0.01 || c.Worse != (s.Key.Metric == "seconds") {
			t.Errorf("%+v: change %+v", s.Key, c)
		}
	}
	if alarms != 2 {
		t.Errorf("%d series of one fingerprint, want 2", alarms)
	}
	for _, s := range Changes(points, ChangeOptions{Magnitude: 0.3}) {
		if len(s.Changes) != 0 {
			t.Errorf("a change of 20 %% is reported where 30 %% was asked for: %+v", s.Changes)
		}
	}
}

func TestPoints(t *testing.T) {
	l := redis().also("native", "latency_seconds", "seconds", "lower", 0.001)
	l.Commit = &result.Commit{ID: "abc", At: l.StartedAt}
	ps, _ := Points(l.Experiment)
	if len(ps) != 3 || ps[0].Label != "abc" || ps[0].Fingerprint != "fp-native" || ps[0].Identity != "sha256:op=get" {
		t.Errorf("points %+v", ps)
	}
	l.Environments[0].Fingerprint = ""
	if ps, _ := Points(l.Experiment); len(ps) != 1 {
		t.Errorf("an arm without a fingerprint adds points: %+v", ps)
	}
}

// TestNothingPanics concludes documents with holes.
func TestNothingPanics(t *testing.T) {
	for _, e := range []*result.Experiment{
		{},
		{Environments: []result.Environment{{ID: "a"}, {ID: "b"}}},
		{Environments: []result.Environment{{ID: "a"}, {ID: "b"}}, Cases: []result.Case{{ID: "c"}}, Runs: []result.Run{{Env: "a", Case: "c"}, {Env: "b", Case: "c"}, {Env: "x", Case: "y"}},
			Workload: result.Workload{Metrics: []result.MetricDesc{{Name: "m", Better: "lower"}}}, Design: result.Design{Primary: "m"}},
	} {
		Conclude(e, Options{})
		for _, c := range e.Comparisons {
			if c.Verdict != stats.Invalid {
				t.Errorf("a verdict from nothing: %+v", c)
			}
		}
		if r := Gate(e, GateOptions{}); r.Status != NotValid {
			t.Errorf("gate of nothing: %+v", r)
		}
		Points(e)
		if _, err := Calibrate(e); err == nil {
			t.Error("calibrated from nothing")
		}
	}
}
