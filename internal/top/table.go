//go:build linux

package top

import (
	"fmt"
	"slices"
	"strings"
	"time"

	prettytext "github.com/jedib0t/go-pretty/v6/text"

	"github.com/teescope/teescope/internal/explain"
	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/metric"
)

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
func (m Model) table(rows []row, width int) (head string, lines []string) {
	s, by := &m.snapshot, m.sortColumn()
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
	columns := slices.DeleteFunc(slices.Clone(s.columns), func(c column) bool {
		if width > 0 && used+c.width > width || width == 0 && c.expr == "" {
			return true
		}
		used += c.width
		return false
	})
	line := func(process, at string, cell func(column) string) string {
		out := pad(process, name)
		if machine > 0 {
			out += " " + pad(at, machine-1)
		}
		for _, c := range columns {
			out += prettytext.AlignRight.Apply(cell(c), c.width)
		}
		return strings.TrimRight(out, " ")
	}
	head = line("PROCESS", "MACHINE", func(c column) string {
		if c.name == by {
			return "*" + c.title
		}
		return c.title
	})
	for _, r := range rows {
		lines = append(lines, line(r.process, r.machine, func(c column) string {
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

// matching are the rows that the filter lets through, sorted.
func (m Model) matching() []row {
	rows := slices.DeleteFunc(slices.Clone(m.snapshot.rows), func(r row) bool { return m.filter != nil && !m.filter.MatchString(r.process) })
	return sorted(rows, m.sortColumn())
}

// Table is a table for a log or a simple terminal: all processes with activity.
func (m Model) Table() string { return m.tableText("") }

// OneTable is the table of a single look, which says what it is too short to find.
func (m Model) OneTable() string { return m.tableText(m.snapshot.notJudged()) }

// tableText is the table below the verdict and a line more.
func (m Model) tableText(more string) string {
	rows := slices.DeleteFunc(m.matching(), func(r row) bool {
		for _, v := range r.values {
			if v.number > 0 {
				return false
			}
		}
		return true
	})
	head, lines := m.table(rows, 0)
	var t explain.Text
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
	if more != "" {
		t.Line("%s", more)
	}
	for _, l := range slices.Concat([]string{"", head}, lines) {
		t.Line("%s", l)
	}
	return t.String()
}

// notJudged says what a single look cannot find because the machine has been watched for less than rules look at; "" for nothing.
func (s *snapshot) notJudged() string {
	shorter, longest := 0, 0.0
	for _, r := range s.findings.Rules {
		if short := r.Windows[1]; r.Answer != findings.CannotTell && short > s.watched.Seconds() {
			shorter, longest = shorter+1, max(longest, short)
		}
	}
	if s.watched <= 0 || shorter == 0 {
		return ""
	}
	return fmt.Sprintf("Watched for only %s. %d of %d rules need more time, up to %s, so slower problems may be missing. Leave `teescope top` running (without --once).",
		metric.Length(s.watched.Truncate(time.Second).Seconds()), shorter, len(s.findings.Rules), metric.Length(longest))
}
