//go:build linux

package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"

	prettytext "github.com/jedib0t/go-pretty/v6/text"

	"github.com/teescope/teescope/internal/contain"
	"github.com/teescope/teescope/internal/explain"
	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/observe"
	"github.com/teescope/teescope/internal/tee"
	"github.com/teescope/teescope/internal/web"
)

// verdict is what is wrong, in the page's words, after its severity: a colour alone says nothing.
func (s *topSnapshot) verdict() string {
	sum := s.findings.Summary
	words := strings.TrimSuffix(sum.Headline, ".") + "."
	if sum.Level == findings.WarningLevel || sum.Level == findings.CriticalLevel {
		words = strings.ToUpper(string(sum.Level)) + " " + words
	}
	return words
}

// warnings say which of the numbers are missing or old.
func (m topModel) warnings() (out []string) {
	if m.snapshot.lacks != "" {
		out = append(out, m.snapshot.lacks)
	}
	if e := m.snapshot.overhead.StoreError; e != "" {
		out = append(out, "STORE: "+e)
	}
	if m.err != nil {
		out = append(out, "NO ANSWER, the values below are old: "+contain.OneLine(m.err))
	}
	return out
}

// header describes the machine, who watches it, and what that costs, in lines of parts, each the most important first.
func (s *topSnapshot) header(shown int, filter *metric.NamePattern) [][]string {
	p := s.platform
	watched := fmt.Sprintf("%d processes", len(s.rows))
	if s.machines > 1 {
		watched += fmt.Sprintf(" of %d machines", s.machines)
	}
	if filter != nil && filter.String() != "" {
		watched += fmt.Sprintf(", %d match /%s/", shown, filter)
	}
	return [][]string{
		{"teescope top", s.where, s.findings.At.Format("15:04:05"), orUnknown(p.Hostname), fmt.Sprintf("%d CPUs", p.CPUs), orUnknown(p.Kernel)},
		{"TEE: " + observe.Badge(detections(p.TEEs))},
		{watched, "monitor: " + own(s.overhead)},
	}
}

// detections are what a monitor's detectors found.
func detections(tees []web.TEE) []tee.Detection {
	var out []tee.Detection
	for _, t := range tees {
		d := tee.Detection{Kind: &tee.Kind{Name: t.Kind}, State: tee.State(t.State)}
		if t.Facts != nil {
			d.Facts = *t.Facts
		}
		out = append(out, d)
	}
	return out
}

// own describes the monitor's own cost.
func own(o web.Overhead) string {
	out := "unknown"
	if o.Used != nil {
		out = metric.Value(*o.Used, "cores")
	}
	if missing := slices.DeleteFunc([]string{"userspace", "body", "dispatch"}, func(part string) bool { return o.Missing[part] == "" }); len(missing) > 0 && o.Used != nil {
		out = "at least " + out
	}
	if o.RSSBytes > 0 {
		out += ", " + size(uint64(o.RSSBytes))
	}
	return out
}

// others are the open problems that the verdict does not name, a line for each, at most limit lines.
func (s *topSnapshot) others(limit int) []string {
	named := slices.IndexFunc(s.findings.Problems, func(p findings.Problem) bool { return !p.Ended })
	var out []string
	for i, p := range s.findings.Problems {
		if i != named {
			out = append(out, strings.ToUpper(string(p.Severity))+" "+p.Title+".")
		}
	}
	if more := len(out) - limit; more > 0 {
		out = append(out[:max(0, limit-1)], fmt.Sprintf("and %d more: teescope explain", min(more+1, len(out))))
	}
	return out
}

// nameWidth is how wide names of processes may be in a terminal of that width; 0 is any.
func nameWidth(width int) int {
	const most, least = 24, 12
	if width == 0 {
		return most
	}
	return min(most, max(least, width*3/10))
}

