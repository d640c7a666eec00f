package verdict

import (
	"fmt"
	"slices"

	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/stats"
)

// Guard is one reason to refuse a verdict or to doubt it. It warns, is silent, or reports that it
// could not check; unknown never counts as fine.
type Guard struct {
	ID, Doc string
	// Effect on the verdict, in words.
	Effect string
	// Help is how a better measurement avoids it.
	Help  string
	check func(*guardRun)
}

// Guards are evaluated in this order: first those about the job and the arms, then those about runs, values and
// intervals.
var Guards = []Guard{
	missingMetric, differentJob, severalDimensions, changedMeanwhile, specValue,
	teeEvidence, teeInBaseline, teeDebug, emulated, madeUp, declaredStandIn,
	tooFewPairs, failedRuns, noSteadyState, disturbed, clockSource, errorRate, outliers, bimodal,
	impossibleValue, saturated, throttled, cacheAnswered, clientLimited, retried, bottleneck, suspectBaseline, linearity,
	wideInterval, noiseFloor, otherPlatform, machineClocks, sameHostClient,
}

// effect is what a guard's message does to the comparisons in its scope.
type effect uint8

const (
	tell     effect = iota // a note; the verdict stands
	warn                   // a warning; the verdict stands, with the warning as a reason
	doubt                  // cost, gain or equivalent becomes inconclusive
	refuse                 // the verdict is invalid; the ratio stays
	withdraw               // invalid, and the ratio is removed: the values do not belong together
)

// scope selects comparisons; an empty field selects all. arm is on either side.
type scope struct{ cas, base, treat, arm, metric string }

func (k *armComparison) scope() scope {
	return scope{cas: k.cas.ID, base: k.base.ID, treat: k.treat.ID}
}

// arms returns the scope of a contest in all cases.
func (k *armComparison) arms() scope { return scope{base: k.base.ID, treat: k.treat.ID} }

func (s scope) withMetric(metric string) scope { s.metric = metric; return s }
func (s scope) in(cas string) scope            { s.cas = cas; return s }

func (s scope) has(c *result.Comparison) bool {
	return (s.cas == "" || s.cas == c.Case) && (s.base == "" || s.base == c.Baseline) &&
		(s.treat == "" || s.treat == c.Treatment) && (s.metric == "" || s.metric == c.Metric) &&
		(s.arm == "" || s.arm == c.Baseline || s.arm == c.Treatment)
}

// spoken is the message of a guard, with its scope and effect.
type spoken struct {
	result.Guard
	scope  scope
	effect effect
}

// values are the numbers of a message, by name.
type values = map[string]float64

// report records a message of the current guard; equal messages about the same arms are recorded
// once.
func (p *guardRun) report(e effect, s scope, v values, format string, args ...any) {
	p.record(e, s, v, p.guard.Help, fmt.Sprintf(format, args...))
}

// record keeps a message of the current guard with what helps, once.
func (p *guardRun) record(e effect, s scope, v values, help, message string) {
	f := spoken{scope: s, effect: e, Guard: result.Guard{ID: p.guard.ID, Level: result.Note, Message: message,
		Help: help, Case: s.cas, Treatment: s.treat, Metric: s.metric, Values: v}}
	if s.arm != "" && s.arm != p.e.Environments[0].ID {
		f.Treatment = s.arm
	}
	switch e {
	case warn, doubt:
		f.Level = result.Warn
	case refuse, withdraw:
		f.Level = result.Refuse
	}
	if !slices.ContainsFunc(p.spoken, func(o spoken) bool {
		return o.ID == f.ID && o.Message == f.Message && o.scope == f.scope
	}) {
		p.spoken = append(p.spoken, f)
	}
}

// unknown records that the current guard could not check, and why. What helps against what it looks for is no help then.
func (p *guardRun) unknown(s scope, format string, args ...any) {
	p.record(tell, s, nil, "", "not checked: "+fmt.Sprintf(format, args...))
}

// ofCase returns " of " and a case for a message, "" for the only case of an experiment, whose name says nothing.
func ofCase(id string) string { return caseAfter(" of ", id) }

// inCase is ofCase with another preposition.
func inCase(id string) string { return caseAfter(" in ", id) }

func caseAfter(preposition, id string) string {
	if id == "" || id == onlyCase {
		return ""
	}
	return preposition + id
}

// settle writes the guards and applies them to the comparisons, most severe first, so the first reason of a
// comparison is the decisive one.
func (p *guardRun) settle() {
	var all []spoken
	for _, g := range p.e.Guards { // of others, such as the engine
		if slices.ContainsFunc(Guards, func(r Guard) bool { return r.ID == g.ID }) {
			continue
		}
		f := spoken{Guard: g, scope: scope{cas: g.Case, treat: g.Treatment, metric: g.Metric}}
		switch g.Level {
		case result.Refuse:
			f.effect = refuse
		case result.Warn:
			f.effect = warn
		}
		all = append(all, f)
	}
	all = append(all, p.spoken...)
	p.e.Guards = nil
	for _, f := range all {
		p.e.Guards = append(p.e.Guards, f.Guard)
	}
	slices.SortStableFunc(all, func(a, b spoken) int { return int(b.effect) - int(a.effect) })
	decisive := make([]int, len(p.e.Comparisons)) // number of reasons that decided
	for _, f := range all {
		for i := range p.e.Comparisons {
			if c := &p.e.Comparisons[i]; f.effect > tell && f.scope.has(c) {
				if f.effect > warn {
					c.Reasons = slices.Insert(slices.Clone(c.Reasons), decisive[i], f.Message)
					decisive[i]++
				} else {
					c.Reasons = append(c.Reasons, f.Message)
				}
				f.effect.apply(c)
				p.doubted[i] = p.doubted[i] || f.effect == doubt
			}
		}
	}
	for i := range p.e.Comparisons {
		if c := &p.e.Comparisons[i]; c.PairsNeeded > 0 && blocker(p.e, c) != "" {
			c.PairsNeeded = 0
		}
	}
}

// apply applies the effect to a comparison.
func (e effect) apply(c *result.Comparison) {
	switch e {
	case doubt:
		if c.Primary && c.Verdict != stats.Invalid {
			c.Verdict, c.Material = stats.Inconclusive, false
		}
	case refuse, withdraw:
		c.Verdict, c.Material, c.PairsNeeded = stats.Invalid, false, 0
	}
	if e == withdraw {
		c.Ratio, c.Low, c.High, c.Cost, c.CostLow, c.CostHigh, c.BootLow, c.BootHigh = nil, nil, nil, nil, nil, nil, nil, nil
		c.MDE, c.SDLog = nil, nil
	}
}

// comparison returns the comparison of a contest and a metric, or nil.
func (p *guardRun) comparison(k *armComparison, metric string) *result.Comparison {
	s := k.scope().withMetric(metric)
	for i := range p.e.Comparisons {
		if c := &p.e.Comparisons[i]; s.has(c) {
			return c
		}
	}
	return nil
}

// primary returns the declaration of the primary metric, or nil.
func (p *guardRun) primary() *result.MetricDesc { return p.e.Desc(p.e.Design.Primary) }
