package verdict

import (
	"fmt"
	"math"
	"strings"

	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/stats"
)

// Term is what a difference of this grade may be called.
func Term(g result.Grade) string {
	if g == result.GradeA || g == result.GradeB {
		return "overhead"
	}
	return "platform difference"
}

// Sentence is a comparison in words, made from its fields and nothing else, so
// that no headline can cite another cell than its own. It says "costs" only for
// grades A and B.
func Sentence(e *result.Experiment, c *result.Comparison) string {
	d := e.Desc(c.Metric)
	on := e.Workload.Name
	if c.Case != "" && c.Case != "default" {
		on += " " + c.Case
	}
	what := c.Metric
	if c.BaseMedian != nil && c.TreatMedian != nil && d != nil {
		what += fmt.Sprintf(": %s against %s", quantity(*c.TreatMedian, d.Unit), quantity(*c.BaseMedian, d.Unit))
	}
	tail := fmt.Sprintf("(%s), grade %s, %s", what, c.Grade, counted(c.Pairs, replicate(c)))
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
			single = " " + ratio(*c.Ratio) + " without an interval"
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
		return fmt.Sprintf("%s and %s are equivalent within %s on %s: %s %s", t, b, percent(c.Margin), on, asRatio(c), tail)
	case c.Verdict == stats.Gain && better(d) > 0:
		return fmt.Sprintf("%s gives %s of %s on %s %s", t, asRatio(c), b, on, tail)
	}
	only := ""
	if c.Verdict == stats.Gain {
		only = "only "
	}
	return fmt.Sprintf("%s costs %s%s of %s on %s %s", t, only, asCost(c, better(d)), b, on, tail)
}

// replicate is what is counted: pairs, or the runs of the smaller arm.
func replicate(c *result.Comparison) string {
	if strings.HasSuffix(c.Estimator, "mann-whitney") {
		return "unpaired run"
	}
	return "pair"
}

// asRatio writes the ratio as measured, with its interval and bound.
func asRatio(c *result.Comparison) string {
	return map[result.Bound]string{result.AtMost: "at most ", result.AtLeast: "at least "}[c.Bound] +
		ratio(*c.Ratio) + " " + interval(*c.Low, *c.High)
}

// asCost writes the cost ratio; where higher values are better, a bound turns round.
func asCost(c *result.Comparison, better int8) string {
	word := ""
	switch {
	case c.Bound == result.AtLeast && better < 0, c.Bound == result.AtMost && better > 0:
		word = "at least "
	case c.Bound == result.AtMost || c.Bound == result.AtLeast:
		word = "at most "
	}
	return word + ratio(*c.Cost) + " " + interval(*c.CostLow, *c.CostHigh)
}

// settling says what the pairs would have found and how many would settle it.
func settling(c *result.Comparison) string {
	s := counted(c.Pairs, replicate(c))
	if c.MDE != nil {
		s += " would find " + percent(*c.MDE) + " four times in five"
	}
	if c.PairsNeeded > 0 {
		s += fmt.Sprintf(", %d would settle it", c.PairsNeeded)
	}
	return s
}

// first is what decided a comparison.
func first(reasons []string) string {
	if len(reasons) == 0 {
		return ""
	}
	return reasons[0]
}

// ratio is written with three digits, and with three decimals near 1, where they matter.
func ratio(v float64) string { return digits3(v) + "x" }

func interval(low, high float64) string { return "[" + digits3(low) + ", " + digits3(high) + "]" }

func digits3(v float64) string {
	if math.Abs(v-1) < 0.1 {
		return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.3f", v), "0"), ".")
	}
	return plain(v, 3)
}

func percent(v float64) string { return plain(100*v, 2) + " %" }

// plain writes at least so many digits, and an exponent only for what nobody
// reads as a number anyway.
func plain(v float64, digits int) string {
	if a := math.Abs(v); a >= math.Pow10(digits)-0.5 && a < 1e9 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.*g", digits, v)
}

// quantity writes a value in a scaled unit: binary for bytes, decimal otherwise.
func quantity(v float64, unit string) string {
	per := ""
	if u, ok := strings.CutSuffix(unit, "_per_second"); ok {
		unit, per = u, "/s"
	}
	switch unit {
	case "seconds":
		return scaled(v, 1000, []string{"s", "ms", "µs", "ns"}, true) + per
	case "bytes":
		return scaled(v, 1024, []string{"B", "KiB", "MiB", "GiB", "TiB"}, false) + per
	case "bits":
		return scaled(v, 1000, []string{"bit", "kbit", "Mbit", "Gbit"}, false) + per
	case "seconds_per_bit":
		return plain(1e9*v, 3) + " s/Gbit"
	case "ratio":
		return percent(v)
	case "":
		return fmt.Sprintf("%.4g", v)
	}
	return strings.TrimSpace(scaled(v, 1000, []string{"", "k", "M", "G"}, false)) + " " + strings.ReplaceAll(unit, "_", " ") + per
}

// scaled divides v by step while it is large, or multiplies it while it is small.
func scaled(v, step float64, units []string, down bool) string {
	i := 0
	for i < len(units)-1 && v != 0 && (down && math.Abs(v) < 0.9995 || !down && math.Abs(v) >= 0.9995*step) {
		if i++; down {
			v *= step
		} else {
			v /= step
		}
	}
	return plain(v, 3) + " " + units[i]
}
