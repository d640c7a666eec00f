package verdict

import (
	"math"
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/explain"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/stats"
)

// armComparison is a treatment against a baseline in one case, before any metric.
type armComparison struct {
	cas         *result.Case
	base, treat *result.Environment
	rung        int // of a ladder, from 1; 0 is none
	grade       result.Grade
	changed     []result.Difference
	unpaired    bool
	pairs       []runPair
	// aside: disturbed pairs are left out, because enough others remain.
	aside bool
}

// runPair is a pair of runs; in an unpaired design one side is nil.
type runPair struct {
	pair        int
	base, treat *result.Run
	cause       string // why it is disturbed; "" if it is not
	barred      bool   // by the engine, so never used
}

// arrange makes the contests: in each case every treatment against the baseline, then every rung of a ladder against
// the one before.
func (p *guardRun) arrange() {
	envs := p.e.Environments
	ladder := slices.ContainsFunc(envs, func(e result.Environment) bool { return e.Role == result.Intermediate })
	for i := range p.e.Cases {
		c := &p.e.Cases[i]
		for j := 1; j < len(envs); j++ {
			k := p.contest(c, &envs[0], &envs[j])
			if ladder && j == 1 {
				k.rung = 1
			}
			p.contests = append(p.contests, k)
		}
		for j := 2; ladder && j < len(envs); j++ {
			k := p.contest(c, &envs[j-1], &envs[j])
			k.rung = j
			p.contests = append(p.contests, k)
		}
	}
}

func (p *guardRun) contest(c *result.Case, base, treat *result.Environment) *armComparison {
	k := &armComparison{cas: c, base: base, treat: treat, unpaired: p.e.Design.Kind == result.Unpaired}
	k.grade = grade(p.e.Design.Kind, base, treat)
	if p.o.Diff != nil {
		k.changed = p.o.Diff(base, treat)
	}
	bases, treats := p.runs(c.ID, base.ID), p.runs(c.ID, treat.ID)
	if k.unpaired {
		for _, r := range bases {
			k.pairs = append(k.pairs, p.duo(r, nil))
		}
		for _, r := range treats {
			k.pairs = append(k.pairs, p.duo(nil, r))
		}
	} else {
		for _, b := range bases {
			if i := slices.IndexFunc(treats, func(t *result.Run) bool { return t.Pair == b.Pair }); i >= 0 {
				k.pairs = append(k.pairs, p.duo(b, treats[i]))
			}
		}
	}
	var cleanBases, cleanTreats int
	for _, d := range k.pairs {
		if d.cause == "" && d.base != nil {
			cleanBases++
		}
		if d.cause == "" && d.treat != nil {
			cleanTreats++
		}
	}
	k.aside = min(cleanBases, cleanTreats) >= stats.MinPairs
	return k
}

// each goes through the cases and the environments that ran them, also those that are compared with none.
func (p *guardRun) each(yield func(cas *result.Case, env string) bool) {
	for i := range p.e.Cases {
		for _, env := range p.e.Environments {
			if cas := &p.e.Cases[i]; len(p.runs(cas.ID, env.ID)) > 0 && !yield(cas, env.ID) {
				return
			}
		}
	}
}

// runs returns the runs of a case in an arm, in the order of their pairs.
func (p *guardRun) runs(cas, env string) []*result.Run {
	var out []*result.Run
	for i := range p.e.Runs {
		if r := &p.e.Runs[i]; r.Case == cas && r.Env == env {
			out = append(out, r)
		}
	}
	slices.SortStableFunc(out, func(a, b *result.Run) int { return a.Pair - b.Pair })
	return out
}

func (p *guardRun) duo(base, treat *result.Run) runPair {
	d := runPair{base: base, treat: treat}
	for _, r := range []*result.Run{base, treat} {
		if r == nil {
			continue
		}
		d.pair = r.Pair
		if r.Status == result.Excluded {
			d.barred, d.cause = true, r.Env+": "+r.Reason
		}
		if why := Disturbed(r, p.o.Limits); why != "" && d.cause == "" {
			d.cause = r.Env + ": " + why
		}
	}
	return d
}