// table is the header and the rows of processes, at most width columns wide; columns on
// the right that do not fit are dropped; 0 is any width, without the lines of the last minute.
func (m topModel) table(rows []topRow, width int) (head string, lines []string) {
	s, by := &m.snapshot, m.by()
	most := nameWidth(width)
	name := prettytext.StringWidth("PROCESS")
	for _, r := range rows {
		name = max(name, min(prettytext.StringWidth(r.process), most))
	}
	machine := 0
	if s.machines > 1 {
		for _, r := range rows {
			machine = max(machine, min(prettytext.StringWidth(r.machine), 16)+1)
		}
		machine = max(machine, len(" MACHINE"))
	}
	used := name + machine
	columns := slices.DeleteFunc(slices.Clone(s.columns), func(c topColumn) bool {
		if width > 0 && used+c.width > width || width == 0 && c.expr == "" {
			return true
		}
		used += c.width
		return false
	})
	line := func(process, at string, cell func(topColumn) string) string {
		out := pad(process, name)
		if machine > 0 {
			out += " " + pad(at, machine-1)
		}
		for _, c := range columns {
			out += prettytext.AlignRight.Apply(cell(c), c.width)
		}
		return strings.TrimRight(out, " ")
	}
	head = line("PROCESS", "MACHINE", func(c topColumn) string {
		if c.name == by {
			return "*" + c.title
		}
		return c.title
	})
	for _, r := range rows {
		lines = append(lines, line(r.process, r.machine, func(c topColumn) string {
			if c.expr == "" {
				return m.trails[r.rowID].line(s.findings.At)
			}
			v, ok := r.values[c.name]
			if !ok {
				return "-"
			}
			if v.estimate {
				return "~" + c.show(v.number)
			}
			return c.show(v.number)
		}))
	}
	return head, lines
}

// pad makes text exactly that wide, with an ellipsis at the end if it is cut off.
func pad(text string, width int) string { return prettytext.Pad(cutOff(text, width), width, ' ') }

// cutOff cuts text that is too wide anywhere.
func cutOff(text string, width int) string {
	if prettytext.StringWidth(text) <= width {
		return text
	}
	if width < 1 {
		return ""
	}
	return prettytext.Trim(text, width-1) + "…"
}

// shorten cuts text that is too wide after a word, if there is one.
func shorten(text string, width int) string { return wrapped(text, width, 1)[0] }

// wrapped breaks text into at most so many lines, after words; what does not fit is cut off.
func wrapped(text string, width, most int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		switch {
		case line == "":
			line = word
		case prettytext.StringWidth(line)+1+prettytext.StringWidth(word) <= width:
			line += " " + word
		case len(lines) == most-1:
			for before := line; prettytext.StringWidth(line)+2 > width; line = before {
				at := strings.LastIndexByte(before, ' ')
				if at < 0 {
					return append(lines, cutOff(line+"…", width))
				}
				before = before[:at]
			}
			return append(lines, line+" …")
		default:
			lines = append(lines, cutOff(line, width))
			line = word
		}
	}
	return append(lines, cutOff(line, width))
}

// fitting joins those parts that fit next to each other; the first is cut if it is too wide alone.
func fitting(width int, parts ...string) string {
	out := shorten(parts[0], width)
	for _, p := range parts[1:] {
		if prettytext.StringWidth(out)+2+prettytext.StringWidth(p) <= width {
			out += "  " + p
		}
	}
	return out
}

// matching are the rows that the filter lets through, sorted.
func (m topModel) matching() []topRow {
	rows := slices.DeleteFunc(slices.Clone(m.snapshot.rows), func(r topRow) bool { return m.filter != nil && !m.filter.MatchString(r.process) })
	return sorted(rows, m.by())
}

// plain is a table for a log or a simple terminal: all processes with activity.
func (m topModel) plain() string {
	rows := slices.DeleteFunc(m.matching(), func(r topRow) bool {
		for _, v := range r.values {
			if v.number > 0 {
				return false
			}
		}
		return true
	})
	head, lines := m.table(rows, 0)
	var t text
	t.Line("%s", m.snapshot.verdict())
	for _, l := range m.snapshot.others(len(m.snapshot.findings.Problems)) {
		t.Line("%s", l)
	}
	for _, parts := range m.snapshot.header(len(rows), m.filter) {
		t.Line("%s", strings.Join(parts, "  "))
	}
	for _, l := range m.warnings() {
		t.Line("%s", l)
	}
	if m.once {
		if l := m.snapshot.notJudged(); l != "" {
			t.Line("%s", l)
		}
	}
	for _, l := range slices.Concat([]string{"", head}, lines) {
		t.Line("%s", l)
	}
	return t.String()
}

// notJudged says what a single look cannot find because the machine has been watched for less than rules look at; "" for nothing.
func (s *topSnapshot) notJudged() string {
	shorter, longest := 0, 0.0
	for _, r := range s.findings.Rules {
		if short := r.Windows[1]; r.Answer != findings.CannotTell && short > s.watched.Seconds() {
			shorter, longest = shorter+1, max(longest, short)
		}
	}
	if s.watched <= 0 || shorter == 0 {
		return ""
	}
	return fmt.Sprintf("Watched for %s only: %d of %d rules look at up to %s, and what needs longer to show was not judged. Leave `teescope top` running (without --once).",
		metric.Length(s.watched.Truncate(time.Second).Seconds()), shorter, len(s.findings.Rules), metric.Length(longest))
}

