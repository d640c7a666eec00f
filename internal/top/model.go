//go:build linux

package top

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/teescope/teescope/internal/explain"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/monitor/client"
	"github.com/teescope/teescope/internal/web"
)

// Model is the state of the live view. It asks only in the commands that it returns, so
// a test can press keys and read the screen without a terminal.
type Model struct {
	snapshot snapshot
	trails   map[rowID]trail
	err      error // why the snapshot is old, nil when it is not
	backend  client.Backend
	ctx      context.Context // ends the questions
	every    time.Duration

	sort          string // a column's name, "" for the first that is there
	filter        *metric.NamePattern
	chosen        rowID // the selected row; the zero value is the first one, whichever that is
	place         int   // where the selected row was last
	offset        int   // rows scrolled by
	width, height int
	theme         theme

	typing bool   // a filter is being typed
	typed  string // the text typed so far
	bad    string // why the typed text is not a filter yet
	before *metric.NamePattern

	tree *processTree // nil while the table is shown
}

// processTree is where the time of a process goes.
type processTree struct {
	of          rowID
	explanation *web.Explanation // nil while there is none
	err         error            // why it is old, or missing
	offset      int              // lines scrolled by
}

// looked is the monitor's answer.
type looked struct {
	snapshot snapshot
	err      error
}

// explainedRow is the answer about a process.
type explainedRow struct {
	of          rowID
	explanation web.Explanation
	err         error
}

// lookNow is sent when it is time to ask the monitor again, explainNow when it is about a process.
type (
	lookNow    struct{}
	explainNow struct{ of rowID }
)

// treeSpan is the window of an explanation, and treeEvery the time between two: it takes dozens of queries.
const (
	treeSpan  = time.Minute
	treeEvery = 5 * time.Second
)

// soon is the time between two questions while the first numbers come.
const soon = time.Second

// Init implements tea.Model.
func (m Model) Init() tea.Cmd { return tea.Batch(m.wait(), tea.RequestBackgroundColor, m.recall) }

// wait asks again after a while, sooner as long as the first numbers come.
func (m Model) wait() tea.Cmd {
	every := m.every
	if m.snapshot.young() {
		every = min(every, soon)
	}
	return tea.Tick(every, func(time.Time) tea.Msg { return lookNow{} })
}

// recall asks for the last minute. Without it the lines begin now.
func (m Model) recall() tea.Msg {
	s := m.snapshot
	if err := s.readPast(m.ctx, m.backend); err != nil {
		return nil
	}
	return recalled(s.past)
}

// recalled are the trails of the minute before the start.
type recalled map[rowID]trail

// Update implements tea.Model.
func (m Model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		if msg.Width > 0 && msg.Height > 0 { // else it does not say its size
			m.width, m.height = msg.Width, msg.Height
		}
	case tea.BackgroundColorMsg:
		m.theme = themeOf(msg.IsDark())
	case lookNow:
		return m, func() tea.Msg {
			s, err := takeSnapshot(m.ctx, m.backend)
			return looked{s, err}
		}
	case looked:
		if m.err = msg.err; msg.err == nil {
			m.snapshot = msg.snapshot
			m.remember(msg.snapshot)
		}
		return m, m.wait()
	case recalled:
		m.trails = maps.Clone(m.trails)
		for id, t := range msg {
			m.trails[id] = slices.Concat(t, m.trails[id])
		}
	case explainNow:
		if m.tree != nil && m.tree.of == msg.of {
			return m, m.explain()
		}
	case explainedRow:
		return m.answered(msg)
	case tea.MouseClickMsg:
		if msg.Button == tea.MouseLeft && m.tree == nil {
			m.click(msg.Y)
		}
	case tea.MouseWheelMsg:
		const step = 3
		switch msg.Button {
		case tea.MouseWheelUp:
			m.move(-step)
		case tea.MouseWheelDown:
			m.move(step)
		}
	case tea.KeyPressMsg:
		if key := msg.String(); key == "ctrl+c" {
			return m, tea.Quit
		} else if key == "ctrl+z" {
			return m, tea.Suspend
		}
		if m.typing {
			return m.typeFilter(msg), nil
		}
		return m.press(msg.String())
	}
	return m, nil
}

// remember adds a snapshot to the trails, and forgets what is older than they are long.
func (m *Model) remember(s snapshot) {
	next := make(map[rowID]trail, len(s.rows))
	for _, r := range s.rows {
		t := m.trails[r.rowID]
		if v, ok := r.values["cpu"]; ok {
			t = append(slices.Clone(t), trailPoint{s.findings.At, v.number})
		}
		next[r.rowID] = slices.DeleteFunc(t, func(p trailPoint) bool { return s.findings.At.Sub(p.at) > trailSpan })
	}
	m.trails = next
}

// explain asks where the time of the shown process goes.
func (m Model) explain() tea.Cmd {
	of, to := m.tree.of, m.snapshot.findings.At
	return func() tea.Msg {
		e, err := m.backend.Tree(m.ctx, client.Subject{Process: of.process, Instance: of.machine}, "second", to.Add(-treeSpan), to)
		return explainedRow{of, e, err}
	}
}

// answered shows an answer about a process, and asks again after a while.
func (m Model) answered(a explainedRow) (tea.Model, tea.Cmd) {
	if m.tree == nil || m.tree.of != a.of {
		return m, nil // the user went back
	}
	t := *m.tree
	var refusal *explain.Refusal
	if t.err = a.err; a.err == nil {
		t.explanation = &a.explanation
	}
	m.tree = &t
	every := treeEvery
	if errors.As(a.err, &refusal) {
		every = soon // the first one comes soon
	}
	return m, tea.Tick(every, func(time.Time) tea.Msg { return explainNow{a.of} })
}

