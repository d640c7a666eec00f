package verdict

import (
	"math"
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/result"
)

// clocksAgree is how far a cost by the guest's clock may differ from that by the harness's: the lines between them
// arrive with some jitter.
const clocksAgree = 0.03

var clockSource = Guard{
	ID:     "clock-source",
	Doc:    "Runs were timed by different clocks, or the clock in the environment and that of teescope differ by more than 3 % (clock_disagreement_ratio). Clock sources differ in cost and rate, and a TEE's host can make a guest's clock run fast or slow.",
	Effect: "invalid if teescope timed the runs with different clock sources; inconclusive if an environment's clock and that of teescope differ by more than 3 %; a warning if the environments use different clock sources",
	Help:   "pin the clock source (clocksource= on the kernel's command line); the kernel log says why the old clock source was dropped",
	check: func(p *guardRun) {
		disagreement := p.named("clock_disagreement_ratio")
		for cas, env := range p.each {
			if v := p.median(cas, env, disagreement); math.Abs(v) > clocksAgree {
				p.report(doubt, scope{cas: cas.ID, arm: env}, values{"disagreement": v}, "the clock in %s and teescope's clock disagree by %s%s", env, metric.Percent(v), inCase(cas.ID))
			} else if disagreement != "" && math.IsNaN(v) {
				p.unknown(scope{cas: cas.ID, arm: env}, "whether the clock in %s agrees with teescope's clock in %s: no run has %s", env, cas.ID, disagreement)
			}
		}
		for _, k := range p.contests {
			var seen []string
			blind := 0
			for _, u := range k.pairs {
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
				p.report(refuse, k.scope(), nil, "runs%s were timed by different clocks: %s", ofCase(k.cas.ID), strings.Join(seen, ", "))
			case blind > 0:
				p.unknown(k.scope(), "which clock timed %s%s", metric.Plural(blind, "run"), ofCase(k.cas.ID))
			}
			if b, t := k.base.Software.ClockSource, k.treat.Software.ClockSource; b != "" && t != "" && b != t {
				p.report(warn, k.arms(), nil, "%s reads the clock source %s, and %s reads %s: times measured in the environments include the different costs of reading these clocks", k.base.ID, b, k.treat.ID, t)
			}
		}
	},
}
