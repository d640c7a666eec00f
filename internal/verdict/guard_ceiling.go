package verdict

import (
	"fmt"
	"math"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/stats"
)

// The shares of a ceiling from which an arm counts as limited by it, and beyond which a value is impossible. The
// payload of TCP is 94 % of the line rate at an MTU of 1500 (1448 of 1538 bytes), so a full link stays below its
// nominal speed.
const (
	atCeiling    = 0.90
	aboveCeiling = 1.02
	cacheAnswers = 0.90 // of the requested bytes, seen at the block layer
	clientBusy   = 0.90 // of the load generator's CPUs
	lateRequests = 0.01 // sent more than 1 ms late
	sentAgain    = 0.01 // of the requests
)

// shareOfCeiling returns a value as a share of a ceiling: 1 is at it, above is impossible.
func shareOfCeiling(c result.Ceiling, v float64, better int8) float64 {
	if better < 0 {
		return c.Value / v
	}
	return v / c.Value
}

// ceilings calls f for every known ceiling of an arm's compared metrics, with the arm's share of it.
func (p *guardRun) ceilings(k *armComparison, env *result.Environment, f func(c result.Ceiling, d *result.MetricDesc, v, share float64)) {
	for _, c := range p.e.Design.Ceilings {
		if d := p.e.Desc(c.Metric); (c.Env == "" || c.Env == env.ID) && better(d) != 0 && c.Value > 0 {
			if v := p.median(k.cas, env.ID, c.Metric); !math.IsNaN(v) {
				f(c, d, v, shareOfCeiling(c, v, better(d)))
			}
		}
	}
}

var impossibleValue = Guard{
	ID:     "impossible-value",
	Doc:    "A value is better than the device or link can physically deliver: a cache answered, or the number comes from the wrong column.",
	Effect: "invalid, without a ratio",
	Help:   "bypass or drop the caches of guest and host; use more data than memory; check that the number was read from the right column of the tool's output",
	check: func(p *guardRun) {
		for _, k := range p.contests {
			for _, env := range []*result.Environment{k.base, k.treat} {
				p.ceilings(k, env, func(c result.Ceiling, d *result.MetricDesc, v, share float64) {
					if share > aboveCeiling {
						p.report(withdraw, scope{cas: k.cas.ID, arm: env.ID, metric: d.Name}, values{"value": v, "ceiling": c.Value},
							"%s%s in %s is %s, %s times what is possible (%s: %s)", p.e.Label(d.Name), ofCase(k.cas.ID), env.ID, metric.Value(v, d.Unit), metric.Digits(share), c.Source, metric.Value(c.Value, d.Unit))
					}
				})
			}
		}
	},
}

var saturated = Guard{
	ID:     "saturated",
	Doc:    "An arm reached a known ceiling (link, quota, device). The speed of this arm without the ceiling is unknown, so the ratio is only a bound.",
	Effect: "a bound if one arm is at the ceiling; invalid if both arms are, because the ratio compares the ceiling with itself",
	Help:   "raise the ceiling (a faster link, more clients, a larger quota) or lower the load until neither arm is near it",
	check: func(p *guardRun) {
		for _, k := range p.contests {
			at := map[string]bool{} // "b" or "t" and the metric
			for side, env := range map[string]*result.Environment{"b": k.base, "t": k.treat} {
				p.ceilings(k, env, func(_ result.Ceiling, d *result.MetricDesc, _, share float64) {
					if share >= atCeiling && share <= aboveCeiling {
						at[side+d.Name] = true
					}
				})
			}
			for _, d := range p.metrics() {
				b, t := at["b"+d.Name], at["t"+d.Name]
				arm := k.base.ID
				if t {
					arm = k.treat.ID
				}
				switch {
				case b && t:
					p.report(refuse, k.scope().withMetric(d.Name), nil, "both %s and %s reached the ceiling of %s%s: %s", k.base.ID, k.treat.ID, p.e.Label(d.Name), inCase(k.cas.ID), p.ceilingOf(d))
				case b || t:
					p.bound(k, d, t, fmt.Sprintf("%s reached the ceiling of %s%s (%s)", arm, p.e.Label(d.Name), inCase(k.cas.ID), p.ceilingOf(d)))
				}
			}
		}
	},
}

// bound makes a ratio a bound, because one of the arms, the treatment or the baseline, was limited by something else.
func (p *guardRun) bound(k *armComparison, d *result.MetricDesc, treat bool, why string) {
	c := p.comparison(k, d.Name)
	// Without the limit the arm would be better still, so the ratio could move one way only.
	b := result.AtMost
	if treat == (better(d) > 0) {
		b = result.AtLeast
	}
	s := k.scope().withMetric(d.Name)
	if c.Bound != result.Exact && c.Bound != b {
		p.report(refuse, s, nil, "%s, and a limit was found in the other arm too: the ratio compares their limits", why)
		return
	}
	c.Bound = b
	e := warn
	if c.Primary && c.Verdict != stats.Cost && !treat || c.Primary && c.Verdict != stats.Gain && treat {
		e = doubt // a value beyond the limit could reverse the verdict
	}
	p.report(e, s, nil, "%s: the ratio is a bound", why)
}

func (p *guardRun) ceilingOf(d *result.MetricDesc) string {
	for _, c := range p.e.Design.Ceilings {
		if c.Metric == d.Name {
			return fmt.Sprintf("%s: %s", c.Source, metric.Value(c.Value, d.Unit))
		}
	}
	return ""
}
