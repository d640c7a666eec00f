package verdict

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/stats"
)

// Refused is a result that a history keeps but does not use, with the reason: a guard of Refusals, or that no run has
// a usable value.
type Refused struct {
	Key
	At    time.Time `json:"at"`
	Label string    `json:"label"` // commit, or the experiment's id
	// Value is the median of the runs, null without a value.
	Value  *float64 `json:"value"`
	Reason string   `json:"reason"`
}

// invalidArm is the guard of an arm that is kept without the arms it was compared with.
const invalidArm = "invalid-arm"

// Refusals returns guards for an arm that is kept by itself, as a commit is in a history: one for each case in which
// every comparison with an arm that has values is invalid, with the reason. A comparison with an arm without values
// says nothing about this one.
func Refusals(e *result.Experiment, arm string) []result.Guard {
	p := newPass(e, Options{})
	var out []result.Guard
	for i := range e.Cases {
		c := &e.Cases[i]
		for _, d := range p.metrics() {
			why := p.refusal(c, arm, d.Name)
			if why == "" || slices.ContainsFunc(out, func(g result.Guard) bool { return g.Case == c.ID && g.Message == why }) {
				continue
			}
			g := result.Guard{ID: invalidArm, Level: result.Refuse, Message: why, Help: "see the original result for all comparisons", Case: c.ID}
			if d.Name != e.Design.Primary {
				g.Metric = d.Name
			}
			out = append(out, g)
		}
	}
	return out
}

// refusal returns why all comparisons of an arm's metric in a case are invalid. It returns "" if one is valid, if
// there is none, or if the arm has no value.
func (p *guardRun) refusal(cas *result.Case, arm, metric string) string {
	if finiteOrNil(p.median(cas, arm, metric)) == nil {
		return ""
	}
	why := ""
	for i := range p.e.Comparisons {
		c := &p.e.Comparisons[i]
		other := c.Baseline
		switch {
		case c.Case != cas.ID || c.Metric != metric:
			continue
		case c.Baseline == arm:
			other = c.Treatment
		case c.Treatment != arm:
			continue
		}
		if finiteOrNil(p.median(cas, other, metric)) == nil {
			continue
		}
		if c.Verdict != stats.Invalid {
			return ""
		}
		if why == "" && len(c.Reasons) > 0 {
			why = fmt.Sprintf("not comparable with %s: %s", other, c.Reasons[0])
		}
	}
	return why
}

// refusedBy returns the message of the guard that keeps a value of a case out of its history; "" for none.
func (p *guardRun) refusedBy(cas, metric string) string {
	for _, g := range p.e.Guards {
		if g.ID == invalidArm && (g.Case == "" || g.Case == cas) && (g.Metric == "" || g.Metric == metric) {
			return cmp.Or(g.Message, noReason)
		}
	}
	return ""
}

// whyMissing returns why no run of a case in an arm has a metric. It returns "" if that does not matter, because another
// metric is primary and runs succeeded.
func (p *guardRun) whyMissing(c *result.Case, arm, metric string) string {
	why, well := "no run was made", false
	for _, r := range p.runs(c.ID, arm) {
		if why = reason(r, r.Metric(metric)); unsteady(r) {
			why = "it reached no steady state"
		}
		well = well || r.Status != result.Failed
	}
	if well && metric != p.e.Design.Primary {
		return ""
	}
	return why
}