// Disturbed names the disturbance of a run that exceeds its limit, measured independently of its metrics; "" when
// none is known.
func Disturbed(r *result.Run, l Limits) string {
	i := &r.Interference
	switch {
	case exceeds(i.StealRatio, l.Steal):
		return metric.Percent(*i.StealRatio) + " steal"
	case exceeds(i.ForeignCPU, l.Foreign):
		return "other programs used " + metric.Percent(*i.ForeignCPU) + " of the CPUs"
	case exceeds(i.ThrottleEvents, l.Throttles):
		return metric.Count(*i.ThrottleEvents) + " throttling events"
	case exceeds(i.SwapBytes, l.SwapBytes):
		return metric.Value(*i.SwapBytes, "bytes") + " swapped"
	case exceeds(i.MemoryPressure, l.Pressure):
		return "waited for memory " + metric.Percent(*i.MemoryPressure) + " of the time"
	}
	return ""
}

func exceeds(v *float64, limit float64) bool { return v != nil && *v > limit }

// takesPart reports whether the pair takes part in the comparison.
func (k *armComparison) takesPart(d runPair) bool { return !d.barred && (!k.aside || d.cause == "") }

// compared returns the pairs in use, for explanations.
func (k *armComparison) compared() explain.Arms {
	a := explain.Arms{Case: k.cas.ID, Base: k.base, Treat: k.treat, Unpaired: k.unpaired}
	for _, d := range k.pairs {
		if k.takesPart(d) {
			a.Pairs = append(a.Pairs, explain.Pair{Base: d.base, Treat: d.treat})
		}
	}
	return a
}

// values returns a metric's values in both arms, of the pairs in use or of all.
func (k *armComparison) values(metric string, all bool) (base, treat []float64) {
	for _, d := range k.pairs {
		if !all && !k.takesPart(d) {
			continue
		}
		b, okB := value(d.base, metric)
		t, okT := value(d.treat, metric)
		if okB && (okT || k.unpaired) {
			base = append(base, b)
		}
		if okT && (okB || k.unpaired) {
			treat = append(treat, t)
		}
	}
	return base, treat
}

// value returns a run's value of a metric. ok is false unless it was measured or derived in a run that succeeded and
// reached its steady state.
func value(r *result.Run, metric string) (float64, bool) {
	if r == nil || r.Status == result.Failed || r.Warmup != nil && !r.Warmup.Steady {
		return 0, false
	}
	m := r.Metric(metric)
	if m == nil || m.Value == nil || m.Source != result.Measured && m.Source != result.Derived {
		return 0, false
	}
	return *m.Value, true
}

// compare makes the comparison of a metric; guards may still refuse it.
func (p *guardRun) compare(k *armComparison, d *result.MetricDesc) (result.Comparison, stats.Comparison) {
	s := p.statistics(k, d, false)
	c := result.Comparison{
		Baseline: k.base.ID, Treatment: k.treat.ID, Case: k.cas.ID, Metric: d.Name,
		Primary: d.Name == p.e.Design.Primary, Changed: k.changed, Estimator: s.Estimator,
		Ratio: finiteOrNil(s.Ratio), Low: finiteOrNil(s.Low), High: finiteOrNil(s.High), Confidence: p.o.Confidence,
		BootLow: finiteOrNil(s.BootLow), BootHigh: finiteOrNil(s.BootHigh), Pairs: s.Pairs,
		BaseMedian: finiteOrNil(s.BaseMedian), TreatMedian: finiteOrNil(s.TreatMedian), SDLog: finiteOrNil(s.SDLog), MDE: finiteOrNil(s.MDE),
		Margin: p.o.Margin, Bound: result.Exact, Grade: k.grade, Rung: k.rung,
	}
	if finiteOrNil(s.Confidence) != nil {
		c.Confidence = s.Confidence
	}
	cost, low, high := s.Cost(better(d))
	c.Cost, c.CostLow, c.CostHigh = finiteOrNil(cost), finiteOrNil(low), finiteOrNil(high)
	if f := p.floor(k); f > 0 {
		c.NoiseFloor = &f
	}
	if c.Primary || c.Ratio == nil || c.Low == nil {
		c.Reasons = s.Reasons
	}
	if c.Primary {
		c.Verdict, c.Material, c.PairsNeeded = s.Verdict, s.Material, s.Needed
	}
	return c, s
}

