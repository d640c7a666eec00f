//go:build linux

package top

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/contain"
	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/observe"
	"github.com/teescope/teescope/internal/printable"
	"github.com/teescope/teescope/internal/tee"
	"github.com/teescope/teescope/internal/web"
)

// verdict is what is wrong, in the page's words, after its severity: a colour alone says nothing.
func (s *snapshot) verdict() string {
	sum := s.findings.Summary
	words := strings.TrimSuffix(sum.Headline, ".") + "."
	if sum.Level == findings.WarningLevel || sum.Level == findings.CriticalLevel {
		words = strings.ToUpper(string(sum.Level)) + " " + words
	}
	return words
}

// warnings say which of the numbers are missing or old.
func (m Model) warnings() (out []string) {
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
func (s *snapshot) header(shown int, filter *metric.NamePattern) [][]string {
	p := s.platform
	watched := fmt.Sprintf("%d processes", len(s.rows))
	if s.machines > 1 {
		watched += fmt.Sprintf(" of %d machines", s.machines)
	}
	if filter != nil && filter.String() != "" {
		watched += fmt.Sprintf(", %d match /%s/", shown, filter)
	}
	return [][]string{
		{"teescope top", s.where, s.findings.At.Format("15:04:05"), cmp.Or(p.Hostname, "unknown"), fmt.Sprintf("%d CPUs", p.CPUs), cmp.Or(p.Kernel, "unknown")},
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
		out += ", " + metric.Value(o.RSSBytes, "bytes")
	}
	return out
}

// others are the open problems that the verdict does not name, a line for each, at most limit lines.
func (s *snapshot) others(limit int) []string {
	named := slices.IndexFunc(s.findings.Problems, func(p findings.Problem) bool { return !p.Ended })
	var out []string
	for i, p := range s.findings.Problems {
		if i != named {
			out = append(out, strings.ToUpper(string(p.Severity))+" "+p.Title+".")
		}
	}
	if more := len(out) - limit; more > 0 {
		out = append(out[:max(0, limit-1)], fmt.Sprintf("and %d more: see teescope explain", min(more+1, len(out))))
	}
	return out
}

// addHeader adds the lines above the table, which shows that many rows.
func (m Model) addHeader(s *screen, shown int) {
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
func (m Model) room() int {
	var s screen
	m.addHeader(&s, len(m.matching()))
	return max(0, m.height-len(s.lines)-2)
}

// screen is what the terminal shows.
func (m Model) screen() screen {
	var s screen
	if m.tree != nil {
		m.treeScreen(&s)
	} else {
		m.tableScreen(&s)
	}
	for i := range s.lines {
		s.lines[i].text = cutOff(printable.OneLine(printable.Redact(s.lines[i].text)), m.width)
	}
	s.lines = s.lines[:min(len(s.lines), m.height)]
	s.head = min(s.head, len(s.lines))
	return s
}

// tableScreen fills the screen with the table.
func (m Model) tableScreen(s *screen) {
	rows := m.matching()
	m.addHeader(s, len(rows))
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

// footer is the keys, or the filter while it is typed.
func (m Model) footer() string {
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
