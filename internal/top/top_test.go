package top

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"image/color"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	tea "charm.land/bubbletea/v2"
	prettytext "github.com/jedib0t/go-pretty/v6/text"
	"golang.org/x/tools/txtar"

	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/monitor/client"
)

var update = flag.Bool("update", false, "write the expected screens")

// topCase is testdata/NAME.txtar: the monitor's answers (the files platform,
// findings, overhead, query and coverage), the size of the terminal, the pressed keys,
// the filter of the table without a terminal, and the expected screen and table (once). A file like names a case whose answers it shares.
type topCase struct {
	file    string
	archive *txtar.Archive
	parts   map[string]string
}

func topCases(t *testing.T) []topCase {
	t.Helper()
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no cases", err)
	}
	var out []topCase
	for _, file := range files {
		a, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		c := topCase{file, a, map[string]string{}}
		for _, f := range a.Files {
			c.parts[f.Name] = string(f.Data)
		}
		out = append(out, c)
	}
	for _, c := range out {
		for like := c; ; { // which may be like another one
			i := slices.IndexFunc(out, func(o topCase) bool { return o.name() == strings.TrimSpace(like.parts["like"]) })
			if i < 0 {
				break
			}
			like = out[i]
			for _, part := range []string{"platform", "findings", "overhead", "query", "coverage", "explain"} {
				c.parts[part] = cmp.Or(c.parts[part], like.parts[part])
			}
		}
	}
	return out
}

// recorded is the case that the others derive from.
func recorded(t *testing.T) topCase {
	t.Helper()
	all := topCases(t)
	i := slices.IndexFunc(all, func(c topCase) bool { return c.name() == "recorded" })
	if i < 0 {
		t.Fatal("no case recorded")
	}
	return all[i]
}

func (c topCase) name() string { return strings.TrimSuffix(filepath.Base(c.file), ".txtar") }

