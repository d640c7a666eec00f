package cli

import (
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/teescope/teescope/internal/cost"
	"github.com/teescope/teescope/internal/report"
	"github.com/teescope/teescope/internal/web"
)

// The columns of a tree: what, share as a bar and as a number with its interval,
// time, rate, and the cost of one. They fill 98 of 100 places.
const treeRow = "%-27s %-10s %7s %-13s %9s %11s %15s"

// explanation writes the causes in words, the tree, and what it is worth.
func (t *text) explanation(e web.Explanation) {
	tree := e.Tree
	for i, c := range e.Causes {
		t.wrap("", fmt.Sprintf("%d. %s", i+1, c.Title))
		t.wrap("   ", "what to do: "+c.Advice)
	}
	if len(e.Causes) == 0 {
		t.wrap("", summaryOf(e))
	}
	t.line("")
	requests := ""
	if tree.Requests != nil {
		requests = fmt.Sprintf(", at %s requests a second", digits(tree.Requests.Value))
	}
	t.wrap("", fmt.Sprintf("%s, %s to %s%s. Its threads together had work for %s a %s (%s to %s).", subjectOf(tree),
		tree.From.Format(time.TimeOnly), clockTime(tree.To, tree.From), requests,
		report.Value(tree.Active.Value, "seconds"), tree.Per, report.Value(tree.Active.Low, "seconds"), report.Value(tree.Active.High, "seconds")))
	if tree.Queued.Value > 0 {
		t.wrap("", fmt.Sprintf("Beside that they waited for a free CPU for %s (%s to %s).",
			report.Value(tree.Queued.Value, "seconds"), report.Value(tree.Queued.Low, "seconds"), report.Value(tree.Queued.High, "seconds")))
	}
	t.line("")
	t.column("%-27s %-33s %9s %11s %15s", "", "share of active time", "time", "rate", "each")
	t.rows("", tree.Rows, tree.Per)
	t.row("not explained", "░", tree.UnexplainedShare, tree.Unexplained, "", "")
	t.line("")
	for _, c := range tree.Checks {
		verdict := "holds"
		if !c.Holds {
			verdict = "FAILS"
		}
		t.wrap("", fmt.Sprintf("check %s: %s: %s of %s cores.", verdict, c.Text, digits(c.Explained), digits(c.Measured)))
	}
	for _, b := range tree.Blind {
		t.wrap("", "note: "+b)
	}
	t.line("")
}

// subjectOf is a tree's process, and its machine where that is known.
func subjectOf(t cost.Tree) string {
	if t.Instance == "" {
		return t.Subject
	}
	return t.Subject + " on " + t.Instance
}

// column writes a line of a table without the spaces at its end.
func (t *text) column(format string, args ...any) {
	t.line("%s", strings.TrimRight(fmt.Sprintf(format, args...), " "))
}

func (t *text) rows(indent string, rows []cost.Row, per string) {
	for _, r := range rows {
		rate, each := "", ""
		if r.Rate != nil {
			rate = digits(roughly(r.Rate.Value))
			if per == "second" {
				rate += "/s"
			}
		}
		if r.Unit != nil {
			each = report.Value(r.Unit.Value, "seconds") + spread(r.Unit.Amount)
		}
		t.row(indent+r.Title, "█", r.Share, r.Time, rate, each)
		if r.ID != cost.SmallCalls {
			t.rows(indent+"  ", r.Rows, per)
		}
	}
}

func (t *text) row(title, block string, share, time cost.Amount, rate, each string) {
	t.column(treeRow, fit(title, 27), bar(share.Value, block), tenths(share.Value)+" %",
		tenths(share.Low)+" to "+tenths(share.High), report.Value(time.Value, "seconds"), rate, each)
}

// roughly is a number to three digits.
func roughly(v float64) float64 {
	if v == 0 {
		return 0
	}
	unit := math.Pow(10, math.Floor(math.Log10(math.Abs(v)))-2)
	return math.Round(v/unit) * unit
}

// spread is the larger side of an interval, relative to its value.
func spread(a cost.Amount) string {
	if a.Value <= 0 {
		return ""
	}
	return fmt.Sprintf(" ±%.0f %%", math.Ceil(100*max(a.High-a.Value, a.Value-a.Low)/a.Value))
}

// tenths is a ratio in percent to one decimal.
func tenths(v float64) string { return fmt.Sprintf("%.1f", v*100) }

// fit cuts a title that is too long for its column.
func fit(s string, width int) string {
	if utf8.RuneCountInString(s) <= width {
		return s
	}
	return string([]rune(s)[:width-1]) + "…"
}

// barWidth is how many places a whole takes.
const barWidth = 10

// bar draws a ratio; less than a tenth of a place is a line.
func bar(v float64, block string) string {
	n := int(math.Round(min(1, max(0, v)) * barWidth))
	if n == 0 && v > 0 {
		return "▏"
	}
	return strings.Repeat(block, n)
}

// problems says why there is no explanation.
func (t *text) problems(list []string) {
	for _, p := range list {
		t.wrap("", "No explanation: "+p+".")
		t.line("")
	}
}

// summaryOf says in a sentence what takes a process's time.
func summaryOf(e web.Explanation) string {
	t := e.Tree
	if len(e.Causes) > 0 {
		return e.Causes[0].Title
	}
	if len(t.Rows) == 0 || t.Unexplained.Value > t.Rows[0].Time.Value {
		return fmt.Sprintf("%s: no cause was found, and %s %% of its active time is not explained.", t.Subject, tenths(t.UnexplainedShare.Value))
	}
	return fmt.Sprintf("%s: no cause takes 5 %% of its active time; most of it is %s (%s %%).", t.Subject, t.Rows[0].Title, tenths(t.Rows[0].Share.Value))
}

// differences lays a window beside an earlier one.
func (t *text) differences(before, after cost.Tree) {
	list, err := cost.Diff(before, after)
	if err != nil {
		t.problems([]string{err.Error()})
		return
	}
	const row = "%-27s %11s %11s %11s  %s"
	t.line("Beside %s to %s, time a %s:", before.From.Format(time.TimeOnly), clockTime(before.To, before.From), after.Per)
	t.column(row, "", "before", "now", "change", "95 % interval of the change")
	for _, d := range list {
		doubt := ""
		if !d.Clear {
			doubt = " (may be none)"
		}
		t.column(row, fit(d.Title, 27),
			report.Value(d.Before.Value, "seconds"), report.Value(d.After.Value, "seconds"), report.Value(d.Change.Value, "seconds"),
			report.Value(d.Change.Low, "seconds")+" to "+report.Value(d.Change.High, "seconds")+doubt)
	}
	t.line("")
}
