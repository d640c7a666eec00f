package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image/color"
	"math"
	"net/http"
	"net/http/httptest"
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
)

// topCase is testdata/top/NAME.txtar: the monitor's answers (the files platform,
// findings, overhead, query and coverage), the size of the terminal, the pressed keys,
// and the expected screen. A file like names a case whose answers it shares.
type topCase struct {
	file    string
	archive *txtar.Archive
	parts   map[string]string
}

func topCases(t *testing.T) []topCase {
	t.Helper()
	files, err := filepath.Glob("testdata/top/*.txtar")
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
		case r.URL.Path == "/api/v1/query" && r.URL.Query().Get("query") == topQuery(rated):
			part = "query"
		case r.URL.Path == "/api/v1/query_range" && r.URL.Query().Get("query") == ratesIn(topColumns[0].expr, rated):
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
func press(m topModel, keys ...string) topModel {
	for _, k := range keys {
		next, _ := m.Update(key(k))
		m = next.(topModel)
	}
	return m
}

// look makes the model that the command starts with.
func (c topCase) look(t *testing.T) topModel {
	t.Helper()
	base, err := serverURL(c.serve(t))
	if err != nil {
		t.Fatal(err)
	}
	of := monitorAt(base)
	of.where = "http://127.0.0.1:9780" // the test's port differs each time
	s, err := lookAround(t.Context(), of)
	if err != nil {
		t.Fatal(err)
	}
	m := topModel{snapshot: s, of: of, ctx: t.Context(), every: time.Second, filter: &metric.NamePattern{Regexp: regexp.MustCompile("")}, theme: themeOf(true)}
	m.remember(s)
	if c.parts["past"] != "" {
		next, _ := m.Update(m.recall())
		m = next.(topModel)
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
			m := press(next.(topModel), strings.Fields(c.parts["keys"])...)
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
			var out strings.Builder
			cmd := topCommand(Env{Stdout: &out})
			url := c.serve(t)
			cmd.SetArgs(append(strings.Fields(c.parts["args"]), "--once", "--server", url))
			if err := cmd.ExecuteContext(t.Context()); err != nil {
				t.Fatal(err)
			}
			c.want(t, "once", strings.ReplaceAll(out.String(), url, "http://127.0.0.1:9780"))
		})
	}
}

// TestTopRepeats: without a terminal, it prints a table after each interval until it is
// stopped.
func TestTopRepeats(t *testing.T) {
	c := recorded(t)
	ctx, stop := context.WithCancel(t.Context())
	var out strings.Builder
	cmd := topCommand(Env{Stdout: writerFunc(func(p []byte) (int, error) {
		if out.Write(p); strings.Count(out.String(), "teescope top") == 3 {
			stop()
		}
		return len(p), nil
	})})
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs([]string{"--interval", "100ms", "--server", c.serve(t)})
	if err := cmd.ExecuteContext(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("ends with %v, printed %s", err, &out)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

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
	const line = "Watched for 10 s only: 2 of 4 rules look at up to 2 min, and what needs longer to show was not judged. Leave `teescope top` running (without --once)."
	for _, c := range []struct {
		watched time.Duration
		want    string
	}{{0, ""}, {10900 * time.Millisecond, line}, {5 * time.Minute, ""}} { // 0: not known
		s := topSnapshot{watched: c.watched}
		s.findings.Rules = rules
		if got := s.notJudged(); got != c.want {
			t.Errorf("watched for %v: %q, want %q", c.watched, got, c.want)
		}
		for _, once := range []bool{true, false} {
			m := topModel{snapshot: s, once: once, filter: everything, width: usualWidth, height: usualHeight}
			if got := strings.Contains(m.plain(), line); got != (once && c.want != "") {
				t.Errorf("watched for %v, once %v: the line is there %v", c.watched, once, got)
			}
		}
	}
}

func TestTopFails(t *testing.T) {
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprintf(w, `{"error":"GET %s: no such call"}`, r.URL.Path)
	}))
	defer agent.Close()
	broken := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/v1/query" {
			fmt.Fprint(w, `{"data":{"result":[{"metric":{"column":"cpu"},"value":[1,"much"]}]}}`)
			return
		}
		fmt.Fprint(w, "{}")
	}))
	defer broken.Close()
	gone := nobody(t)
	for name, tt := range map[string]struct {
		args []string
		want []string
	}{
		"nobody there":  {[]string{"--server", gone}, []string{gone, "connection refused", "`teescope monitor`"}},
		"an agent":      {[]string{"--server", agent.URL}, []string{"no monitor", "an agent"}},
		"broken answer": {[]string{"--server", broken.URL}, []string{"much", "teescope monitor"}},
		"no URL":        {[]string{"--server", "ftp://localhost:9780"}, []string{"--server", "127.0.0.1:9780"}},
		"bad regex":     {[]string{"--process", "("}, []string{"--process", "missing closing )"}},
		"too often":     {[]string{"--interval", "1ms"}, []string{"--interval 1ms", "100ms"}},
		"an argument":   {[]string{"redis"}, []string{"redis"}},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := topCommand(Env{Stdout: &strings.Builder{}})
			cmd.SilenceErrors, cmd.SilenceUsage = true, true
			cmd.SetArgs(append(tt.args, "--once"))
			err := cmd.ExecuteContext(t.Context())
			for _, w := range tt.want {
				if err == nil || !strings.Contains(err.Error(), w) {
					t.Errorf("error %v, want %q in it", err, w)
				}
			}
		})
	}
}

