//go:build linux

package cli

import (
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/teescope/teescope/internal/metric"
)

// topModel is the state of the live view. Its methods touch nothing but itself, so
// a test can press keys and read the screen without a terminal.
type topModel struct {
	snapshot topSnapshot
	err      error // why the snapshot is old, nil when it is not
	look     func() (topSnapshot, error)
	every    time.Duration

	sort          string // a column's name, "" for the first that is there
	filter        *metric.NamePattern
	offset        int // rows scrolled by
	width, height int

	typing bool   // a filter is being typed
	typed  string // the text typed so far
	bad    string // why the typed text is not a filter yet
	before *metric.NamePattern
}

// looked is the monitor's answer.
type looked struct {
	snapshot topSnapshot
	err      error
}

// lookNow is sent when it is time to ask the monitor again.
type lookNow struct{}

// Init implements tea.Model.
func (m topModel) Init() tea.Cmd { return m.wait() }

func (m topModel) wait() tea.Cmd {
	return tea.Tick(m.every, func(time.Time) tea.Msg { return lookNow{} })
}

// Update implements tea.Model.
func (m topModel) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case lookNow:
		return m, func() tea.Msg {
			s, err := m.look()
			return looked{s, err}
		}
	case looked:
		if m.err = msg.err; msg.err == nil {
			m.snapshot = msg.snapshot
		}
		return m, m.wait()
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

// press acts on a key.
func (m topModel) press(key string) (tea.Model, tea.Cmd) {
	farthest := m.farthest()
	m.offset = min(m.offset, farthest) // the screen has grown, or the list has shrunk
	switch key {
	case "q":
		return m, tea.Quit
	case "/":
		m.typing, m.typed, m.before = true, "", m.filter
		if m.filter != nil {
			m.typed = m.filter.String()
		}
	case "up":
		m.offset = max(0, m.offset-1)
	case "down":
		m.offset++
	case "pgup":
		m.offset = max(0, m.offset-m.height/2)
	case "pgdown":
		m.offset += m.height / 2
	case "home":
		m.offset = 0
	case "left", "<", ",":
		m.sort = m.beside(-1)
	case "right", ">", ".":
		m.sort = m.beside(1)
	default:
		if i := slices.IndexFunc(m.snapshot.columns, func(c topColumn) bool { return c.key != "" && c.key == key }); i >= 0 {
			m.sort = m.snapshot.columns[i].name
		}
	}
	m.offset = min(m.offset, farthest)
	return m, nil
}

// typeFilter edits the filter; it applies at once if it is valid.
func (m topModel) typeFilter(k tea.KeyPressMsg) topModel {
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
	m.filter, m.offset = f, 0
	return m
}

// by is the name of the column that the rows are sorted by.
func (m topModel) by() string {
	has := func(name string) bool {
		return slices.ContainsFunc(m.snapshot.columns, func(c topColumn) bool { return c.name == name })
	}
	switch {
	case has(m.sort):
		return m.sort
	case len(m.snapshot.columns) > 0:
		return m.snapshot.columns[0].name
	}
	return ""
}

// beside is the column that many places to the right of the sorted one.
func (m topModel) beside(step int) string {
	columns := m.snapshot.columns
	if len(columns) == 0 {
		return m.sort
	}
	i := slices.IndexFunc(columns, func(c topColumn) bool { return c.name == m.by() })
	return columns[(i+step+len(columns))%len(columns)].name
}

// View implements tea.Model.
func (m topModel) View() tea.View {
	lines, head := m.screen()
	if head < len(lines) { // in reverse, over the whole width
		lines[head] = "\x1b[7m" + pad(lines[head], m.width) + "\x1b[m"
	}
	v := tea.NewView(strings.Join(lines, "\n"))
	v.AltScreen = true
	return v
}