// serve answers as the recorded monitor did.
func (c topCase) serve(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		part, ok := strings.CutPrefix(r.URL.Path, "/api/teescope/v1/")
		switch {
		case ok:
		case strings.HasPrefix(r.URL.Query().Get("query"), "min_over_time(teescope_source_coverage_ratio"):
			part = "coverage"
		case r.URL.Path == "/api/v1/query" && r.URL.Query().Get("query") == tableQuery(rated):
			part = "query"
		case r.URL.Path == "/api/v1/query_range" && r.URL.Query().Get("query") == ratesIn(allColumns[0].expr, rated):
			part = "past"
		}
		if c.parts[part] == "" {
			t.Errorf("asked for %s", r.URL)
		}
		fmt.Fprint(w, c.parts[part])
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// want compares with a file of the case, or writes it.
func (c topCase) want(t *testing.T, name, got string) {
	t.Helper()
	if !*update {
		if got != c.parts[name] {
			t.Errorf("%s shows\n%s\nwant\n%s\n(-update accepts it)", name, got, c.parts[name])
		}
		return
	}
	for i, f := range c.archive.Files {
		if f.Name == name {
			c.archive.Files[i].Data = []byte(got)
			got = ""
		}
	}
	if got != "" {
		c.archive.Files = append(c.archive.Files, txtar.File{Name: name, Data: []byte(got)})
	}
	if err := os.WriteFile(c.file, txtar.Format(c.archive), 0o644); err != nil {
		t.Fatal(err)
	}
}

// key is a key by its name, or by the character it types.
func key(name string) tea.KeyPressMsg {
	named := map[string]tea.KeyPressMsg{
		"up": {Code: tea.KeyUp}, "down": {Code: tea.KeyDown}, "left": {Code: tea.KeyLeft}, "right": {Code: tea.KeyRight},
		"enter": {Code: tea.KeyEnter}, "esc": {Code: tea.KeyEscape}, "backspace": {Code: tea.KeyBackspace},
		"pgdown": {Code: tea.KeyPgDown}, "pgup": {Code: tea.KeyPgUp}, "home": {Code: tea.KeyHome}, "ctrl+c": {Code: 'c', Mod: tea.ModCtrl},
	}
	if k, ok := named[name]; ok {
		return k
	}
	return tea.KeyPressMsg{Code: []rune(name)[0], Text: name}
}

// press presses keys one after the other.
func press(m Model, keys ...string) Model {
	for _, k := range keys {
		next, _ := m.Update(key(k))
		m = next.(Model)
	}
	return m
}

// backend is the recorded monitor.
func (c topCase) backend(t *testing.T) client.Backend {
	t.Helper()
	base, err := url.Parse(c.serve(t))
	if err != nil {
		t.Fatal(err)
	}
	b := client.Monitor(base)
	b.Where = "http://127.0.0.1:9780" // the test's port differs each time
	return b
}

// look makes the model that the command starts with.
func (c topCase) look(t *testing.T) Model {
	t.Helper()
	m, err := NewModel(t.Context(), c.backend(t), time.Second, &metric.NamePattern{Regexp: regexp.MustCompile("")})
	if err != nil {
		t.Fatal(err)
	}
	if c.parts["past"] != "" {
		next, _ := m.Update(m.recall())
		m = next.(Model)
	}
	return m
}

func TestTopScreens(t *testing.T) {
	for _, c := range topCases(t) {
		t.Run(c.name(), func(t *testing.T) {
			var width, height int
			if _, err := fmt.Sscanf(c.parts["size"], "%dx%d", &width, &height); err != nil {
				t.Fatalf("size: %v", err)
			}
			next, _ := c.look(t).Update(tea.WindowSizeMsg{Width: width, Height: height})
			m := press(next.(Model), strings.Fields(c.parts["keys"])...)
			if m.tree != nil {
				m = answered(t, m)
			}
			s := m.screen()
			lines, head := s.texts(), s.head
			if len(lines) != height || head >= height {
				t.Errorf("%d lines with the head in line %d, want %d lines", len(lines), head, height)
			}
			for _, l := range lines {
				if w := prettytext.StringWidth(l); w > width || strings.ContainsFunc(l, func(r rune) bool { return r < ' ' || r == 0x7f }) {
					t.Errorf("line %q is %d columns wide, or has control characters", l, w)
				}
			}
			c.want(t, "screen", strings.Join(lines, "\n")+"\n")
			if v := m.View(); !v.AltScreen || v.MouseMode == tea.MouseModeNone || prettytext.StringWidthWithoutEscSequences(strings.Split(v.Content, "\n")[head]) != width {
				t.Errorf("the view is not on the alternate screen, or its head is not as wide as the terminal: %q", v.Content)
			}
		})
	}
}

// TestTopOnce compares the output without a terminal.
func TestTopOnce(t *testing.T) {
	for _, c := range topCases(t) {
		t.Run(c.name(), func(t *testing.T) {
			m := c.look(t)
			var err error
			if m.filter, err = metric.CompileNames(strings.TrimSpace(c.parts["filter"])); err != nil {
				t.Fatal(err)
			}
			c.want(t, "once", m.OneTable())
		})
	}
}

// TestTopRepeats: without a terminal, it prints a table after each interval until it is
// stopped.
func TestTopRepeats(t *testing.T) {
	c := recorded(t)
	ctx, stop := context.WithCancel(t.Context())
	var out strings.Builder
	m, err := NewModel(ctx, c.backend(t), 100*time.Millisecond, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.PrintTables(writerFunc(func(p []byte) (int, error) {
		if out.Write(p); strings.Count(out.String(), "teescope top") == 3 {
			stop()
		}
		return len(p), nil
	})); !errors.Is(err, context.Canceled) {
		t.Errorf("ends with %v, printed %s", err, &out)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// TestTopModel presses keys and hands in answers.
func TestTopModel(t *testing.T) {
	m := recorded(t).look(t)
	m.width, m.height = 80, 24
	screen := func(m Model) string { return strings.Join(m.screen().texts(), "\n") }
	quits := func(k string) bool {
		_, cmd := m.Update(key(k))
		if cmd == nil {
			return false
		}
		_, ok := cmd().(tea.QuitMsg)
		return ok
	}
	if !quits("q") || !quits("ctrl+c") || quits("s") {
		t.Error("q and ctrl+c end it, and no other key")
	}
	for keys, want := range map[string]string{"s": "syscalls", "x": "switches", "f": "faults", "s c": "cpu", "z": "cpu"} {
		t.Run(keys, func(t *testing.T) {
			if got := press(m, strings.Fields(keys)...).sortColumn(); got != want {
				t.Errorf("after %s it sorts by %s, want %s", keys, got, want)
			}
		})
	}
	first, last := m.snapshot.columns[0].name, m.snapshot.columns[len(m.snapshot.columns)-1].name
	if press(m, "<").sortColumn() != last || press(m, "left", "right").sortColumn() != first || press(m, "<", ">").sortColumn() != first {
		t.Error("< and > do not go around the columns")
	}
	if typed := press(m, "/", "q", "(", "["); !typed.typing || typed.bad == "" || !strings.Contains(screen(typed), "filter: q([_") {
		t.Errorf("a filter that is not one yet: %q in %s", typed.bad, screen(typed))
	} else if back := press(typed, "enter", "esc"); back.typing || back.filter.String() != "" {
		t.Errorf("esc leaves the filter at %v", back.filter)
	} else if kept := press(typed, "backspace", "backspace", "enter"); kept.typing || kept.filter.String() != "q" {
		t.Errorf("enter leaves the filter at %v", kept.filter)
	}
	rows := m.matching()
	if far := press(m, strings.Fields(strings.Repeat("pgdown ", 50))...); !strings.Contains(screen(far), "PROCESS") || far.chosen != rows[len(rows)-1].rowID || !strings.Contains(screen(far), rows[len(rows)-1].process) {
		t.Errorf("scrolled to %v of %d rows:\n%s", far.chosen, len(rows), screen(far))
	} else if up := press(far, "up"); up.chosen != rows[len(rows)-2].rowID {
		t.Error("after scrolling past the end the first key back moves nothing")
	} else if first := press(far, "home"); first.chosen != (rowID{}) || first.selected(rows) != 0 {
		t.Error("home does not select the first row")
	}

	next, cmd := m.Update(lookNow{})
	if cmd == nil {
		t.Fatal("it does not ask when it is time")
	}
	next, cmd = next.Update(looked{err: errors.New("no\x1b[2J route")})
	if s := screen(next.(Model)); cmd == nil || !strings.Contains(s, "NO ANSWER") || strings.Contains(s, "\x1b") || !strings.Contains(s, m.matching()[0].process) {
		t.Errorf("after an error it shows %s", s)
	}
	if next, _ = next.Update(looked{snapshot: m.snapshot}); strings.Contains(screen(next.(Model)), "NO ANSWER") {
		t.Error("the error stays when an answer comes again")
	}
	for _, size := range []tea.WindowSizeMsg{{Width: 1, Height: 1}, {Width: 20, Height: 5}, {Width: 300, Height: 100}} {
		next, _ := m.Update(size)
		if s := next.(Model).screen(); len(s.lines) != size.Height {
			t.Errorf("%d lines on a terminal of %v", len(s.lines), size)
		}
		_ = next.View()
	}
	if next, _ := m.Update(tea.WindowSizeMsg{}); next.(Model).width != 80 || next.(Model).height != 24 {
		t.Error("a terminal that does not say its size changes the size")
	}
}

// answered hands the model the answer about the process that it shows.
func answered(t *testing.T, m Model) Model {
	t.Helper()
	next, _ := m.Update(m.explain()())
	return next.(Model)
}

// TestTopMouse: a click selects a row, the wheel moves the selection, and what is no row does nothing.
func TestTopMouse(t *testing.T) {
	m := recorded(t).look(t)
	m.width, m.height = 80, 24
	rows := m.matching()
	click := func(m Model, line int) Model {
		next, _ := m.Update(tea.MouseClickMsg{X: 3, Y: line, Button: tea.MouseLeft})
		return next.(Model)
	}
	head := m.screen().head
	if got := click(m, head+3); got.chosen != rows[2].rowID || got.screen().lines[head+3].style != chosenStyle {
		t.Errorf("a click in the third row selects %v", got.chosen)
	}
	for _, line := range []int{0, head, m.height - 1} {
		if got := click(m, line); got.chosen != (rowID{}) {
			t.Errorf("a click in line %d selects %v", line, got.chosen)
		}
	}
	wheel := func(m Model, b tea.MouseButton) Model {
		next, _ := m.Update(tea.MouseWheelMsg{Button: b})
		return next.(Model)
	}
	if got := wheel(wheel(m, tea.MouseWheelDown), tea.MouseWheelUp); got.selected(rows) != 0 || wheel(m, tea.MouseWheelDown).selected(rows) != 3 {
		t.Error("the wheel does not move the selection")
	}
}

// TestTopKeepsSelection: the selection stays with its process when the order changes, and with its place when that is gone.
func TestTopKeepsSelection(t *testing.T) {
	m := recorded(t).look(t)
	m.width, m.height = 80, 24
	at := press(m, "down", "down")
	who := at.matching()[2].rowID
	if by := press(at, "s"); by.chosen != who || by.matching()[by.selected(by.matching())].rowID != who {
		t.Errorf("%v is selected after sorting, want %v", by.chosen, who)
	}
	s := at.snapshot
	s.rows = slices.DeleteFunc(slices.Clone(s.rows), func(r row) bool { return r.rowID == who })
	next, _ := at.Update(looked{snapshot: s})
	if got := next.(Model); got.selected(got.matching()) != 2 {
		t.Errorf("after its end row %d is selected", got.selected(got.matching()))
	}
}

// TestTopTheme: the colours follow the background, and nothing but the colours.
func TestTopTheme(t *testing.T) {
	m := recorded(t).look(t)
	m.width, m.height = 80, 24
	next, _ := m.Update(tea.BackgroundColorMsg{Color: color.White})
	light := next.(Model)
	if light.View().Content == m.View().Content {
		t.Error("a light background changes nothing")
	}
	if a, b := ansi.ReplaceAllString(light.View().Content, ""), ansi.ReplaceAllString(m.View().Content, ""); a != b {
		t.Errorf("a light background changes the words:\n%s\n%s", a, b)
	}
}

var ansi = regexp.MustCompile("\x1b\\[[0-9;]*m")

// TestTrail: a cell is the mean of its part of the last minute; what is unknown is blank, and little is low.
func TestTrail(t *testing.T) {
	now := time.Unix(1e9, 0)
	ago := func(s int) time.Time { return now.Add(-time.Duration(s) * time.Second) }
	for want, tr := range map[string]trail{
		"        ": nil,
		"       █": {{ago(7), 10}, {ago(1), 30}},
		"▁▁     █": {{ago(59), 0}, {ago(50), 10}, {ago(0), 100}},
		"      ▅▅": {{ago(8), .5}, {ago(0), .5}},
		"█     ▅ ": {{ago(70), 1}, {ago(59), 100}, {ago(10), 60}, {ago(9), 50}},
		"       ▁": {{ago(9), math.Inf(1)}, {ago(0), 1}},
	} {
		t.Run(want, func(t *testing.T) {
			if got := tr.line(now); got != want {
				t.Errorf("%v is %q, want %q", tr, got, want)
			}
		})
	}
}

func TestWrapped(t *testing.T) {
	for _, tt := range []struct {
		text        string
		width, most int
		want        []string
	}{
		{"", 10, 2, []string{""}},
		{"one two three", 20, 1, []string{"one two three"}},
		{"one two three", 8, 2, []string{"one two", "three"}},
		{"one two three", 7, 1, []string{"one …"}},
		{"one two three", 8, 1, []string{"one …"}},
		{"one two three four", 9, 2, []string{"one two", "three …"}},
		{"incomprehensible", 8, 1, []string{"incompr…"}},
		{"incomprehensible words", 8, 1, []string{"incompr…"}},
	} {
		if got := wrapped(tt.text, tt.width, tt.most); !slices.Equal(got, tt.want) {
			t.Errorf("%q in %d columns is %q, want %q", tt.text, tt.width, got, tt.want)
		}
	}
}

func TestCompact(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 0.44: "0.4", 9.94: "9.9", 9.96: "10", 372.4: "372", 9_999: "9999", 9_999.6: "10.0k", 12_345: "12.3k", 99_960: "100k",
		999_400: "999k", 999_600: "1.00M", 1_234_567: "1.23M", 5e12: "5.00T", 5e16: "50000T",
	} {
		if got := compact(v); got != want {
			t.Errorf("compact(%v) is %s, want %s", v, got, want)
		}
	}
}

// FuzzTop shows whatever a server answers to a query, on terminals of any size.
func FuzzTop(f *testing.F) {
	f.Add("a\x1b[2J", "x", "cpu", 1e300, 80, 24)
	f.Add("b", "", "epc", math.Inf(-1), 3, 2)
	f.Add("", "", "kernel", math.NaN(), 3, 2)
	f.Fuzz(func(t *testing.T, process, machine, column string, value float64, width, height int) {
		if width < 1 || height < 1 || width > 500 || height > 200 {
			return
		}
		points := []metric.Point{{Labels: map[string]string{"process": process, "instance": machine, "column": column}, Value: value},
			{Labels: map[string]string{"process": process, "instance": machine, "source": machine}, Value: value}, {Labels: map[string]string{"process": "second", "column": column}, Value: 1}}
		var s snapshot
		s.fill(points, points)
		m := Model{snapshot: s, width: width, height: height}
		m.remember(s)
		lines := press(m, "<", "down", "/").screen().texts()
		if len(lines) != height {
			t.Errorf("%d lines on %d", len(lines), height)
		}
		for _, l := range append(lines, strings.Split(m.Table(), "\n")...) {
			if strings.ContainsFunc(l, unicode.IsControl) {
				t.Errorf("control characters in %q", l)
			}
		}
	})
}

// TestNotJudged: a single look at a machine that has been watched for less than rules look at says so, in one line above the table.
func TestNotJudged(t *testing.T) {
	rule := func(name string, answer findings.Answer, short float64) findings.RuleStat {
		return findings.RuleStat{Name: name, Answer: answer, Windows: [2]float64{5 * short, short}}
	}
	rules := []findings.RuleStat{rule("storm", findings.Silent, 60), rule("loss", findings.Silent, 5), rule("blind", findings.CannotTell, 90), rule("hot", findings.Fires, 120)}
	everything, err := metric.CompileNames("")
	if err != nil {
		t.Fatal(err)
	}
	const line = "Watched for only 10 s. 2 of 4 rules need more time, up to 2 min, so slower problems may be missing. Leave `teescope top` running (without --once)."
	for _, c := range []struct {
		watched time.Duration
		want    string
	}{{0, ""}, {10900 * time.Millisecond, line}, {5 * time.Minute, ""}} { // 0: not known
		s := snapshot{watched: c.watched}
		s.findings.Rules = rules
		if got := s.notJudged(); got != c.want {
			t.Errorf("watched for %v: %q, want %q", c.watched, got, c.want)
		}
		m := Model{snapshot: s, filter: everything, width: usualWidth, height: usualHeight}
		if got := strings.Contains(m.OneTable(), line); got != (c.want != "") {
			t.Errorf("watched for %v: the line is there %v", c.watched, got)
		}
		if strings.Contains(m.Table(), line) {
			t.Errorf("watched for %v: the line is in a repeated table", c.watched)
		}
	}
}