// TestTopModel presses keys and hands in answers.
func TestTopModel(t *testing.T) {
	m := recorded(t).look(t)
	m.width, m.height = 80, 24
	screen := func(m topModel) string { return strings.Join(m.screen().texts(), "\n") }
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
		if got := press(m, strings.Fields(keys)...).by(); got != want {
			t.Errorf("after %s it sorts by %s, want %s", keys, got, want)
		}
	}
	first, last := m.snapshot.columns[0].name, m.snapshot.columns[len(m.snapshot.columns)-1].name
	if press(m, "<").by() != last || press(m, "left", "right").by() != first || press(m, "<", ">").by() != first {
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
	if s := screen(next.(topModel)); cmd == nil || !strings.Contains(s, "NO ANSWER") || strings.Contains(s, "\x1b") || !strings.Contains(s, m.matching()[0].process) {
		t.Errorf("after an error it shows %s", s)
	}
	if next, _ = next.Update(looked{snapshot: m.snapshot}); strings.Contains(screen(next.(topModel)), "NO ANSWER") {
		t.Error("the error stays when an answer comes again")
	}
	for _, size := range []tea.WindowSizeMsg{{Width: 1, Height: 1}, {Width: 20, Height: 5}, {Width: 300, Height: 100}} {
		next, _ := m.Update(size)
		if s := next.(topModel).screen(); len(s.lines) != size.Height {
			t.Errorf("%d lines on a terminal of %v", len(s.lines), size)
		}
		_ = next.View()
	}
	if next, _ := m.Update(tea.WindowSizeMsg{}); next.(topModel).width != 80 || next.(topModel).height != 24 {
		t.Error("a terminal that does not say its size changes the size")
	}
}

// answered hands the model the answer about the process that it shows.
func answered(t *testing.T, m topModel) topModel {
	t.Helper()
	next, _ := m.Update(m.explain()())
	return next.(topModel)
}

// TestTopMouse: a click selects a row, the wheel moves the selection, and what is no row does nothing.
func TestTopMouse(t *testing.T) {
	m := recorded(t).look(t)
	m.width, m.height = 80, 24
	rows := m.matching()
	click := func(m topModel, line int) topModel {
		next, _ := m.Update(tea.MouseClickMsg{X: 3, Y: line, Button: tea.MouseLeft})
		return next.(topModel)
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
	wheel := func(m topModel, b tea.MouseButton) topModel {
		next, _ := m.Update(tea.MouseWheelMsg{Button: b})
		return next.(topModel)
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
	s.rows = slices.DeleteFunc(slices.Clone(s.rows), func(r topRow) bool { return r.rowID == who })
	next, _ := at.Update(looked{snapshot: s})
	if got := next.(topModel); got.selected(got.matching()) != 2 {
		t.Errorf("after its end row %d is selected", got.selected(got.matching()))
	}
}

// TestTopTheme: the colours follow the background, and nothing but the colours.
func TestTopTheme(t *testing.T) {
	m := recorded(t).look(t)
	m.width, m.height = 80, 24
	next, _ := m.Update(tea.BackgroundColorMsg{Color: color.White})
	light := next.(topModel)
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
		if got := tr.line(now); got != want {
			t.Errorf("%v is %q, want %q", tr, got, want)
		}
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
	f.Add([]byte(`{"data":{"result":[{"metric":{"process":"a\u001b[2J","instance":"x","column":"cpu"},"value":[1,"1e300"]}]}}`), 80, 24)
	f.Add([]byte(`{"data":{"result":[{"metric":{"process":"b","column":"epc"},"value":[1,"-Inf"]},{"metric":{"column":"kernel"},"value":[1,"NaN"]}]}}`), 3, 2)
	f.Fuzz(func(t *testing.T, answered []byte, width, height int) {
		var a answer
		if json.Unmarshal(answered, &a) != nil || width < 1 || height < 1 || width > 500 || height > 200 {
			return
		}
		points, err := a.points()
		if err != nil {
			return
		}
		var s topSnapshot
		s.fill(points, points)
		m := topModel{snapshot: s, width: width, height: height}
		m.remember(s)
		lines := press(m, "<", "down", "/").screen().texts()
		if len(lines) != height {
			t.Errorf("%d lines on %d", len(lines), height)
		}
		for _, l := range append(lines, strings.Split(m.plain(), "\n")...) {
			if strings.ContainsFunc(l, unicode.IsControl) {
				t.Errorf("control characters in %q", l)
			}
		}
	})
}
