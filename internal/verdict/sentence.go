package verdict

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/stats"
)

// Term returns the permitted name of a difference of this grade.
func Term(g result.Grade) string {
	if g == result.GradeA || g == result.GradeB {
		return "overhead"
	}
	return "platform difference"
}

// Sentence states a comparison in words, from its own fields only, so no headline can cite another cell. Its number is
// the cost ratio, in which above 1 is worse whichever way the metric is better, as in all tables. It says "costs" only
// for grades A and B.
func Sentence(e *result.Experiment, c *result.Comparison) string {
	d := e.Desc(c.Metric)
	t, b := c.Treatment, c.Baseline
	on := e.Workload.Name
	if c.Case != "" && c.Case != "default" {
		on += " " + c.Case
	}
	arms := fmt.Sprintf("%s against %s on %s", t, b, on)
	what := e.Label(c.Metric)
	if c.BaseMedian != nil && c.TreatMedian != nil && d != nil {
		what += fmt.Sprintf(": %s against %s", metric.Value(*c.TreatMedian, d.Unit), metric.Value(*c.BaseMedian, d.Unit)) + centre(c, better(d))
	}
	tail := fmt.Sprintf("(%s), grade %s, %s", what, c.Grade, metric.Plural(c.Pairs, c.Replicate()))
	if dims := beside(e.Design.Subject, c.Changed); len(dims) > 0 && c.Verdict != stats.Invalid {
		tail += "; they also differ in " + strings.Join(dims, ", ")
	}
	switch {
	case c.Verdict == stats.Invalid:
		return fmt.Sprintf("invalid: %s (%s): %s", arms, e.Label(c.Metric), cmp.Or(first(c.Reasons), noReason))
	case c.Cost == nil:
		return fmt.Sprintf("no verdict: %s %s: %s", arms, tail, cmp.Or(first(c.Reasons), noReason))
	case c.CostLow == nil || c.CostHigh == nil:
		return fmt.Sprintf("no verdict: %s has a cost ratio of %s without an interval %s: %s", arms, metric.Times(*c.Cost), tail, cmp.Or(first(c.Reasons), noReason))
	case c.Verdict == stats.Inconclusive:
		s := fmt.Sprintf("inconclusive: %s has a cost ratio of %s %s", arms, costRatio(c, better(d)), tail)
		for _, more := range []string{c.Deciding(), first(c.Reasons)} {
			if more != "" {
				s += "; " + more
			}
		}
		return s
	case c.Verdict == "":
		return fmt.Sprintf("%s has a cost ratio of %s %s, no verdict on a metric that is not the primary one", arms, costRatio(c, better(d)), tail)
	case Term(c.Grade) != "overhead":
		return fmt.Sprintf("platform difference: %s has a cost ratio of %s %s", arms, costRatio(c, better(d)), tail)
	case c.Verdict == stats.Equivalent:
		return fmt.Sprintf("%s and %s are equivalent within %s on %s: cost ratio %s %s", t, b, metric.Percent(c.Margin), on, costRatio(c, better(d)), tail)
	}
	only := ""
	if c.Verdict == stats.Gain && c.Bound != result.AtMost && c.Bound != result.AtLeast {
		only = "only "
	}
	return fmt.Sprintf("%s costs %s%s as much as %s on %s %s", t, only, costRatio(c, better(d)), b, on, tail)
}

// Restated returns a document with the headlines that this version gives it: older versions worded them otherwise, and
// gave some ratios in the other direction. The document itself, which may be signed, is not changed.
func Restated(e *result.Experiment) *result.Experiment {
	out := *e
	out.Comparisons = slices.Clone(e.Comparisons)
	for i := range out.Comparisons {
		if c := &out.Comparisons[i]; c.Headline != "" {
			c.Headline = Sentence(e, c)
		}
	}
	return &out
}

// centre says what the printed ratio is, where a reader who divides the medians beside it gets another one.
func centre(c *result.Comparison, better int8) string {
	if c.Cost == nil || better == 0 {
		return ""
	}
	medians := *c.TreatMedian / *c.BaseMedian
	if better > 0 {
		medians = 1 / medians
	}
	if !metric.Apart(medians, *c.Cost) {
		return ""
	}
	return fmt.Sprintf(", medians whose cost ratio is %s; %s is the centre of the %ss", metric.Times(medians), metric.Times(*c.Cost), c.Replicate())
}

// costRatio writes the cost ratio with its interval and bound, which is reversed where higher values are better.
func costRatio(c *result.Comparison, better int8) string {
	word := ""
	switch {
	case c.Bound == result.AtLeast && better <= 0, c.Bound == result.AtMost && better > 0:
		word = "at least "
	case c.Bound == result.AtMost || c.Bound == result.AtLeast:
		word = "at most "
	}
	return word + metric.TimesOf(*c.Cost, *c.CostLow, *c.CostHigh)
}

// first returns the reason that decided a comparison.
func first(reasons []string) string {
	if len(reasons) == 0 {
		return ""
	}
	return reasons[0]
}

// value prints a value of a metric with its unit, if that was declared.
func (p *pass) value(v float64, name string) string {
	if d := p.e.Desc(name); d != nil {
		return metric.Value(v, d.Unit)
	}
	return metric.Value(v, "")
}

func pick(first bool, a, b string) string {
	if first {
		return a
	}
	return b
}
