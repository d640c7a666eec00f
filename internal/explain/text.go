package explain

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/printable"
)

// Text is an explanation for a terminal, written line by line. Text from processes, such as their names, must not
// control the reader's terminal, so only printable characters are written.
type Text struct {
	strings.Builder
	// Columns is the width of a line; 0 is 100. The rows of a tree lose columns from the right where they do not fit.
	Columns int
}

// Line writes a formatted line.
func (t *Text) Line(format string, args ...any) {
	t.WriteString(printable.OneLine(fmt.Sprintf(format, args...)) + "\n")
}

// usualColumns is the largest number of columns of a line.
const usualColumns = 100

func (t *Text) width() int { return cmp.Or(t.Columns, usualColumns) }

// Wrap writes words in lines of at most so many columns, if no word is longer; the first after indent, the others two columns further in.
func (t *Text) Wrap(indent, words string) {
	line := indent
	for i, w := range strings.Fields(words) {
		switch {
		case i == 0:
		case utf8.RuneCountInString(line+" "+w) > t.width():
			t.Line("%s", line)
			line = indent + "  "
		default:
			line += " "
		}
		line += w
	}
	t.Line("%s", line)
}

// Unexplained says why there is no explanation, a paragraph for each reason.
func (t *Text) Unexplained(reasons []string) {
	for _, r := range reasons {
		t.Wrap("", "No explanation: "+r+".")
		t.Line("")
	}
}

// Column writes a line of a table without trailing spaces.
func (t *Text) Column(format string, args ...any) {
	t.Line("%s", strings.TrimRight(fmt.Sprintf(format, args...), " "))
}

// treeCells are the cells of a row of a tree: what, the share as a bar, as a number with its interval and alone, the time, the
// rate, and the cost of one.
type treeCells struct{ title, bar, share, plain, time, rate, each string }

// treeRow writes a row of a tree, of as many cells as fit: all fill 98 places.
func (t *Text) treeRow(c treeCells) {
	const part = "%-27s %-6s %-20s %9s"
	switch w := t.width(); {
	case w >= 98:
		t.Column(part+" %17s %14s", fit(c.title, 27), c.bar, c.share, c.time, c.rate, c.each)
	case w >= 83:
		t.Column(part+" %17s", fit(c.title, 27), c.bar, c.share, c.time, c.rate)
	case w >= 65:
		t.Column(part, fit(c.title, 27), c.bar, c.share, c.time)
	default:
		title := max(8, min(27, w-18))
		t.Column("%-*s %7s %9s", title, fit(c.title, title), c.plain, c.time)
	}
}

// treeHead writes the head of such rows; the name of the share stands over bar and number.
func (t *Text) treeHead(share, time, rate, each string) {
	const part = "%-27s %-27s %9s"
	switch w := t.width(); {
	case w >= 98:
		t.Column(part+" %17s %14s", "", share, time, rate, each)
	case w >= 83:
		t.Column(part+" %17s", "", share, time, rate)
	case w >= 65:
		t.Column(part, "", share, time)
	default:
		t.treeRow(treeCells{plain: "share", time: time})
	}
}

// Tree writes where the time went, the causes first, and the limits of the explanation.
func (t *Text) Tree(tree Tree, causes []FoundCause) {
	for i, c := range causes {
		t.Wrap("", fmt.Sprintf("%d. %s", i+1, c.Title))
		t.Wrap("   ", "what to do: "+c.Advice)
	}
	if tree.Rivals != nil {
		t.Wrap("", "who takes the CPU: "+tree.Rivals.Text)
		for _, n := range tree.Rivals.Notes {
			t.Wrap("  ", "("+n+")")
		}
	}
	if tree.Baseline == "" && len(causes) == 0 {
		t.Wrap("", tree.Summarize(causes, "").Headline)
	}
	if tree.Baseline != "" {
		t.Line("")
	} else if len(causes) > 0 {
		t.Line("")
	}
	t.head(tree)
	if len(tree.Rows) > 0 {
		t.Line("")
		what, rate := "share of active time", "rate"
		if tree.Baseline != "" {
			what, rate = "share of the difference", "more per op."
		}
		t.treeHead(what, "time", rate, "each")
		t.rows("", tree.Rows, tree.Per)
		t.row("not explained", "░", tree.UnexplainedShare, tree.Unexplained, "", "")
	}
	t.uncosted(tree)
	t.machine(tree.Machine)
	t.Line("")
	for _, c := range tree.Checks {
		verdict := "holds"
		if !c.Holds {
			verdict = "FAILS"
		}
		t.Wrap("", fmt.Sprintf("check %s: %s: %s of %s cores.", verdict, c.Text, metric.Digits(c.Explained), metric.Digits(c.Measured)))
	}
	for _, b := range tree.Blind {
		t.Wrap("", "note: "+b)
	}
	if len(tree.Checks)+len(tree.Blind) > 0 {
		t.Line("")
	}
}

