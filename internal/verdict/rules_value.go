package verdict

import (
	"fmt"
	"math"
	"strings"

	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/stats"
)

// The shares of a ceiling at which an arm stands at it, and beyond which a value
// cannot be true. The payload of TCP is 94 % of the line rate at an MTU of 1500
// (1448 of 1538 bytes), so a full link shows less than its speed.
const (
	atCeiling     = 0.90
	aboveCeiling  = 1.02
	cacheAnswers  = 0.90 // of the bytes asked for, seen at the block layer
	clientBusy    = 0.90 // of the load generator's CPUs
	lateRequests  = 0.01 // sent more than 1 ms after their time
	superlinearly = 1.05
)

// against is how far a value has come to a ceiling: 1 is at it, above is impossible.
func against(c result.Ceiling, v float64, better int8) float64 {
	if better < 0 {
		return c.Value / v
	}
	return v / c.Value
}

// ceilings calls f for every ceiling that is known for an arm's primary or other
// compared metric, with how far the arm has come to it.
func (p *pass) ceilings(k *contest, env *result.Environment, f func(c result.Ceiling, d *result.MetricDesc, v, share float64)) {
	for _, c := range p.e.Design.Ceilings {
		if d := p.e.Desc(c.Metric); (c.Env == "" || c.Env == env.ID) && better(d) != 0 && c.Value > 0 {
			if v := p.median(k.cas, env.ID, c.Metric); !math.IsNaN(v) {
				f(c, d, v, against(c, v, better(d)))
			}
		}
	}
}

var impossibleValue = Rule{
	ID:     "impossible-value",
	Doc:    "A value is better than what the device or the link can physically give: something else answered, as a cache does, or the column is another one.",
	Effect: "invalid, without a ratio",
	Help:   "bypass or drop the caches, guest and host; use more data than memory; check which column the number is from",
	check: func(p *pass) {
		for _, k := range p.contests {
			for _, env := range []*result.Environment{k.base, k.treat} {
				p.ceilings(k, env, func(c result.Ceiling, d *result.MetricDesc, v, share float64) {
					if share > aboveCeiling {
						p.say(withdraw, scope{cas: k.cas.ID, arm: env.ID, metric: d.Name}, values{"value": v, "ceiling": c.Value},
							"%s of %s in %s is %s, %.3g times what is possible (%s: %s)", d.Name, k.cas.ID, env.ID, quantity(v, d.Unit), share, c.Source, quantity(c.Value, d.Unit))
					}
				})
			}
		}
	},
}

var saturated = Rule{
	ID:     "saturated",
	Doc:    "An arm stands at a known ceiling (link, quota, device). What it could do without is not known, so the ratio is a bound.",
	Effect: "a bound with one arm at the ceiling; invalid with both, as their ratio is that of the ceiling with itself",
	Help:   "raise the ceiling (a faster link, more clients, a larger quota) or lower the load until neither arm is near it",
	check: func(p *pass) {
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
				c := p.comparison(k, d.Name)
				s := k.scope().of(d.Name)
				switch {
				case b && t:
					p.say(refuse, s, nil, "both %s and %s stand at the ceiling of %s in %s: %s", k.base.ID, k.treat.ID, d.Name, k.cas.ID, p.ceilingOf(d))
				case b || t:
					// The better value of the arm at its ceiling would move the ratio one way only.
					if c.Bound = result.AtMost; t == (better(d) > 0) {
						c.Bound = result.AtLeast
					}
					arm := k.base.ID
					if t {
						arm = k.treat.ID
					}
					e := warn
					if c.Primary && c.Verdict != stats.Cost && b || c.Primary && c.Verdict != stats.Gain && t {
						e = doubt // what lies beyond the ceiling may undo the verdict
					}
					p.say(e, s, nil, "%s stands at the ceiling of %s in %s (%s): the ratio is a bound", arm, d.Name, k.cas.ID, p.ceilingOf(d))
				}
			}
		}
	},
}

