package verdict

import (
	"cmp"
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

// MostWords is the length of the longest headline.
const MostWords = 25

// Sentence states a comparison in words, from its own fields only, so no headline can cite another cell. Its only number is
// the cost ratio, in which above 1 is worse whichever way the metric is better, as in all tables. It says "costs" only
// for grades A and B, and never of a stand-in. It has at most MostWords words: the case, the metric and the reason are named
// where they fit, and Details has the rest.
func Sentence(e *result.Experiment, c *result.Comparison) string {
	d := e.Desc(c.Metric)
	t, b := c.Treatment, c.Baseline
	arms := fmt.Sprintf("%s against %s", t, b)
	ratio := func() string { return costRatio(c, better(d)) }
	reason := strings.TrimSuffix(first(c.Reasons), ".")
	switch {
	case c.Verdict == stats.Invalid:
		return fitWords(e, c, func(on string) string { return "invalid: " + arms + on }, cmp.Or(reason, noReason))
	case c.Cost == nil:
		return fitWords(e, c, func(on string) string { return "no verdict: " + arms + on + " has no ratio" }, cmp.Or(reason, noReason))
	case c.StandIn != "" && (c.CostLow == nil || c.CostHigh == nil):
		return fitWords(e, c, func(on string) string {
			return fmt.Sprintf("stand-in: %s%s has a ratio of %s without an interval", arms, on, metric.Times(*c.Cost))
		}, c.StandIn)
	case c.StandIn != "":
		return fitWords(e, c, func(on string) string { return fmt.Sprintf("stand-in: %s%s has a ratio of %s", arms, on, ratio()) }, c.StandIn)
	case c.CostLow == nil || c.CostHigh == nil:
		return fitWords(e, c, func(on string) string {
			return fmt.Sprintf("no verdict: %s%s has a cost ratio of %s without an interval", arms, on, metric.Times(*c.Cost))
		}, "")
	case c.Verdict == stats.Inconclusive:
		return fitWords(e, c, func(on string) string {
			return fmt.Sprintf("inconclusive: %s%s has a cost ratio of %s", arms, on, ratio())
		}, "")
	case c.Verdict == "":
		return fitWords(e, c, func(on string) string { return fmt.Sprintf("%s%s has a cost ratio of %s", arms, on, ratio()) }, "")
	case Term(c.Grade) != "overhead":
		return fitWords(e, c, func(on string) string {
			return fmt.Sprintf("platform difference: %s%s has a cost ratio of %s", arms, on, ratio())
		}, "")
	case c.Verdict == stats.Equivalent:
		return fitWords(e, c, func(on string) string {
			return fmt.Sprintf("%s and %s are equivalent within %s%s: cost ratio %s", t, b, metric.Percent(c.Margin), on, ratio())
		}, "")
	}
	only := ""
	if c.Verdict == stats.Gain && c.Bound != result.AtMost && c.Bound != result.AtLeast {
		only = "only "
	}
	return fitWords(e, c, func(on string) string { return fmt.Sprintf("%s costs %s%s as much as %s%s", t, only, ratio(), b, on) }, "")
}

// fitWords returns a sentence with as much of the workload, case, metric and reason as MostWords leave room for. say puts
// the words about the job (" on redis GET") into the sentence.
func fitWords(e *result.Experiment, c *result.Comparison, say func(on string) string, reason string) string {
	on := " on " + cmp.Or(e.Workload.Name, "an unnamed workload")
	kase := ""
	if c.Case != "" && c.Case != onlyCase {
		kase = " " + c.Case
	}
	label := " (" + e.Label(c.Metric) + ")"
	why := ""
	if reason != "" {
		why = ": " + reason
		if c.StandIn != "" && c.Verdict != stats.Invalid {
			why = "; " + reason
		}
	}
	s := ""
	long, short := say(on+kase), say(on)
	for _, s = range []string{long + label + why, long + why, long + label + clause(why), long + clause(why), long + label, long, short} {
		if len(strings.Fields(s)) <= MostWords {
			return s
		}
	}
	// Names with many spaces: the words that carry the verdict come first.
	words := strings.Fields(s)
	return strings.Join(words[:MostWords], " ")
}

// clause returns the first clause of a reason.
func clause(why string) string {
	if i := strings.IndexAny(why[min(2, len(why)):], ";:("); i >= 0 {
		return strings.TrimRight(why[:i+2], " ")
	}
	return why
}

// onlyCase is the case of an experiment that varies nothing.
const onlyCase = "default"

// Details returns what a headline leaves out, each fact in a sentence of its own with at most one ratio.
func Details(e *result.Experiment, c *result.Comparison) []string {
	var out []string
	d := e.Desc(c.Metric)
	if c.BaseMedian != nil && c.TreatMedian != nil && d != nil {
		out = append(out, fmt.Sprintf("%s: %s in %s against %s in %s.", capitalized(e.Label(c.Metric)),
			metric.Value(*c.TreatMedian, d.Unit), c.Treatment, metric.Value(*c.BaseMedian, d.Unit), c.Baseline))
		if m := mediansDiffer(c, better(d)); m != "" {
			out = append(out, m)
		}
	}
	headline := c.Headline
	if headline == "" {
		headline = Sentence(e, c)
	}
	if why := strings.TrimSuffix(first(c.Reasons), "."); (c.Verdict == stats.Invalid || c.Cost == nil) && why != "" && !strings.Contains(headline, why) {
		out = append(out, capitalized(why)+".")
	}
	if c.StandIn != "" {
		if !strings.Contains(headline, c.StandIn) {
			out = append(out, capitalized(c.StandIn)+".")
		}
		out = append(out, "A stand-in shows how the measurement works. It says nothing about the cost of the real thing.")
	}
	if c.Verdict == "" {
		out = append(out, "Only the primary metric has a verdict.")
	}
	if dims := otherDimensions(e.Design.Subject, c.Changed); len(dims) > 0 && c.Verdict != stats.Invalid {
		out = append(out, "The arms also differ in "+strings.Join(dims, ", ")+".")
	}
	return out
}

func capitalized(s string) string {
	if s == "" || s[0] < 'a' || s[0] > 'z' {
		return s
	}
	return string(s[0]-'a'+'A') + s[1:]
}

// phrase fills in the words of a comparison.
func phrase(e *result.Experiment, c *result.Comparison) {
	c.Open = whatDecides(e, c)
	c.Headline = Sentence(e, c)
	c.Details = Details(e, c)
}

// standIn says why a comparison is not of real environments, or of a real device; "" if it is.
func standIn(e *result.Experiment, c *result.Comparison) string {
	for _, id := range []string{c.Treatment, c.Baseline} {
		if v := e.Environment(id); v != nil && v.StandIn() != "" {
			return id + " " + v.StandIn()
		}
	}
	if d := e.Desc(c.Metric); d != nil && d.Simulated() {
		return "the device is simulated"
	}
	return ""
}

// mediansDiffer says that the printed ratio is not that of the medians beside it; "" if it is.
func mediansDiffer(c *result.Comparison, better int8) string {
	if c.Cost == nil || better == 0 {
		return ""
	}
	ratio := *c.TreatMedian / *c.BaseMedian
	if better > 0 {
		ratio = 1 / ratio
	}
	if !metric.FactorsDiffer(ratio, *c.Cost) {
		return ""
	}
	return fmt.Sprintf("The ratio of these two medians is %s. The headline's ratio is estimated from the %ss (Hodges-Lehmann), so it can differ.", metric.Times(ratio), c.Replicate())
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
func (p *guardRun) value(v float64, name string) string {
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
