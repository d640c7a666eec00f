package verdict

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/stats"
)

var disturbed = Guard{
	ID: "disturbed",
	Doc: "Something other than the job affected the runs: steal, load of other programs, throttling, swap, memory pressure, EPC paging, or a cause that the engine logged. " +
		"Disturbed pairs are set aside if six other pairs remain; the file keeps all pairs. The verdict is computed with and without the disturbed pairs.",
	Effect: "inconclusive if setting pairs aside changes the verdict; also inconclusive if no pair can be set aside and steal or CPU use by other programs (more in one arm, or high in both) might explain the ratio; otherwise a warning",
	Help:   "stop other programs, use a dedicated host, or run at another time",
	check: func(p *guardRun) {
		for _, k := range p.contests {
			p.interference(k)
		}
		p.paging()
	},
}

func (p *guardRun) interference(k *armComparison) {
	d := p.primary()
	noun := pick(k.unpaired, "run", "pair")
	var which []string
	n := 0
	for _, u := range k.pairs {
		if u.cause == "" {
			continue
		}
		if n++; len(which) < 3 {
			which = append(which, fmt.Sprintf("%s %d (%s)", noun, u.pair, u.cause))
		}
	}
	v := values{"disturbed": float64(n), "pairs": float64(len(k.pairs))}
	text := fmt.Sprintf("%d of %d %ss of %s against %s%s were disturbed: %s", n, len(k.pairs), noun, k.treat.ID, k.base.ID, inCase(k.cas.ID), strings.Join(which, ", "))
	switch {
	case n == 0:
	case k.aside && better(d) != 0:
		with, without := p.statistics(k, d, true), p.statistics(k, d, false)
		if with.Verdict != without.Verdict {
			p.report(doubt, k.scope(), v, "%s; without them the verdict is %q (cost ratio %s), with them %q (%s)", text, without.Verdict, costOf(without, d), with.Verdict, costOf(with, d))
			break
		}
		p.report(warn, k.scope(), v, "%s; they are set aside, but the verdict is the same with them (cost ratio %s) and without (%s)", text, costOf(with, d), costOf(without, d))
	default:
		p.report(warn, k.scope(), v, "%s; too few undisturbed %ss remain, so all %ss are used", text, noun, noun)
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
			p.unknown(scope{arm: arm.ID}, "whether runs in %s were disturbed by %s: %s", arm.ID, disturbanceTitles(blind), why)
		}
	}
}

// disturbanceTitles puts the names of disturbances into words.
func disturbanceTitles(names []string) string {
	titles := map[string]string{"steal_ratio": "steal by the host", "foreign_cpu_ratio": "other programs", "throttle_events": "CPU throttling",
		"swap_bytes": "swapping", "memory_pressure_ratio": "memory pressure"}
	var out []string
	for _, n := range names {
		out = append(out, titles[n])
	}
	return strings.Join(out, ", ")
}

// costOf prints the cost ratio of a comparison of a metric.
func costOf(s stats.Comparison, d *result.MetricDesc) string {
	cost, _, _ := s.Cost(better(d))
	if finiteOrNil(cost) == nil {
		return "none"
	}
	return metric.Times(cost)
}

// reading returns a disturbance by its name in the document; nil if it is unknown.
func reading(r *result.Run, name string) *float64 {
	i := &r.Interference
	return map[string]*float64{"steal_ratio": i.StealRatio, "foreign_cpu_ratio": i.ForeignCPU, "throttle_events": i.ThrottleEvents,
		"swap_bytes": i.SwapBytes, "memory_pressure_ratio": i.MemoryPressure}[name]
}

// hopeless judges disturbance that could not be set aside and does not cancel within the pair: more in one arm, or so
// much that a run mostly waits. If others use the share f of the CPUs, a run lasts up to 1/(1-f) times as long as
// alone under fair sharing (longer if bound to a busy CPU). A verdict that survives such a factor stands; any other
// is withdrawn.
func (p *guardRun) hopeless(k *armComparison) {
	for _, l := range []struct {
		name, title string
		one, all    float64
	}{{"steal_ratio", "steal by the host", p.o.Limits.Steal, p.o.Limits.HopelessSteal}, {"foreign_cpu_ratio", "CPU use by other programs", p.o.Limits.Foreign, p.o.Limits.HopelessForeign}} {
		base, treat := p.typical(k.base.ID, k.cas.ID, l.name), p.typical(k.treat.ID, k.cas.ID, l.name)
		most := max(base, treat)
		if math.IsNaN(most) || math.Abs(base-treat) <= l.one && most <= l.all {
			continue
		}
		factor := 1 / (1 - min(most, 0.99))
		v := values{"baseline": base, "treatment": treat, "factor": factor}
		text := fmt.Sprintf("%s%s is typically %s in %s and %s in %s, which may slow a run by a factor of up to %s", l.title, inCase(k.cas.ID), metric.Percent(base), k.base.ID, metric.Percent(treat), k.treat.ID, metric.Digits(factor))
		c := p.comparison(k, p.e.Design.Primary)
		if c != nil && c.Low != nil && (*c.Low > factor || *c.High < 1/factor) {
			p.report(warn, k.scope(), v, "%s; the interval is beyond that factor, so the verdict stands", text)
			continue
		}
		p.report(doubt, k.scope(), v, "%s; this does not cancel within a pair", text)
	}
}

// typical returns the median of a disturbance over the runs of a case in an arm.
func (p *guardRun) typical(env, cas, name string) float64 {
	var x []float64
	for _, r := range p.runs(cas, env) {
		if v := reading(r, name); v != nil {
			x = append(x, *v)
		}
	}
	return stats.Median(x)
}

// paging warns of SGX pages evicted during the runs: the enclave did not fit. That is a separate cost unless the
// experiment is about it.
func (p *guardRun) paging() {
	for cas, arm := range p.each {
		pages, runs := 0.0, 0
		for _, r := range p.runs(cas.ID, arm) {
			for _, c := range r.Counters {
				if c.Name == "tee_sgx_epc_pages_evicted_total" && c.Value != nil && *c.Value > 0 {
					pages, runs = pages+*c.Value, runs+1
				}
			}
		}
		if runs > 0 {
			p.report(warn, scope{cas: cas.ID, arm: arm}, values{"pages": pages}, "%s EPC pages were evicted in %d runs%s in %s: the result includes paging", metric.Count(pages), runs, ofCase(cas.ID), arm)
		}
	}
}