// head writes whose time it is, and how much.
func (t *Text) head(tree Tree) {
	if tree.TEE != nil {
		defer t.Wrap("", tree.TEE.Title)
	}
	if tree.Baseline != "" {
		words := fmt.Sprintf("%s against %s, %s:", tree.Subject, tree.Baseline, tree.Case)
		switch {
		case len(tree.Rows) == 0:
			words += " nothing explains a difference."
		case tree.Active.Value < 0:
			words += fmt.Sprintf(" an operation takes %s less, on CPUs and waiting.", tree.Active.scaled(-1).time())
		default:
			words += fmt.Sprintf(" an operation takes %s more, on CPUs and waiting.", tree.Active.time())
		}
		t.Wrap("", words)
		return
	}
	t.Wrap("", fmt.Sprintf("%s%s, %s to %s. %s", tree.processName(), tree.home(), tree.From.Format(time.TimeOnly), Clock(tree.To, tree.From), tree.whole()))
}

// processName returns a tree's process, and its machine if known.
func (t Tree) processName() string {
	if t.Instance == "" {
		return t.Subject
	}
	return t.Subject + " on " + t.Instance
}

// home says where a tree's processes run, if known.
func (t Tree) home() string {
	switch len(t.RunsIn) {
	case 0:
		return ""
	case 1:
		return ", in " + t.RunsIn[0]
	}
	last := len(t.RunsIn) - 1
	return ", in " + strings.Join(t.RunsIn[:last], ", ") + " and " + t.RunsIn[last] + ", added up"
}

func (t *Text) rows(indent string, rows []Row, per string) {
	for _, r := range rows {
		rate, each := "", ""
		if r.Rate != nil {
			rate = metric.Count(r.Rate.Value)
			if per == "second" {
				rate += "/s"
			}
			rate += r.Rate.spread()
		}
		if r.Unit != nil {
			each = metric.Value(r.Unit.Value, "seconds") + r.Unit.spread()
		}
		t.row(indent+r.Title, "█", r.Share, r.Time, rate, each)
		if r.Reason != "" {
			t.Wrap(indent+"  ", "("+r.Reason+")")
		}
		if r.ID != SmallCalls && r.ID != SmallCounters {
			t.rows(indent+"  ", r.Rows, per)
		}
	}
}

func (t *Text) row(title, block string, share, time Amount, rate, each string) {
	t.treeRow(treeCells{title, bar(share.Value, block), tenths(share), tenth(share), metric.Value(time.Value, "seconds"), rate, each})
}

// tenth prints a share to one decimal.
func tenth(a Amount) string { return fmt.Sprintf("%.1f %%", 100*a.Value) }

// tenths prints a share with its interval to one decimal, as a column needs it.
func tenths(a Amount) string {
	return fmt.Sprintf("%.1f %% [%.1f, %.1f]", 100*a.Value, 100*a.Low, 100*a.High)
}

// machine writes the TEE's activity on the whole machine.
func (t *Text) machine(m *Machine) {
	if m == nil {
		return
	}
	t.Line("")
	t.Wrap("", "The TEE on the whole machine (not known by process):")
	inUse := ""
	if m.Busy > 0 {
		inUse = fmt.Sprintf("share of %s in use", metric.Value(m.Busy, "cores"))
	}
	t.treeHead(inUse, "cores", "rate", "each")
	for _, r := range m.Rows {
		rate, each, share, plain, cores := "", "", "", "", ""
		if r.Rate != nil {
			rate = metric.Count(r.Rate.Value) + "/s" + r.Rate.spread()
		}
		if r.Unit != nil {
			each = metric.Value(r.Unit.Value, "seconds") + r.Unit.spread()
		}
		if r.Time.Value > 0 {
			cores = metric.Digits(r.Time.Value)
			if m.Busy > 0 {
				share, plain = tenths(r.Share), tenth(r.Share)
			}
		}
		t.treeRow(treeCells{r.Title, bar(r.Share.Value, "█"), share, plain, cores, rate, each})
		if r.Reason != "" {
			t.Wrap("  ", "("+r.Reason+")")
		}
		for _, part := range r.Rows {
			t.treeRow(treeCells{title: "  " + part.Title, rate: metric.Count(part.Rate.Value) + "/s" + part.Rate.spread()})
		}
		if r.Advice != "" && r.Share.Value >= leastShare {
			t.Wrap("  ", "what to do: "+r.Advice)
		}
	}
}

