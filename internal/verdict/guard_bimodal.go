package verdict

import (
	"math"

	"github.com/teescope/teescope/internal/stats"
)

var bimodal = Guard{
	ID:     "bimodal",
	Doc:    "The runs of an arm fall into two groups (dip or gap test). One number does not describe such runs; the message gives both modes.",
	Effect: "inconclusive if the ratios of the pairs also fall into two groups; a warning if only the runs do, because a mode that both arms share cancels within the pair",
	Help:   "find what switches between the modes (NUMA node, huge pages, boost, core) and fix it, or make each mode a case",
	check: func(p *guardRun) {
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
					p.report(doubt, scope{cas: k.cas.ID, arm: env, metric: d.Name}, v, "%s%s in %s has two modes, %s and %s, which do not cancel within the pairs", p.e.Label(d.Name), ofCase(k.cas.ID), env, p.value(v["low"], d.Name), p.value(v["high"], d.Name))
				case m.Two:
					p.report(warn, scope{cas: k.cas.ID, arm: env, metric: d.Name}, v, "%s%s in %s has two modes, %s and %s", p.e.Label(d.Name), ofCase(k.cas.ID), env, p.value(v["low"], d.Name), p.value(v["high"], d.Name))
				case m.Reason != "" && len(x) >= stats.MinPairs:
					p.unknown(scope{cas: k.cas.ID, arm: env}, "whether %s in %s has two modes: %s", k.cas.ID, env, m.Reason)
				}
			}
		}
	},
}
