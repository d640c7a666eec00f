package verdict

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/stats"
)

var tooFewPairs = Rule{
	ID:     "too-few-pairs",
	Doc:    "Fewer than 6 valid pairs: the exact signed-rank test cannot reach 5 % with five (2/2^5 = 6.25 %), so there is no interval.",
	Effect: "inconclusive; invalid without a single pair",
	Help:   "run with --pairs 10 or more; --quick makes exactly 6 and has none to lose",
	check: func(p *pass) {
		for _, k := range p.contests {
			c := p.comparison(k, p.e.Design.Primary)
			switch {
			case c == nil: // has its own rule: missing-metric
			case c.Pairs == 0:
				p.say(refuse, k.scope(), values{"pairs": 0}, "no pair of %s has a value in both %s and %s", k.cas.ID, k.base.ID, k.treat.ID)
			case c.Pairs < stats.MinPairs:
				p.say(doubt, k.scope(), values{"pairs": float64(c.Pairs)}, "%s of %s, at least %d are needed", counted(c.Pairs, "valid pair"), k.cas.ID, stats.MinPairs)
			}
		}
	},
}

// counted writes a number with its noun.
func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

var failedRuns = Rule{
	ID:     "failed-runs",
	Doc:    "Runs failed, or gave no value of the primary metric. What is left may be the lucky ones: when more than a fifth of an arm is lost, the rest does not speak for it.",
	Effect: "inconclusive when more than a fifth of an arm is lost, else a warning",
	Help:   "read the reasons of the failed runs; a job that fails under one arm is a finding of its own",
	check: func(p *pass) {
		for _, k := range p.contests {
			for _, arm := range []string{k.base.ID, k.treat.ID} {
				runs, lost, why := p.runs(k.cas.ID, arm), 0, ""
				for _, r := range runs {
					m := r.Metric(p.e.Design.Primary)
					if unsteady(r) || r.Status != result.Failed && m != nil && m.Value != nil {
						continue
					}
					lost, why = lost+1, reason(r, m)
				}
				if lost == 0 || lost == len(runs) { // all: missing-metric
					continue
				}
				e := warn
				if 5*lost > len(runs) {
					e = doubt
				}
				p.say(e, scope{cas: k.cas.ID, arm: arm}, values{"lost": float64(lost), "runs": float64(len(runs))},
					"%d of %d runs of %s in %s gave no value, the last because: %s", lost, len(runs), k.cas.ID, arm, why)
			}
		}
	},
}

func unsteady(r *result.Run) bool { return r.Warmup != nil && !r.Warmup.Steady }

var noSteadyState = Rule{
	ID:     "no-steady-state",
	Doc:    "Runs never settled, so their mean is the mean of a warm-up. They give no ratio.",
	Effect: "invalid when half of an arm's runs or more never settled, else a warning",
	Help:   "make the runs longer; look at the series in the report for what keeps changing",
	check: func(p *pass) {
		for _, k := range p.contests {
			for _, arm := range []string{k.base.ID, k.treat.ID} {
				runs, n, blind := p.runs(k.cas.ID, arm), 0, ""
				for _, r := range runs {
					if unsteady(r) {
						n++
					}
					if r.Warmup == nil && r.Missing["warmup"] != "" {
						blind = r.Missing["warmup"]
					}
				}
				s := scope{cas: k.cas.ID, arm: arm}
				v := values{"unsteady": float64(n), "runs": float64(len(runs))}
				switch {
				case blind != "":
					p.unknown(s, "whether %s settled in %s: %s", k.cas.ID, arm, blind)
				case 2*n >= len(runs) && n > 0:
					p.say(withdraw, s, v, "%d of %d runs of %s in %s reached no steady state", n, len(runs), k.cas.ID, arm)
				case n > 0:
					p.say(warn, s, v, "%d of %d runs of %s in %s reached no steady state and do not count", n, len(runs), k.cas.ID, arm)
				}
			}
		}
	},
}

var disturbed = Rule{
	ID: "disturbed",
	Doc: "Something else moved the runs: steal, foreign load, throttling, swap, memory pressure, EPC paging, or a cause that the engine logged. " +
		"Disturbed pairs are set aside while six others remain, and stay in the file; the verdict is made with and without them.",
	Effect: "inconclusive when the verdict changes with the pairs set aside; or where none can be set aside, when the CPU time that others took, more from one arm or more than half of it, might explain the ratio; else a warning",
	Help:   "stop what else runs, move to a host of your own, or run at another time",
	check: func(p *pass) {
		for _, k := range p.contests {
			p.interference(k)
			p.paging(k)
		}
	},
}