// mostUncosted is how many counters without a share are printed.
const mostUncosted = 16

// uncosted writes the counters of a comparison without a share, with the reason if it can be changed.
func (t *Text) uncosted(tree Tree) {
	if len(tree.Uncosted) == 0 {
		return
	}
	const row = "%-58s %13s %13s"
	t.Line("")
	if tree.Baseline == "" {
		t.Column(row, "without a share", "", "a "+tree.Per)
	} else {
		t.Column(row, "counters without a share, per operation", "baseline", "difference")
	}
	for _, r := range tree.Uncosted[:min(mostUncosted, len(tree.Uncosted))] {
		was, more := "", metric.Value(r.Time.Value, "seconds")
		if r.Rate != nil {
			more = metric.Value(r.Rate.Value, "")
		}
		if r.Base != nil {
			was = metric.Value(r.Base.Value, "")
		}
		t.Column(row, fit(r.Title, 58), was, more)
	}
	if n := len(tree.Uncosted) - mostUncosted; n > 0 {
		t.Line("%d more counters are in the result.", n)
	}
	said := map[string]bool{notPriced: true, isMeasure: true, "": true}
	for _, r := range tree.Uncosted {
		if !said[r.Reason] && !strings.HasSuffix(r.Reason, notPriced) {
			said[r.Reason] = true
			t.Wrap("", "note: no share for "+r.Title+": "+r.Reason+".")
		}
	}
}

// time prints an amount of seconds with its interval.
func (a Amount) time() string {
	s := metric.Value(a.Value, "seconds")
	if a.Low < a.High {
		s += " [" + metric.Value(a.Low, "seconds") + ", " + metric.Value(a.High, "seconds") + "]"
	}
	return s
}

// spread prints the larger side of an interval, relative to its value.
func (a Amount) spread() string {
	if a.Value <= 0 || a.Low == a.High {
		return ""
	}
	return fmt.Sprintf(" ±%.0f %%", math.Ceil(100*max(a.High-a.Value, a.Value-a.Low)/a.Value))
}

// fit cuts a title that is too long for its column.
func fit(s string, width int) string {
	if utf8.RuneCountInString(s) <= width {
		return s
	}
	return string([]rune(s)[:width-1]) + "…"
}

// barWidth is the width of a whole bar, in characters.
const barWidth = 6

// bar draws a ratio; less than a tenth of a character is a line.
func bar(v float64, block string) string {
	n := int(math.Round(min(1, max(0, v)) * barWidth))
	if n == 0 && v > 0 {
		return "▏"
	}
	return strings.Repeat(block, n)
}

// Differences compares a window with an earlier one. It fails if they cannot be compared.
func (t *Text) Differences(before, after Tree) error {
	list, err := Diff(before, after)
	if err != nil {
		return err
	}
	const row = "%-27s %11s %11s %11s  %s"
	t.Line("Compared with %s to %s, time a %s:", before.From.Format(time.TimeOnly), Clock(before.To, before.From), after.Per)
	t.Column(row, "", "before", "now", "change", "95 % interval of the change")
	for _, d := range list {
		doubt := ""
		if !d.Clear {
			doubt = " (may be none)"
		}
		t.Column(row, fit(d.Title, 27), metric.Value(d.Before.Value, "seconds"), metric.Value(d.After.Value, "seconds"), metric.Value(d.Change.Value, "seconds"),
			metric.Value(d.Change.Low, "seconds")+" to "+metric.Value(d.Change.High, "seconds")+doubt)
	}
	t.Line("")
	return nil
}

// Clock prints a time in the zone of now, which is the monitor's, with the date if it is another day.
func Clock(t, now time.Time) string {
	t = t.In(now.Location())
	if t.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return t.Format("15:04:05 MST")
	}
	return t.Format("2006-01-02 15:04:05 MST")
}