// above adds the lines above the table, which shows that many rows.
func (m topModel) above(s *topScreen, shown int) {
	part := max(1, m.height/6) // of the screen for each kind of words
	s.add(styleOf(m.snapshot.findings.Summary.Level), wrapped(m.snapshot.verdict(), m.width, part)...)
	for _, l := range m.snapshot.others(max(0, min(3, m.height/6-1))) {
		s.add(plainStyle, shorten(l, m.width))
	}
	for _, parts := range m.snapshot.header(shown, m.filter) {
		s.add(quietStyle, fitting(m.width, parts...))
	}
	for _, l := range m.warnings() {
		s.add(warningStyle, wrapped(l, m.width, part)...)
	}
}

// room is the number of rows that fit between the table's header and the footer.
func (m topModel) room() int {
	var s topScreen
	m.above(&s, len(m.matching()))
	return max(0, m.height-len(s.lines)-2)
}

// screen is what the terminal shows.
func (m topModel) screen() topScreen {
	var s topScreen
	if m.tree != nil {
		m.treeScreen(&s)
	} else {
		m.tableScreen(&s)
	}
	for i := range s.lines {
		s.lines[i].text = cutOff(explain.Printable(s.lines[i].text), m.width)
	}
	s.lines = s.lines[:min(len(s.lines), m.height)]
	s.head = min(s.head, len(s.lines))
	return s
}

// tableScreen fills the screen with the table.
func (m topModel) tableScreen(s *topScreen) {
	rows := m.matching()
	m.above(s, len(rows))
	title, table := m.table(rows, m.width)
	s.head = len(s.lines)
	s.add(headStyle, title)
	from := m.first(rows)
	for i := from; i < min(len(table), from+m.room()); i++ {
		as := plainStyle
		if i == m.selected(rows) {
			as = chosenStyle
		}
		s.add(as, table[i])
		s.shown++
	}
	for len(s.lines) < m.height-1 {
		s.add(plainStyle, "")
	}
	s.add(quietStyle, m.footer())
}

// treeLines are the lines about a process, as explain prints them.
func (m topModel) treeLines() []string {
	t := m.tree
	var out text
	out.Columns = m.width
	if t.err != nil {
		out.unexplained([]string{strings.TrimSuffix(contain.OneLine(t.err), ".")})
	}
	switch e := t.explanation; {
	case e != nil:
		out.Tree(e.Tree, e.Causes)
		for _, s := range e.Silent {
			out.Wrap("", s.Text)
		}
	case t.err == nil:
		out.Line("Asking where its time goes.")
	}
	var lines []string
	for l := range strings.Lines(out.String()) {
		lines = append(lines, folded(strings.TrimRight(l, "\n"), m.width)...)
	}
	return lines
}

// folded breaks a line that is too wide, such as one word, anywhere.
func folded(line string, width int) []string {
	var out []string
	for width > 0 && prettytext.StringWidth(line) > width {
		part := prettytext.Trim(line, width)
		out, line = append(out, part), strings.TrimPrefix(line, part)
		if part == "" {
			break // a character wider than the screen
		}
	}
	return append(out, line)
}

// farthestLine is how far the explanation can be scrolled.
func (m topModel) farthestLine() int { return max(0, len(m.treeLines())-max(1, m.height-2)) }

// treeScreen fills the screen with the explanation of a process.
func (m topModel) treeScreen(s *topScreen) {
	name := m.tree.of.process
	if m.snapshot.machines > 1 {
		name += " on " + m.tree.of.machine
	}
	s.add(headStyle, fitting(m.width, name, m.snapshot.where, m.snapshot.findings.At.Format(time.TimeOnly)))
	lines := m.treeLines()
	from := min(m.tree.offset, m.farthestLine())
	s.add(plainStyle, lines[from:min(len(lines), from+max(0, m.height-2))]...)
	for len(s.lines) < m.height-1 {
		s.add(plainStyle, "")
	}
	s.add(quietStyle, fitting(m.width, "esc back", "up down scroll", "q quit"))
}

// footer is the keys, or the filter while it is typed.
func (m topModel) footer() string {
	if m.typing {
		note := "enter applies it, esc discards it"
		if m.bad != "" {
			note = m.bad
		}
		return "filter: " + m.typed + "_  (" + note + ")"
	}
	keys := []string{"q quit", "enter explains"}
	var sort []string
	for _, c := range m.snapshot.columns {
		if c.key != "" {
			sort = append(sort, c.key)
		}
	}
	if len(sort) > 0 {
		keys = append(keys, strings.Join(sort, " ")+" or < > sort")
	}
	return fitting(m.width, append(keys, "/ filter", "~ is an estimate")...)
}
