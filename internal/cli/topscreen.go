//go:build linux

package cli

import (
	"fmt"
	"slices"
	"strings"

	prettytext "github.com/jedib0t/go-pretty/v6/text"

	"github.com/teescope/teescope/internal/contain"
	"github.com/teescope/teescope/internal/explain"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/observe"
	"github.com/teescope/teescope/internal/tee"
	"github.com/teescope/teescope/internal/web"
)

// header describes the machine and the monitor's cost, in lines.
func (s topSnapshot) header(shown int, filter *metric.NamePattern) []string {
	p := s.platform
	first := fmt.Sprintf("teescope top  %s  %s  %d CPUs  %s", orUnknown(p.Hostname), orUnknown(p.Kernel), p.CPUs, s.findings.At.Format("15:04:05"))
	watched := fmt.Sprintf("%d processes", len(s.rows))
	if s.machines > 1 {
		watched += fmt.Sprintf(" of %d machines", s.machines)
	}
	if filter != nil && filter.String() != "" {
		watched += fmt.Sprintf(", %d match /%s/", shown, filter)
	}
	return []string{first, "TEE: " + observe.Badge(detections(p.TEEs)), watched + "  monitor: " + own(s.overhead)}
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
	if o.StoreError != "" {
		out += "  STORE: " + o.StoreError
	}
	return out
}

// strip is a line for each open problem, the worst first, at most limit lines; or that there is none, and how much was
// checked.
func (s topSnapshot) strip(limit int) []string {
	f := s.findings
	if len(f.Problems) == 0 {
		return []string{f.Summary.Headline + " " + f.Summary.Checks + "."}
	}
	var out []string
	for _, p := range f.Problems {
		out = append(out, strings.ToUpper(string(p.Severity))+" "+p.Title+".")
	}
	if more := len(out) - limit; more > 0 {
		out = append(out[:limit-1], fmt.Sprintf("and %d more: teescope explain", more+1))
	}
	return out
}

// table is the header and the rows of processes, at most width columns wide; columns on
// the right that do not fit are dropped; 0 is any width.
func (s topSnapshot) table(rows []topRow, by string, width int) (head string, lines []string) {
	name := prettytext.StringWidth("PROCESS")
	for _, r := range rows {
		name = max(name, min(prettytext.StringWidth(r.process), 24))
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
		if width > 0 && used+c.width > width {
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

// pad makes text exactly that wide, with a dot at the end if it is cut off.
func pad(text string, width int) string {
	if prettytext.StringWidth(text) > width {
		text = prettytext.Trim(text, max(0, width-1)) + "."
	}
	return prettytext.Pad(text, width, ' ')
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
	head, lines := m.snapshot.table(rows, m.by(), 0)
	var t text
	for _, l := range slices.Concat(m.snapshot.header(len(rows), m.filter), m.snapshot.strip(len(m.snapshot.findings.Problems)+1), []string{"", head}, lines) {
		t.Line("%s", l)
	}
	return t.String()
}

// above are the lines above the table, which shows that many rows.
func (m topModel) above(shown int) []string {
	lines := m.snapshot.header(shown, m.filter)
	if m.err != nil {
		lines = append(lines, "NO ANSWER, the values below are old: "+contain.OneLine(m.err))
	}
	return append(lines, m.snapshot.strip(max(1, min(4, m.height-8)))...)
}

// room is the number of rows that fit between the table's header, below that many
// lines, and the footer.
func (m topModel) room(above int) int { return max(0, m.height-above-2) }

// farthest is the number of rows by which the table can be scrolled.
func (m topModel) farthest() int {
	shown := len(m.matching())
	return max(0, shown-m.room(len(m.above(shown))))
}

// screen is what the terminal shows, and the line number of the table's header.
func (m topModel) screen() (lines []string, head int) {
	rows := m.matching()
	lines = m.above(len(rows))
	title, table := m.snapshot.table(rows, m.by(), m.width)
	head = len(lines)
	lines = append(lines, title)
	room := m.room(head)
	from := min(m.offset, max(0, len(table)-room))
	lines = append(lines, table[from:min(len(table), from+room)]...)
	for len(lines) < m.height-1 {
		lines = append(lines, "")
	}
	lines = append(lines, m.footer())
	for i, l := range lines {
		if l = explain.Printable(l); prettytext.StringWidth(l) > m.width {
			l = pad(l, m.width)
		}
		lines[i] = l
	}
	return lines[:min(len(lines), m.height)], head
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
	keys := []string{"q quit"}
	for _, c := range m.snapshot.columns {
		if c.key != "" {
			keys = append(keys, c.key)
		}
	}
	if len(keys) > 1 {
		keys = []string{keys[0], strings.Join(keys[1:], " ") + " or < > sort"}
	}
	return strings.Join(append(keys, "/ filter", "up down scroll", "~ is an estimate"), "  ")
}
