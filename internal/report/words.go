package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/stats"
)

// appearance is how a verdict looks: a mark for text, a shape for plots and a colour. Each repeats its word, so none
// is needed to understand it.
type appearance struct {
	mark  string
	shape shape
	ink   ink
	means string
}

var appearances = map[stats.Verdict]appearance{
	stats.Cost:         {"▲", triangle, bad, "worse: the whole interval is above 1"},
	stats.Gain:         {"▼", inverted, good, "better: the whole interval is below 1"},
	stats.Equivalent:   {"=", square, accent, "no difference that matters: the interval lies within the margin"},
	stats.Inconclusive: {"?", ring, warn, "these runs do not decide it"},
	stats.Invalid:      {"✕", cross, rest, "refused: a guard says why"},
}

// platform is the appearance of a difference between different machines, which may be called neither cost nor gain.
var platform = appearance{"≠", diamond, rest, "a difference of machines, not the cost of a TEE"}

// platformGrades are those of comparisons between different machines.
var platformGrades = []result.Grade{result.GradeC, result.GradeD}

// standIn is the appearance of a comparison that is not of the real thing: it has no grade, and is never called a cost.
var standIn = appearance{"◇", diamond, rest, "not the real thing: the ratio is not the cost of the real thing"}

// isStandIn reports whether a comparison has a ratio that is not of the real thing.
func isStandIn(c *result.Comparison) bool { return c.StandIn != "" && c.Verdict != stats.Invalid }

// isPlatform reports whether a verdict is only about machines.
func isPlatform(c *result.Comparison) bool {
	return slices.Contains(platformGrades, c.Grade) && (c.Verdict == stats.Cost || c.Verdict == stats.Gain)
}

func appearanceOf(c *result.Comparison) appearance {
	switch {
	case isStandIn(c):
		return standIn
	case isPlatform(c):
		return platform
	}
	if a, ok := appearances[c.Verdict]; ok {
		return a
	}
	return appearance{"·", diamond, rest, "only the primary metric has a verdict"}
}

// verdictWord returns the verdict for readers; never empty.
func verdictWord(c *result.Comparison) string {
	switch {
	case isStandIn(c):
		return "stand-in"
	case isPlatform(c):
		return "platform difference"
	case c.Verdict == "":
		return "not judged"
	}
	return string(c.Verdict)
}

// gradeMeans returns what a comparison of this grade may be called.
func gradeMeans(g result.Grade) string {
	switch g {
	case result.GradeA:
		return "same host, interleaved"
	case result.GradeB:
		return "same host in blocks or apart"
	case result.GradeC:
		return "same kind of host, another machine"
	case result.GradeD:
		return "different platforms: a platform difference, not overhead"
	}
	return "not graded"
}

func gradeText(g result.Grade) string {
	if g == "" {
		return "not graded"
	}
	return fmt.Sprintf("%s (%s)", g, gradeMeans(g))
}

// gradeCell is a comparison's grade; a stand-in has none.
func gradeCell(c *result.Comparison) Cell {
	if isStandIn(c) {
		return Cell{Text: "none"}
	}
	return Text(string(c.Grade), "not graded")
}

func designText(k result.Kind) string {
	switch k {
	case result.Interleaved:
		return "interleaved pairs in random order"
	case result.Blocked:
		return "alternating blocks"
	case result.Unpaired:
		return "results of separate runs, not paired: weaker evidence"
	case result.Single:
		return "one arm, nothing to compare with"
	}
	return "design not recorded"
}

// NoteLevel is the word for a guard that changes no verdict.
const NoteLevel = "note"

// levelMark shows a guard's severity by shape and word.
func levelMark(l result.Level) (mark, word string) {
	switch l {
	case result.Refuse:
		return "✕", "refused"
	case result.Warn:
		return "!", "warning"
	}
	return "i", NoteLevel
}

// Headline returns the sentence of a comparison. A document without conclusions has none: then it names only the arms
// and the metric.
func Headline(c *result.Comparison) string {
	if c.Headline != "" {
		return c.Headline
	}
	return fmt.Sprintf("%s against %s on %s: %s", orDefault(c.Treatment, "an unnamed arm"), orDefault(c.Baseline, "an unnamed baseline"), metric.Words(orDefault(c.Metric, "an unnamed metric")), verdictWord(c))
}

// firstReason is the one that decided, or "". Doubts about a verdict follow it.
func firstReason(c *result.Comparison) string {
	if len(c.Reasons) == 0 {
		return ""
	}
	return c.Reasons[0]
}

// noRatio returns why a comparison has no ratio.
func noRatio(c *result.Comparison) string {
	return orDefault(firstReason(c), "the document gives no reason")
}

// interval prints "3.12x [2.9, 3.41]", with ≤ or ≥ where an arm stood at a ceiling.
func interval(e *result.Experiment, c *result.Comparison) Cell {
	if c.Cost == nil || !finite(*c.Cost) {
		if c.Ratio != nil && finite(*c.Ratio) && c.Low != nil && c.High != nil && finite(*c.Low, *c.High) {
			// Neither direction is better, so the ratio is not a cost.
			return Cell{Text: "ratio " + metric.TimesOf(*c.Ratio, *c.Low, *c.High), Raw: fmt.Sprint(*c.Ratio), Number: true}
		}
		return Missing(noRatio(c))
	}
	word := ""
	if isStandIn(c) {
		word = "stand-in "
	}
	if lo, hi, ok := costInterval(c); ok {
		return Cell{Text: word + bound(e, c) + metric.TimesOf(*c.Cost, lo, hi), Raw: fmt.Sprint(*c.Cost), Number: true}
	}
	return Cell{Text: word + bound(e, c) + metric.Times(*c.Cost) + ", interval missing", Raw: fmt.Sprint(*c.Cost), Number: true}
}

func costInterval(c *result.Comparison) (lo, hi float64, ok bool) {
	if c.CostLow == nil || c.CostHigh == nil || !finite(*c.CostLow, *c.CostHigh) {
		return 0, 0, false
	}
	return *c.CostLow, *c.CostHigh, true
}

// bound returns the sign of the cost's bound: where higher is better, the cost is the inverse of the ratio.
func bound(e *result.Experiment, c *result.Comparison) string {
	b := c.Bound
	if d := e.Desc(c.Metric); d != nil && d.Better == "higher" {
		switch b {
		case result.AtMost:
			b = result.AtLeast
		case result.AtLeast:
			b = result.AtMost
		}
	}
	switch b {
	case result.AtMost:
		return "≤ "
	case result.AtLeast:
		return "≥ "
	}
	return ""
}

func orDefault(s, otherwise string) string {
	if strings.TrimSpace(s) == "" {
		return otherwise
	}
	return s
}

// shellLine quotes a command for a shell.
func shellLine(argv []string) string {
	out := make([]string, len(argv))
	for i, a := range argv {
		if a != "" && strings.Trim(a, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./=:,@%+") == "" {
			out[i] = a
		} else {
			out[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
	}
	return strings.Join(out, " ")
}

// pairsText prints a map as "fio 3.33, runsc 2026".
func pairsText(m map[string]string) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, strings.TrimSpace(k+" "+m[k]))
	}
	return strings.Join(out, ", ")
}