func (p *pass) ceilingOf(d *result.MetricDesc) string {
	for _, c := range p.e.Design.Ceilings {
		if c.Metric == d.Name {
			return fmt.Sprintf("%s: %s", c.Source, quantity(c.Value, d.Unit))
		}
	}
	return ""
}

// named finds the metric that a workload declares under a name of common use,
// with or without the workload's own prefix; "" where it has none.
func (p *pass) named(name string) string {
	for _, d := range p.e.Workload.Metrics {
		if d.Name == name || strings.HasSuffix(d.Name, "_"+name) {
			return d.Name
		}
	}
	return ""
}

var cacheAnswered = Rule{
	ID:     "cache-answered",
	Doc:    "The block layer saw fewer requests than the job asked for (metric block_layer_ratio below 0.9): a cache answered, not the device.",
	Effect: "invalid where it is so in one arm only, a warning where it is so in both or where the arms are declared to differ in a parameter of the job; a note where the block layer was not seen",
	Help:   "use direct I/O and a file of twice the memory, drop the caches before each run; to compare caches, make both arms cached",
	check: func(p *pass) {
		name := p.named("block_layer_ratio")
		if name == "" {
			return
		}
		for _, k := range p.contests {
			b, t := p.median(k.cas, k.base.ID, name), p.median(k.cas, k.treat.ID, name)
			v := values{"baseline": b, "treatment": t}
			switch {
			case math.IsNaN(b) || math.IsNaN(t):
				p.unknown(k.scope(), "whether a cache answered in %s: the block layer of %s was not seen", k.cas.ID, pick(math.IsNaN(b), k.base.ID, k.treat.ID))
			case b < cacheAnswers && t < cacheAnswers:
				p.say(warn, k.scope(), v, "a cache answered in both arms of %s: the devices saw %.0f %% and %.0f %% of the requests", k.cas.ID, 100*b, 100*t)
			case (b < cacheAnswers || t < cacheAnswers) && p.e.Design.Subject != "" && p.e.Design.Subject != "environment":
				p.say(warn, k.scope(), v, "a cache answered for %s in %s: the devices saw %.0f %% and %.0f %% of the requests; the arms are declared to differ in %s",
					pick(b < t, k.base.ID, k.treat.ID), k.cas.ID, 100*b, 100*t, p.e.Design.Subject)
			case b < cacheAnswers || t < cacheAnswers:
				p.say(refuse, k.scope(), v, "a cache answered for %s in %s: the devices saw %.0f %% of the requests in %s and %.0f %% in %s",
					pick(b < t, k.base.ID, k.treat.ID), k.cas.ID, 100*b, k.base.ID, 100*t, k.treat.ID)
			}
		}
	},
}

func pick(first bool, a, b string) string {
	if first {
		return a
	}
	return b
}

var clientLimited = Rule{
	ID:     "client-limited",
	Doc:    "The load generator was the bottleneck: its CPUs were busy (client_cpu_ratio above 0.9) or it sent more than 1 % of the requests late (late_ratio above 0.01).",
	Effect: "invalid",
	Help:   "give the client more cores, run it elsewhere, or lower the rate",
	check: func(p *pass) {
		for _, r := range []struct {
			metric string
			limit  float64
			what   string
		}{{"client_cpu_ratio", clientBusy, "of its CPUs were busy"}, {"late_ratio", lateRequests, "of the requests were sent late"}} {
			name := p.named(r.metric)
			if name == "" {
				continue
			}
			for _, k := range p.contests {
				for _, env := range []string{k.base.ID, k.treat.ID} {
					switch v := p.median(k.cas, env, name); {
					case math.IsNaN(v):
						p.unknown(scope{cas: k.cas.ID, arm: env}, "whether the client was the bottleneck of %s in %s: no run has %s", k.cas.ID, env, name)
					case v > r.limit:
						p.say(refuse, scope{cas: k.cas.ID, arm: env}, values{"ratio": v}, "the client was the bottleneck of %s in %s: %.3g %% %s", k.cas.ID, env, 100*v, r.what)
					}
				}
			}
		}
	},
}

