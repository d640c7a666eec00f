package verdict

import (
	"fmt"
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

// Sentence states a comparison in words, from its own fields only, so no headline can cite another cell. It says
// "costs" only for grades A and B.
func Sentence(e *result.Experiment, c *result.Comparison) string {
	d := e.Desc(c.Metric)
	on := e.Workload.Name
	if c.Case != "" && c.Case != "default" {
		on += " " + c.Case
	}
	what := c.Metric
	if c.BaseMedian != nil && c.TreatMedian != nil && d != nil {
		what += fmt.Sprintf(": %s against %s", metric.Value(*c.TreatMedian, d.Unit), metric.Value(*c.BaseMedian, d.Unit))
	}
	tail := fmt.Sprintf("(%s), grade %s, %s", what, c.Grade, metric.Plural(c.Pairs, replicate(c)))
	if dims := beside(e.Design.Subject, c.Changed); len(dims) > 0 && c.Verdict != stats.Invalid {
		tail += "; they also differ in " + strings.Join(dims, ", ")
	}
	t, b := c.Treatment, c.Baseline
	switch {
	case c.Verdict == stats.Invalid:
		return fmt.Sprintf("invalid: %s against %s on %s (%s): %s", t, b, on, c.Metric, first(c.Reasons))
	case c.Ratio == nil || c.Low == nil || c.High == nil || c.Cost == nil:
		single := ""
		if c.Ratio != nil {
			single = " " + metric.Times(*c.Ratio) + " without an interval"
		}
		return fmt.Sprintf("no verdict: %s against %s on %s%s %s: %s", t, b, on, single, tail, first(c.Reasons))
	case c.Verdict == stats.Inconclusive:
		s := fmt.Sprintf("inconclusive: %s against %s on %s is %s %s; %s", t, b, on, asRatio(c), tail, settling(c))
		if why := first(c.Reasons); why != "" {
			s += "; " + why
		}
		return s
	case c.Verdict == "":
		return fmt.Sprintf("%s against %s on %s is %s %s, no verdict on a metric that is not the primary one", t, b, on, asRatio(c), tail)
	case Term(c.Grade) != "overhead":
		return fmt.Sprintf("platform difference: %s against %s on %s is %s %s", t, b, on, asRatio(c), tail)
	case c.Verdict == stats.Equivalent:
		return fmt.Sprintf("%s and %s are equivalent within %s on %s: %s %s", t, b, metric.Percent(c.Margin), on, asRatio(c), tail)
	case c.Verdict == stats.Gain && better(d) > 0:
		return fmt.Sprintf("%s gives %s of %s on %s %s", t, asRatio(c), b, on, tail)
	}
	only := ""
	if c.Verdict == stats.Gain {
		only = "only "
	}
	return fmt.Sprintf("%s costs %s%s of %s on %s %s", t, only, asCost(c, better(d)), b, on, tail)
}

// replicate names the counted unit: pairs, or the runs of the smaller arm.
func replicate(c *result.Comparison) string {
	if strings.HasSuffix(c.Estimator, "mann-whitney") {
		return "unpaired run"
	}
	return "pair"
}

// asRatio writes the ratio as measured, with its interval and bound.
func asRatio(c *result.Comparison) string {
	return map[result.Bound]string{result.AtMost: "at most ", result.AtLeast: "at least "}[c.Bound] +
		metric.TimesOf(*c.Ratio, *c.Low, *c.High)
}

// asCost writes the cost ratio; where higher values are better, its bound is reversed.
func asCost(c *result.Comparison, better int8) string {
	word := ""
	switch {
	case c.Bound == result.AtLeast && better < 0, c.Bound == result.AtMost && better > 0:
		word = "at least "
	case c.Bound == result.AtMost || c.Bound == result.AtLeast:
		word = "at most "
	}
	return word + metric.TimesOf(*c.Cost, *c.CostLow, *c.CostHigh)
}

// settling states the smallest effect that the pairs would detect, and how many pairs would settle it.
func settling(c *result.Comparison) string {
	s := metric.Plural(c.Pairs, replicate(c))
	if c.MDE != nil {
		s += " would find " + metric.Percent(*c.MDE) + " four times in five"
	}
	if c.PairsNeeded > 0 {
		s += fmt.Sprintf(", %d would settle it", c.PairsNeeded)
	}
	return s
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
