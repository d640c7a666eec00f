package report

import (
	"fmt"
	"strings"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/stats"
)

// armsTable is the answer of an experiment with several arms in one table: each comparison with its cost, and whether that
// is sure. It is nil where there are at most two arms.
func armsTable(e *result.Experiment) *Table {
	all := primaries(e)
	if len(e.Environments) < 3 || len(all) < 2 {
		return nil
	}
	t := newTable("What each arm costs", "arm", "case", "cost", "sure?")
	for _, c := range all {
		arm := orDefault(c.Treatment, "unnamed")
		if c.Baseline != baseline(e) {
			arm += " against " + orDefault(c.Baseline, "unnamed")
		}
		t.add(Cell{Text: arm}, Text(c.Case, "unnamed"), costCell(e, c), Cell{Text: sureText(c), Mark: appearanceOf(c).mark, Kind: kind(c)})
	}
	t.Caption += " against " + baseline(e)
	if len(CaseIDs(e)) < 2 {
		t.drop(1)
	}
	return t.align()
}

// costCell is the cost with its interval, or the word that there is none.
func costCell(e *result.Experiment, c *result.Comparison) Cell {
	if c.Verdict == stats.Invalid {
		return Cell{Text: "refused"}
	}
	return interval(e, c)
}

// sureText says in a few words whether a cost is sure, and if not, why.
func sureText(c *result.Comparison) string {
	switch {
	case isStandIn(c):
		return "no: stand-in, " + c.StandIn
	case c.Verdict == stats.Invalid:
		return "no: " + orDefault(firstReason(c), "a guard refused it")
	case isPlatform(c):
		return "yes, as a difference of machines"
	case c.Verdict == stats.Equivalent:
		return "yes: no difference beyond " + metric.Percent(c.Margin)
	case c.Verdict == stats.Cost && c.Material, c.Verdict == stats.Gain && c.Material:
		return fmt.Sprintf("yes, grade %s, %s", orDefault(string(c.Grade), "none"), metric.Plural(c.Pairs, c.Replicate()))
	case c.Verdict == stats.Cost || c.Verdict == stats.Gain:
		return fmt.Sprintf("yes, but perhaps within the margin of %s", metric.Percent(c.Margin))
	}
	return "no: " + strings.TrimPrefix(orDefault(c.Open, orDefault(firstReason(c), "not decided")), "more pairs would not decide the verdict: ")
}