func (p *pass) interference(k *contest) {
	d := p.primary()
	noun := pick(k.unpaired, "run", "pair")
	var which []string
	n := 0
	for _, u := range k.duos {
		if u.cause == "" {
			continue
		}
		if n++; len(which) < 3 {
			which = append(which, fmt.Sprintf("%s %d (%s)", noun, u.pair, u.cause))
		}
	}
	v := values{"disturbed": float64(n), "pairs": float64(len(k.duos))}
	text := fmt.Sprintf("%d of %d %ss of %s against %s in %s were disturbed: %s", n, len(k.duos), noun, k.treat.ID, k.base.ID, k.cas.ID, strings.Join(which, ", "))
	switch {
	case n == 0:
	case k.aside && better(d) != 0:
		with, without := p.statistics(k, d, true), p.statistics(k, d, false)
		if with.Verdict != without.Verdict {
			p.say(doubt, k.scope(), v, "%s; without them the verdict is %q (%.4g), with them %q (%.4g)", text, without.Verdict, without.Ratio, with.Verdict, with.Ratio)
			break
		}
		p.say(warn, k.scope(), v, "%s; they are set aside, the verdict is the same with them (%.4g) and without (%.4g)", text, with.Ratio, without.Ratio)
	default:
		p.say(warn, k.scope(), v, "%s; too few others are left, so none is set aside", text)
		p.hopeless(k)
	}
	for _, arm := range []*result.Environment{k.base, k.treat} {
		var blind []string
		why := noReason
		for _, r := range p.runs(k.cas.ID, arm.ID) {
			for _, name := range []string{"steal_ratio", "foreign_cpu_ratio", "throttle_events", "swap_bytes", "memory_pressure_ratio"} {
				if reading(r, name) != nil || slices.Contains(blind, name) {
					continue
				}
				blind = append(blind, name)
				if w := r.Interference.Missing[name]; w != "" {
					why = w
				}
			}
		}
		if len(blind) > 0 {
			p.unknown(scope{arm: arm.ID}, "whether runs in %s were disturbed by %s: %s", arm.ID, strings.Join(blind, ", "), why)
		}
	}
}

// reading of a disturbance by its name in the document; nil where it is not known.
func reading(r *result.Run, name string) *float64 {
	i := &r.Interference
	return map[string]*float64{"steal_ratio": i.StealRatio, "foreign_cpu_ratio": i.ForeignCPU, "throttle_events": i.ThrottleEvents,
		"swap_bytes": i.SwapBytes, "memory_pressure_ratio": i.MemoryPressure}[name]
}

// hopeless judges disturbance that had to be left in and that does not cancel in
// the pair: more in one arm, or so much that a run is mostly waiting. Where others
// take the share f of the CPUs, a run takes up to 1/(1-f) times as long as alone
// if they are shared fairly (a run that is bound to a busy CPU may take longer), so
// a verdict stands that would survive such a factor, and another is taken back.
func (p *pass) hopeless(k *contest) {
	for _, l := range []struct {
		name     string
		one, all float64
	}{{"steal_ratio", p.o.Limits.Steal, p.o.Limits.HopelessSteal}, {"foreign_cpu_ratio", p.o.Limits.Foreign, p.o.Limits.HopelessForeign}} {
		base, treat := p.typical(k.base.ID, k.cas.ID, l.name), p.typical(k.treat.ID, k.cas.ID, l.name)
		most := max(base, treat)
		if math.IsNaN(most) || math.Abs(base-treat) <= l.one && most <= l.all {
			continue
		}
		factor := 1 / (1 - min(most, 0.99))
		v := values{"baseline": base, "treatment": treat, "factor": factor}
		text := fmt.Sprintf("%s in %s is typically %.0f %% in %s and %.0f %% in %s, which may be a factor of up to %.2g", l.name, k.cas.ID, 100*base, k.base.ID, 100*treat, k.treat.ID, factor)
		c := p.comparison(k, p.e.Design.Primary)
		if c != nil && c.Low != nil && (*c.Low > factor || *c.High < 1/factor) {
			p.say(warn, k.scope(), v, "%s; the interval lies beyond it", text)
			continue
		}
		p.say(doubt, k.scope(), v, "%s: this does not cancel in a pair", text)
	}
}

