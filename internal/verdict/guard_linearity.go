package verdict

import (
	"math"
	"strings"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/stats"
)

var linearity = Guard{
	ID:     "linearity",
	Doc:    "Time does not grow in proportion to the work (within 20 %), so the runs measured a fixed cost, not the work.",
	Effect: "invalid if ten times the work takes hardly longer; otherwise a warning; also a warning for a rate that was measured over less than a second with only one amount of work",
	Help:   "make the smallest job at least a second long, keep set-up out of the timed part, and report start-up as a separate metric",
	check: func(p *guardRun) {
		d := p.primary()
		if better(d) == 0 {
			return
		}
		rate := strings.HasSuffix(d.Unit, "_per_second") || strings.HasSuffix(d.Name, "_per_second")
		sweeps := p.sweeps(p.o.Work)
		for _, env := range p.e.Environments {
			for _, sweep := range sweeps {
				for i := 1; i < len(sweep); i++ {
					p.grows(&env, d, rate, sweep[i-1], sweep[i])
				}
			}
			if !rate || len(sweeps) > 0 {
				continue
			}
			for i := range p.e.Cases {
				c := &p.e.Cases[i]
				if t := p.seconds(c, env.ID); t < 1 {
					p.report(warn, scope{cas: c.ID, arm: env.ID}, values{"seconds": t}, "%s%s in %s is a rate, but a run takes only %s: most of that time may be a fixed cost, such as start-up", p.e.Label(d.Name), ofCase(c.ID), env.ID, metric.Value(t, "seconds"))
				}
			}
		}
	},
}

// grows checks that the time of a run grows with its work.
func (p *guardRun) grows(env *result.Environment, d *result.MetricDesc, rate bool, a, b step) {
	work := b.x / a.x
	va, vb := p.median(a.cas, env.ID, d.Name), p.median(b.cas, env.ID, d.Name)
	var growth float64
	switch wall := p.seconds(b.cas, env.ID) / p.seconds(a.cas, env.ID); {
	case rate:
		growth = (b.x / vb) / (a.x / va)
	case d.Unit == "seconds": // of the whole work or of one operation; the run's own time shows which
		growth = math.Max(vb/va, wall)
	default:
		growth = wall
	}
	s := scope{cas: b.cas.ID, arm: env.ID}
	switch {
	case math.IsNaN(growth):
		p.unknown(s, "whether the time of %s grows with %s=%g and %g in %s: a value is missing", d.Name, a.name, a.x, b.x, env.ID)
		return
	case math.Abs(growth/work-1) <= 0.2:
		return
	}
	e := warn
	if growth-1 < 0.2*(work-1) {
		e = refuse
	}
	for _, c := range []*result.Case{a.cas, b.cas} {
		p.report(e, s.in(c.ID), values{"work": work, "time": growth}, "%s: %s times the work (%s=%g to %g) takes %s times the time", env.ID, metric.Digits(work), a.name, a.x, b.x, metric.Digits(growth))
	}
}

// seconds returns the median wall time of a case's runs in an arm, NaN without any.
func (p *guardRun) seconds(c *result.Case, env string) float64 {
	var x []float64
	for _, r := range p.runs(c.ID, env) {
		if r.Status != result.Failed && r.Seconds > 0 {
			x = append(x, r.Seconds)
		}
	}
	return stats.Median(x)
}
