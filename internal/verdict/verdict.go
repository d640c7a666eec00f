// Package verdict decides what may be concluded from the runs of an experiment, and states it in words. It pairs the
// runs, lets package stats compare them, and asks every guard whether the numbers can be trusted. It is pure: it
// reads no clock and no file, and the same document gives the same answer.
//
// Only the primary metric gets a verdict, because among many metrics some move by chance. The others carry a ratio,
// an interval and an empty verdict, unless a guard refused them, which makes it "invalid".
package verdict

import (
	"cmp"
	"slices"

	"github.com/teescope/teescope/internal/explain"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/stats"
)

// DefaultMargin is the smallest cost that matters where the design names none.
const DefaultMargin = 0.03

// Options of a conclusion. The zero value is usable; without Diff the guards that
// compare environments report that they could not check.
type Options struct {
	// Margin is the smallest cost that matters, as a ratio minus 1; 0 is the design's.
	Margin float64
	// Confidence of intervals; 0 is 1 minus the design's alpha.
	Confidence float64
	// Diff lists the fields in which two environments differ.
	Diff func(base, treat *result.Environment) []result.Difference
	// Catalog has the prices and causes of attributions; nil has none.
	Catalog *explain.Catalog
	// Calibration is the noise floor of this host, from Calibrate; nil without one. That of
	// another host or job is not used.
	Calibration *NoiseFloor
	// Limits of disturbance; the zero value is DefaultLimits.
	Limits Limits
	// Scaling names the parameters that add processors to the same work, Work those that add work. nil selects
	// "threads", and "messages", "requests", "operations", "iterations" and "loops".
	Scaling, Work []string
}

// Limits are the disturbances, measured apart from the metric, beyond which a
// pair is set aside. A null reading sets nothing aside.
type Limits struct {
	// Steal is the share of CPU time that the hypervisor gave to others; 2 %
	// moves a busy run by about as much as most margins.
	Steal float64
	// Foreign is the share of all CPUs that other processes used; 10 % is more than an idle
	// desktop or monitoring agent uses.
	Foreign float64
	// Throttles is the number of thermal or power throttling events; one is enough to change the
	// clock rate for seconds.
	Throttles float64
	// SwapBytes is the number of bytes moved to and from swap: 1 MiB, since a few stale pages always move.
	SwapBytes float64
	// Pressure is the share of time in which tasks waited for memory (PSI).
	Pressure float64
	// HopelessSteal and HopelessForeign apply when no pair can be set aside. Beyond them pairing does not help: a
	// verdict that the disturbance might explain is withdrawn.
	HopelessSteal, HopelessForeign float64
}

// DefaultLimits returns the limits in use unless others are given.
func DefaultLimits() Limits {
	return Limits{Steal: 0.02, Foreign: 0.10, Throttles: 0, SwapBytes: 1 << 20, Pressure: 0.10,
		HopelessSteal: 0.10, HopelessForeign: 0.50}
}

// Conclude fills in Comparisons, Guards, Attribution and the grade of the design from the runs and environments.
// Guards of others are kept and applied. Runs are not changed, so it can be repeated with other options.
func Conclude(e *result.Experiment, o Options) { conclude(e, o) }

// Concluded returns a document with the conclusions that follow from its runs, whatever its own say: those of older versions were worded
// otherwise, and anybody can edit them. The document itself, which may be signed, is not changed.
func Concluded(e *result.Experiment, o Options) *result.Experiment {
	own := *e
	own.Guards = slices.Clone(e.Guards)
	conclude(&own, o)
	return &own
}

func conclude(e *result.Experiment, o Options) *guardRun {
	p := newPass(e, o)
	e.Comparisons, e.Design.Grade = nil, ""
	e.Digest = "" // of other conclusions
	for _, k := range p.contests {
		e.Design.Grade = max(e.Design.Grade, k.grade) // D is the worst, and the last letter
		for _, d := range p.metrics() {
			c, s := p.compare(k, d)
			e.Comparisons = append(e.Comparisons, c)
			p.raw = append(p.raw, s)
		}
	}
	for i := range Guards {
		p.guard = &Guards[i]
		p.guard.check(p)
	}
	p.settle()
	e.Attribution = nil
	for _, k := range p.contests {
		e.Attribution = append(e.Attribution, p.o.Catalog.Difference(e.UnitCosts, k.compared())...)
	}
	explain.LeaveOutMonitors(e)
	for i := range e.Comparisons {
		c := &e.Comparisons[i]
		c.StandIn = standIn(e, c)
		phrase(e, c)
		c.Cause = p.o.Catalog.CauseSentence(e, c)
	}
	return p
}

// guardRun is one conclusion in progress.
type guardRun struct {
	e        *result.Experiment
	o        Options
	contests []*armComparison
	guard    *Guard // the current one
	spoken   []spoken
	// raw are the statistics behind e.Comparisons, and doubted the guards' doubts
	// about them, in the same order.
	raw     []stats.Comparison
	doubted map[int]bool
}

func newPass(e *result.Experiment, o Options) *guardRun {
	if o.Limits == (Limits{}) {
		o.Limits = DefaultLimits()
	}
	if o.Catalog == nil {
		o.Catalog = &explain.Catalog{}
	}
	o.Margin = cmp.Or(o.Margin, e.Design.Margin, DefaultMargin)
	if a := e.Design.Alpha; o.Confidence == 0 && a > 0 && a < 1 {
		o.Confidence = 1 - a
	}
	o.Confidence = cmp.Or(o.Confidence, 0.95)
	if o.Scaling == nil {
		o.Scaling = []string{"threads"}
	}
	if o.Work == nil {
		o.Work = []string{"messages", "requests", "operations", "iterations", "loops"}
	}
	p := &guardRun{e: e, o: o, doubted: map[int]bool{}}
	p.arrange()
	return p
}

// metrics returns those with a direction, the primary one first.
func (p *guardRun) metrics() []*result.MetricDesc {
	var out []*result.MetricDesc
	for i := range p.e.Workload.Metrics {
		d := &p.e.Workload.Metrics[i]
		switch {
		case better(d) == 0:
		case d.Name == p.e.Design.Primary:
			out = slices.Insert(out, 0, d)
		default:
			out = append(out, d)
		}
	}
	return out
}

// better returns the direction of a metric in the notation of package stats.
func better(d *result.MetricDesc) int8 {
	switch {
	case d == nil:
		return 0
	case d.Better == "lower":
		return -1
	case d.Better == "higher":
		return 1
	}
	return 0
}