// typical is the median of a disturbance over the runs of a case in an arm.
func (p *pass) typical(env, cas, name string) float64 {
	var x []float64
	for _, r := range p.runs(cas, env) {
		if v := reading(r, name); v != nil {
			x = append(x, *v)
		}
	}
	return stats.Median(x)
}

// paging warns of SGX pages that were evicted during the runs: the enclave did
// not fit, which is a cost of its own unless it is what the experiment is about.
func (p *pass) paging(k *contest) {
	for _, arm := range []string{k.base.ID, k.treat.ID} {
		pages, runs := 0.0, 0
		for _, r := range p.runs(k.cas.ID, arm) {
			for _, c := range r.Counters {
				if c.Name == "tee_sgx_epc_pages_evicted_total" && c.Value != nil && *c.Value > 0 {
					pages, runs = pages+*c.Value, runs+1
				}
			}
		}
		if runs > 0 {
			p.say(warn, scope{cas: k.cas.ID, arm: arm}, values{"pages": pages}, "%.0f EPC pages were evicted in %d runs of %s in %s: paging is part of the number", pages, runs, k.cas.ID, arm)
		}
	}
}

// clocksAgree is how far a cost by the clock inside may be from that by the
// harness's; the lines that carry it from one to the other arrive with some jitter.
const clocksAgree = 0.03

var clockSource = Rule{
	ID:     "clock-source",
	Doc:    "The clock that timed the runs was not the same in all of them, or the clock inside disagrees with the harness's (clock_disagreement_ratio above 0.03): clock sources differ in cost and in rate, and a TEE's host can bend them.",
	Effect: "invalid where the harness's clock changed; inconclusive where two clocks disagree; a warning where the arms read different clocks inside",
	Help:   "pin the clock source (clocksource= on the kernel's command line) and see in the kernel's log why it was given up",
	check: func(p *pass) {
		disagreement := p.named("clock_disagreement_ratio")
		for _, k := range p.contests {
			for _, env := range []string{k.base.ID, k.treat.ID} {
				if v := p.median(k.cas, env, disagreement); math.Abs(v) > clocksAgree {
					p.say(doubt, scope{cas: k.cas.ID, arm: env}, values{"disagreement": v}, "the clock inside %s and the harness's disagree by %s in %s", env, percent(v), k.cas.ID)
				} else if disagreement != "" && math.IsNaN(v) {
					p.unknown(scope{cas: k.cas.ID, arm: env}, "whether the clock inside %s agrees with the harness's in %s: no run has %s", env, k.cas.ID, disagreement)
				}
			}
			var seen []string
			blind := 0
			for _, u := range k.duos {
				for _, r := range []*result.Run{u.base, u.treat} {
					switch {
					case r == nil:
					case r.Clock == "":
						blind++
					case !slices.Contains(seen, r.Clock):
						seen = append(seen, r.Clock)
					}
				}
			}
			switch {
			case len(seen) > 1:
				p.say(refuse, k.scope(), nil, "runs of %s were timed by different clocks: %s", k.cas.ID, strings.Join(seen, ", "))
			case blind > 0:
				p.unknown(k.scope(), "which clock timed %s of %s", counted(blind, "run"), k.cas.ID)
			}
			if b, t := k.base.Software.ClockSource, k.treat.Software.ClockSource; b != "" && t != "" && b != t {
				p.say(warn, k.arms(), nil, "%s reads the clock source %s, %s reads %s: times taken inside carry their different cost", k.base.ID, b, k.treat.ID, t)
			}
		}
	},
}

// errorLimit is the share of failed operations above which a latency is that of
// the operations that survived.
const errorLimit = 0.001

var errorRate = Rule{
	ID:     "error-rate",
	Doc:    "More than 0.1 % of the operations failed. Failed operations are often the fast or the slow ones, so the rest does not speak for all.",
	Effect: "invalid where one arm is above the limit, a warning where both are, within a factor of two",
	Help:   "lower the load until neither arm fails, or compare the error rates themselves",
	check: func(p *pass) {
		for _, k := range p.contests {
			b, errsB := p.errors(k.base.ID, k.cas.ID)
			t, errsT := p.errors(k.treat.ID, k.cas.ID)
			v := values{"baseline": b, "treatment": t}
			switch {
			case errsB+errsT == 0:
			case math.IsNaN(b) || math.IsNaN(t):
				p.unknown(k.scope(), "what share of the operations of %s failed: there were %d errors in %s and %d in %s, and no count of operations", k.cas.ID, errsB, k.base.ID, errsT, k.treat.ID)
			case max(b, t) <= errorLimit:
			case min(b, t) > errorLimit && max(b, t) <= 2*min(b, t):
				p.say(warn, k.scope(), v, "%.2g %% of the operations of %s failed in %s and %.2g %% in %s", 100*b, k.cas.ID, k.base.ID, 100*t, k.treat.ID)
			default:
				p.say(refuse, k.scope(), v, "%.2g %% of the operations of %s failed in %s and %.2g %% in %s: the limit is 0.1 %%", 100*b, k.cas.ID, k.base.ID, 100*t, k.treat.ID)
			}
		}
	},
}