// press acts on a key.
func (m Model) press(key string) (tea.Model, tea.Cmd) {
	switch key {
	case "q":
		return m, tea.Quit
	case "up", "k":
		m.move(-1)
	case "down", "j":
		m.move(1)
	case "pgup":
		m.move(-max(1, m.height/2))
	case "pgdown", "space":
		m.move(max(1, m.height/2))
	case "home":
		m.home()
	case "esc", "backspace":
		switch {
		case m.tree != nil:
			m.tree = nil
		case m.filter != nil && key == "esc":
			m.filter = nil
		}
	}
	if m.tree != nil {
		return m, nil
	}
	switch key {
	case "enter":
		if rows := m.matching(); len(rows) > 0 {
			m.tree = &processTree{of: rows[m.selected(rows)].rowID}
			return m, m.explain()
		}
	case "/":
		m.typing, m.typed, m.before = true, "", m.filter
		if m.filter != nil {
			m.typed = m.filter.String()
		}
	case "left", "<", ",":
		m.sort = m.neighbourColumn(-1)
	case "right", ">", ".":
		m.sort = m.neighbourColumn(1)
	default:
		if i := slices.IndexFunc(m.snapshot.columns, func(c column) bool { return c.key != "" && c.key == key }); i >= 0 {
			m.sort = m.snapshot.columns[i].name
		}
	}
	return m, nil
}

// move selects a row that many rows below, or scrolls the explanation.
func (m *Model) move(step int) {
	if m.tree != nil {
		t := *m.tree
		t.offset = min(max(0, t.offset+step), m.farthestLine())
		m.tree = &t
		return
	}
	if rows := m.matching(); len(rows) > 0 {
		m.choose(rows, min(max(0, m.selected(rows)+step), len(rows)-1))
	}
}

// home selects the first row, and then whichever comes first, or shows the beginning of the explanation.
func (m *Model) home() {
	m.move(-1 << 20)
	if m.tree == nil {
		m.chosen = rowID{}
	}
}

// choose selects a row and scrolls so far that it is shown.
func (m *Model) choose(rows []row, at int) {
	m.chosen, m.place = rows[at].rowID, at
	room := max(1, m.room())
	m.offset = min(m.offset, max(0, len(rows)-room)) // the screen has grown, or the list has shrunk
	m.offset = max(min(m.offset, at), at-room+1)
}

// click selects the row in a line of the screen.
func (m *Model) click(line int) {
	rows := m.matching()
	s := m.screen()
	if at := m.first(rows) + line - s.head - 1; line > s.head && line < s.head+1+s.shown && at < len(rows) {
		m.choose(rows, at)
	}
}

// selected is the place of the selected row; of one that is gone, the row in its place.
func (m Model) selected(rows []row) int {
	if m.chosen == (rowID{}) {
		return 0
	}
	if i := slices.IndexFunc(rows, func(r row) bool { return r.rowID == m.chosen }); i >= 0 {
		return i
	}
	return max(0, min(m.place, len(rows)-1))
}

// first is the place of the first row that is shown: scrolled by the offset, and so that the selected one is shown.
func (m Model) first(rows []row) int {
	room := max(1, m.room())
	at := m.selected(rows)
	from := min(m.offset, max(0, len(rows)-room))
	return max(min(from, at), at-room+1)
}

// typeFilter edits the filter; it applies at once if it is valid.
func (m Model) typeFilter(k tea.KeyPressMsg) Model {
	switch k.String() {
	case "esc":
		m.typing, m.bad, m.filter = false, "", m.before
		return m
	case "enter":
		m.typing = m.bad != ""
		return m
	case "backspace":
		if r := []rune(m.typed); len(r) > 0 {
			m.typed = string(r[:len(r)-1])
		}
	default:
		m.typed += k.Text
	}
	f, err := metric.CompileNames(m.typed)
	if m.bad = ""; err != nil {
		m.bad = strings.TrimPrefix(err.Error(), "error parsing regexp: ")
		return m
	}
	m.filter, m.offset, m.chosen = f, 0, rowID{}
	return m
}

// sortable are the columns that rows can be sorted by.
func (m Model) sortable() []column {
	return slices.DeleteFunc(slices.Clone(m.snapshot.columns), func(c column) bool { return c.expr == "" })
}

// sortColumn is the name of the column that the rows are sorted by.
func (m Model) sortColumn() string {
	columns := m.sortable()
	switch {
	case slices.ContainsFunc(columns, func(c column) bool { return c.name == m.sort }):
		return m.sort
	case len(columns) > 0:
		return columns[0].name
	}
	return ""
}

// neighbourColumn is the column that many places to the right of the sorted one.
func (m Model) neighbourColumn(step int) string {
	columns := m.sortable()
	if len(columns) == 0 {
		return m.sort
	}
	i := slices.IndexFunc(columns, func(c column) bool { return c.name == m.sortColumn() })
	return columns[(i+step+len(columns))%len(columns)].name
}

// View implements tea.Model.
func (m Model) View() (v tea.View) {
	m.backend.Draw(func() { v = tea.NewView(m.screen().styled(m.theme, m.width)) })
	v.AltScreen = true
	v.MouseMode = tea.MouseModeCellMotion
	return v
}
