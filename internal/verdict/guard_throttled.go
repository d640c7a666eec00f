package verdict

import (
	"fmt"
	"math"
	"slices"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/stats"
)

// A provider limits a disk or a link by a bucket of credit: a rate above the limit holds until the credit is used up, and
// the limit itself from then on, as a flat line at the same height in every run. Noise has no such line, and a warm-up rises.
const (
	limitWindows = 4    // the least on the line
	limitFlat    = 0.05 // how far windows on the line deviate, and the lines of runs from each other
	limitFall    = 0.80 // the highest line next to the rate before it
)

// fall is a run whose rate fell onto a line.
type fall struct {
	burst, sustained float64 // the medians before and after
	after            float64 // seconds
}

// fallOf finds the fall in a run's windows.
func fallOf(w *result.Warmup) (f fall, ok bool) {
	if w == nil {
		return f, false
	}
	n := len(w.Windows)
	line := max(limitWindows, n/3)
	if n < line+2 {
		return f, false
	}
	level := stats.Median(w.Windows[n-line:])
	at := n
	for at > 0 && math.Abs(w.Windows[at-1]-level) <= limitFlat*level {
		at--
	}
	if n-at < line || at < 2 {
		return f, false
	}
	before := w.Windows[:at]
	f = fall{burst: stats.Median(before), sustained: stats.Median(w.Windows[at:]), after: float64(at) * w.Width}
	return f, f.sustained > 0 && f.sustained <= limitFall*f.burst && slices.Min(before) > f.sustained
}

// limit is the line onto which at least half of an arm's runs fell, all at one height.
func (p *guardRun) limit(cas, arm string) (mean fall, n, of int) {
	var burst, sustained, after []float64
	runs := p.runs(cas, arm)
	for _, r := range runs {
		if f, ok := fallOf(r.Warmup); ok && r.Status == result.OK {
			burst, sustained, after = append(burst, f.burst), append(sustained, f.sustained), append(after, f.after)
		}
	}
	n, of = len(burst), len(runs)
	if n < 2 || 2*n < of {
		return mean, 0, of
	}
	mean = fall{stats.Median(burst), stats.Median(sustained), stats.Median(after)}
	if slices.Max(sustained)-slices.Min(sustained) > 2*limitFlat*mean.sustained {
		return mean, 0, of
	}
	return mean, n, of
}

var throttled = Guard{
	ID: "throttled",
	Doc: "The rate fell during the runs to a constant level, the same in each run: a provider's credit for bursts, or a cache, was used up. " +
		"The mean mixes burst and limit; the message gives the burst and the limit.",
	Effect: "a bound if one arm is limited; invalid if both are, because the ratio compares the limits",
	Help:   "to measure the limit, leave out the burst (longer `omit` or `ramp`); to stay below the limit, set `rate`; or rent a machine or disk with a higher limit",
	check: func(p *guardRun) {
		d := p.primary()
		if better(d) <= 0 {
			return // windows of times do not show a limit
		}
		for _, k := range p.contests {
			limited := map[bool]bool{}
			for _, treat := range []bool{false, true} {
				env := k.base
				if treat {
					env = k.treat
				}
				f, n, of := p.limit(k.cas.ID, env.ID)
				if n == 0 {
					continue
				}
				limited[treat] = true
				p.report(tell, scope{cas: k.cas.ID, arm: env.ID, metric: d.Name}, values{"burst": f.burst, "sustained": f.sustained, "seconds": f.after},
					"in %d of %d runs%s in %s, %s fell from %s to %s after %s and stayed there: this is a limit, not the speed of the arm", n, of, ofCase(k.cas.ID), env.ID, p.e.Label(d.Name),
					metric.Value(f.burst, d.Unit), metric.Value(f.sustained, d.Unit), metric.Value(f.after, "seconds"))
			}
			switch {
			case limited[false] && limited[true]:
				p.report(refuse, k.scope().withMetric(d.Name), nil, "both %s and %s were throttled%s: the ratio compares their limits", k.base.ID, k.treat.ID, inCase(k.cas.ID))
			case limited[false] || limited[true]:
				arm := k.base.ID
				if limited[true] {
					arm = k.treat.ID
				}
				p.bound(k, d, limited[true], fmt.Sprintf("%s was throttled%s", arm, inCase(k.cas.ID)))
			}
		}
	},
}
