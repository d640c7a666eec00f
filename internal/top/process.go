//go:build linux

package top

import (
	"strings"
	"time"

	"github.com/teescope/teescope/internal/contain"
	"github.com/teescope/teescope/internal/explain"
)

// treeLines are the lines about a process, as explain prints them.
func (m Model) treeLines() []string {
	t := m.tree
	var out explain.Text
	out.Columns = m.width
	if t.err != nil {
		out.Unexplained([]string{strings.TrimSuffix(contain.OneLine(t.err), ".")})
	}
	switch e := t.explanation; {
	case e != nil:
		out.Tree(e.Tree, e.Causes)
		for _, s := range e.Silent {
			out.Wrap("", s.Text)
		}
	case t.err == nil:
		out.Line("Finding where the process's time goes ...")
	}
	var lines []string
	for l := range strings.Lines(out.String()) {
		lines = append(lines, folded(strings.TrimRight(l, "\n"), m.width)...)
	}
	return lines
}

// farthestLine is how far the explanation can be scrolled.
func (m Model) farthestLine() int { return max(0, len(m.treeLines())-max(1, m.height-2)) }

// treeScreen fills the screen with the explanation of a process.
func (m Model) treeScreen(s *screen) {
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