var sameHostClient = Rule{
	ID:     "same-host-client",
	Doc:    "The load came from the machine that ran the servers: both share its processors and caches, and there was no network between them.",
	Effect: "a note",
	Help:   "run the load on another machine (--client ssh:HOST), or give the server and the client CPUs of their own",
	check: func(p *pass) {
		if p.e.Design.Client == result.SameHost {
			p.say(tell, scope{}, nil, "the load generator ran on the machine of the servers")
		}
	},
}

var wideInterval = Rule{
	ID:     "wide-interval",
	Doc:    "The interval contains 1 and reaches beyond the margin: neither a cost nor equivalence can be claimed. What would have been found, and how many pairs would settle it, is said.",
	Effect: "a note: the verdict is inconclusive by its interval",
	Help:   "run the number of pairs that is named, or accept a wider margin before looking at the result",
	check: func(p *pass) {
		for i := range p.e.Comparisons {
			c := &p.e.Comparisons[i]
			if !c.Primary || c.Low == nil || !(*c.Low < 1 && *c.High > 1) || *c.Low > 1/(1+c.Margin) && *c.High < 1+c.Margin {
				continue
			}
			if c.Verdict != stats.Inconclusive { // the 90 % interval lies within the margin
				continue
			}
			v := values{"low": *c.Low, "high": *c.High, "pairs_needed": float64(c.PairsNeeded)}
			p.say(tell, scope{cas: c.Case, base: c.Baseline, treat: c.Treatment, metric: c.Metric}, v,
				"%s against %s in %s lies in %s, with a margin of %s; %s", c.Treatment, c.Baseline, c.Case, interval(*c.Low, *c.High), percent(c.Margin), settling(c))
		}
	},
}

var noiseFloor = Rule{
	ID:     "noise-floor",
	Doc:    "A difference is claimed that is smaller than what identical arms have shown on this host (A/A calibration).",
	Effect: "inconclusive; a note where there is no calibration of this host and job",
	Help:   "calibrate this workload on this host (bench calibrate), and quiet the host until its noise floor is below the effect",
	check: func(p *pass) {
		if p.e.Design.Calibration {
			return
		}
		for _, k := range p.contests {
			c := p.comparison(k, p.e.Design.Primary)
			if c == nil || c.Cost == nil || c.Low == nil || c.High == nil {
				continue
			}
			f, ok := p.o.Calibration.covers(p.e, k)
			if !ok {
				p.unknown(scope{}, "whether the difference is more than identical arms show: there is no A/A calibration of this host and job")
				continue
			}
			floor := p.floor(k)
			if (*c.Low > 1 || *c.High < 1) && math.Abs(math.Log(*c.Cost)) <= math.Log1p(floor) {
				p.say(doubt, k.scope().of(c.Metric), values{"cost_ratio": *c.Cost, "noise_floor": floor},
					"a cost of %s in %s is within the noise floor of %s that %d identical pairs showed", ratio(*c.Cost), k.cas.ID, percent(floor), f.Pairs)
			}
		}
	},
}

var otherPlatform = Rule{
	ID:     "other-platform",
	Doc:    "The arms did not run on the same host (grade C: the same kind of host, D: another platform). The ratio is a difference of platforms: it carries no cause and is not called overhead.",
	Effect: "a note: the grade says so",
	Help:   "run both arms on one host, in one interleaved experiment",
	check: func(p *pass) {
		for _, k := range p.contests {
			if k.grade != result.GradeC && k.grade != result.GradeD {
				continue
			}
			for _, e := range []*result.Environment{k.base, k.treat} {
				if e.Hardware.Serial == "" {
					p.unknown(k.arms(), "whether %s ran on the same host: %s", e.ID, missing(e, "hardware.host_id"))
				}
			}
			p.say(tell, k.arms(), nil, "%s and %s were not shown to run on one host: grade %s, a platform difference", k.treat.ID, k.base.ID, k.grade)
		}
	},
}