// statistics returns the statistics of a metric over the pairs in use or over all.
func (p *guardRun) statistics(k *armComparison, d *result.MetricDesc, all bool) stats.Comparison {
	base, treat := k.values(d.Name, all)
	o := stats.Options{Margin: p.o.Margin, Confidence: p.o.Confidence, Better: better(d), Seed: p.e.Design.Seed, NoiseFloor: p.floor(k)}
	if k.unpaired {
		return stats.Unpaired(base, treat, o)
	}
	return stats.Paired(base, treat, o)
}

// floor returns the noise floor of a contest's host and job, 0 if it is unknown.
func (p *guardRun) floor(k *armComparison) float64 {
	f, ok := p.o.Calibration.covers(p.e, k)
	switch {
	case !ok:
		return 0
	case k.unpaired:
		return max(f.Paired, f.Drift)
	}
	return f.Paired
}

// grade returns the grade of a comparison. Hosts of unknown identity count as different.
func grade(kind result.Kind, base, treat *result.Environment) result.Grade {
	same := base.Hardware.Serial != "" && base.Hardware.Serial == treat.Hardware.Serial
	switch {
	case same && kind == result.Interleaved:
		return result.GradeA
	case same:
		return result.GradeB
	case base.Class != "" && base.Class == treat.Class || sameModel(base, treat):
		return result.GradeC
	}
	return result.GradeD
}

// sameModel reports whether the machines are of one kind. It does not compare the class of the environments, which
// includes the launcher and TEE under comparison.
func sameModel(a, b *result.Environment) bool {
	x, y := &a.Hardware, &b.Hardware
	return x.CPUModel != "" && x.CPUModel == y.CPUModel && x.CPUFamily == y.CPUFamily && x.CPUs == y.CPUs && x.Sockets == y.Sockets &&
		instance(a) == instance(b)
}

func instance(e *result.Environment) string {
	if e.Cloud == nil {
		return ""
	}
	return e.Cloud.Provider + " " + e.Cloud.InstanceType
}

// finiteOrNil returns v, or nil for NaN and infinities.
func finiteOrNil(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

// median returns a metric's median over the usable runs of a case in an arm, NaN without any.
func (p *guardRun) median(c *result.Case, env, metric string) float64 {
	var x []float64
	for _, r := range p.runs(c.ID, env) {
		if v, ok := value(r, metric); ok {
			x = append(x, v)
		}
	}
	return stats.Median(x)
}

// noReason stands in for an unrecorded reason.
const noReason = "the result records no reason"

// missing returns the recorded reason for a missing field of an environment, or for the object that holds it, or else
// noReason.
func missing(e *result.Environment, path string) string {
	for at := path; at != ""; {
		if why := e.Missing[at]; why != "" {
			return why
		}
		at = at[:max(0, strings.LastIndexByte(at, '.'))]
	}
	return noReason
}

// named returns the workload's metric of a common name, with or without the workload's own prefix; "" if it has none.
func (p *guardRun) named(name string) string {
	for _, d := range p.e.Workload.Metrics {
		if d.Name == name || strings.HasSuffix(d.Name, "_"+name) {
			return d.Name
		}
	}
	return ""
}