// errors of a case in an arm: as a share of its operations (NaN where those are
// not known) and their number.
func (p *pass) errors(env, cas string) (share float64, n int) {
	ops := 0.0
	for _, r := range p.runs(cas, env) {
		for _, c := range r.Errors {
			n += c
		}
		if v, ok := value(r, p.e.Workload.Operations); ok {
			ops += v
		}
	}
	switch {
	case n == 0:
		return 0, 0
	case ops == 0:
		return math.NaN(), n
	}
	return float64(n) / ops, n
}

var outliers = Rule{
	ID:     "outliers",
	Doc:    "Runs lie far from the others of their arm (modified z-score of the logarithm above 3.5, a warning above 10). They are shown and never deleted for being odd.",
	Effect: "a note or a warning; the estimator is robust against a few",
	Help:   "look at the run's interference and raw output; more pairs make a single one matter less",
	check: func(p *pass) {
		for _, k := range p.contests {
			for _, env := range []string{k.base.ID, k.treat.ID} {
				runs, x := p.logs(k.cas.ID, env)
				for i, z := range stats.Flags(x) {
					if !(math.Abs(z) > 3.5) || len(x) < stats.MinPairs {
						continue
					}
					e := tell
					if math.Abs(z) > 10 {
						e = warn
					}
					p.say(e, scope{cas: k.cas.ID, arm: env, metric: p.e.Design.Primary}, values{"value": math.Exp(x[i]), "z": z},
						"run %s has %.4g where %s in %s has a median of %.4g (modified z-score %.1f)", runs[i].ID, math.Exp(x[i]), k.cas.ID, env, math.Exp(stats.Median(x)), z)
				}
			}
		}
	},
}

// logs are the logarithms of the primary metric of a case in an arm.
func (p *pass) logs(cas, env string) ([]*result.Run, []float64) {
	var runs []*result.Run
	var x []float64
	for _, r := range p.runs(cas, env) {
		if v, ok := value(r, p.e.Design.Primary); ok && v > 0 {
			runs, x = append(runs, r), append(x, math.Log(v))
		}
	}
	return runs, x
}

var bimodal = Rule{
	ID:     "bimodal",
	Doc:    "The runs of an arm fall into two groups (dip or gap test). One number does not describe them; both modes are given.",
	Effect: "inconclusive where the ratios of the pairs fall into two groups as well; a warning where only the runs do, as a mode that both arms share cancels in the pair",
	Help:   "find what switches (NUMA node, huge pages, boost, which core) and fix it, or make each mode a case",
	check: func(p *pass) {
		d := p.primary()
		if better(d) == 0 {
			return
		}
		for _, k := range p.contests {
			base, treat := k.values(d.Name, false)
			var ratios []float64
			for i := range min(len(base), len(treat)) {
				if base[i] > 0 && treat[i] > 0 {
					ratios = append(ratios, math.Log(treat[i]/base[i]))
				}
			}
			both := !k.unpaired && stats.Modes(ratios).Two
			for _, env := range []string{k.base.ID, k.treat.ID} {
				_, x := p.logs(k.cas.ID, env)
				m := stats.Modes(x)
				v := values{"low": math.Exp(m.Low), "high": math.Exp(m.High)}
				switch {
				case m.Two && (both || k.unpaired):
					p.say(doubt, scope{cas: k.cas.ID, arm: env, metric: d.Name}, v, "%s of %s in %s has two modes, %.4g and %.4g, and they do not cancel", d.Name, k.cas.ID, env, v["low"], v["high"])
				case m.Two:
					p.say(warn, scope{cas: k.cas.ID, arm: env, metric: d.Name}, v, "%s of %s in %s has two modes, %.4g and %.4g", d.Name, k.cas.ID, env, v["low"], v["high"])
				case m.Reason != "" && len(x) >= stats.MinPairs:
					p.unknown(scope{cas: k.cas.ID, arm: env}, "whether %s in %s has two modes: %s", k.cas.ID, env, m.Reason)
				}
			}
		}
	},
}
