package probe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/await"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/tee"
)

var (
	calls = &metric.Desc{Name: "tee_calls_total", Help: "Calls.", Labels: []string{"process"}}
	level = &metric.Desc{Name: "tee_a_level", Help: "A level.", Kind: metric.Gauge}
)

// fake is a source whose behaviour a test sets while it runs.
type fake struct {
	openErr, readErr, closeErr error
	samples                    []metric.Sample
	opened, closed             int
	facts                      []tee.Facts
}

func (f *fake) source(name string) *Source {
	return &Source{Name: name, Doc: "A fake.", Metrics: []*metric.Desc{calls, level},
		Open: func(_ *host.Host, facts []tee.Facts) (Reader, error) {
			f.opened++
			f.facts = facts
			if f.openErr != nil {
				return nil, f.openErr
			}
			return f, nil
		}}
}

func (f *fake) Read(_ context.Context, emit func(metric.Sample)) error {
	for _, s := range f.samples {
		emit(s)
	}
	return f.readErr
}

func (f *fake) Close() error {
	f.closed++
	return f.closeErr
}

func clock() *host.Host {
	return &host.Host{Now: func() time.Time { return time.Unix(100, 0) }}
}

// text renders one round without the times, which only say how fast we are.
func text(t *testing.T, e *Engine) string {
	t.Helper()
	at, samples := e.Collect(t.Context())
	if !at.Equal(time.Unix(100, 0)) {
		t.Errorf("round at %v, not by the host's clock", at)
	}
	var out []string
	for line := range bytes.Lines(metric.AppendText(nil, samples)) {
		if line[0] != '#' && !bytes.HasPrefix(line, []byte("teescope_source_read_seconds")) {
			out = append(out, strings.TrimSpace(string(line)))
		}
	}
	return strings.Join(out, "\n")
}

func TestStates(t *testing.T) {
	two := []metric.Sample{
		{Desc: calls, Labels: []string{"redis"}, Value: 7},
		{Desc: level, Value: 1},
	}
	const self = "teescope_series_folded_total{source=\"x\"} 0\nteescope_source_coverage_ratio{source=\"x\"} 1\nteescope_source_missed_events_total{source=\"x\"} 0\n"
	// How much a degraded source did not see is not known, so it claims no coverage.
	const degraded = "teescope_series_folded_total{source=\"x\"} 0\nteescope_source_missed_events_total{source=\"x\"} 0\n"
	for name, c := range map[string]struct {
		fake           fake
		state          State
		reason, remedy string
		blind          bool
		want           string
	}{
		"available": {
			fake:  fake{samples: two},
			state: Available,
			want:  "tee_a_level 1\ntee_calls_total{process=\"redis\"} 7\n" + self + "teescope_source_up{source=\"x\"} 1",
		},
		"available and silent": {
			state: Available,
			want:  self + "teescope_source_up{source=\"x\"} 1",
		},
		"not here": {
			fake:  fake{openErr: NotHere("no %s", "pool")},
			state: Absent, reason: "no pool",
			want: "",
		},
		"unavailable": {
			fake:  fake{openErr: &Problem{Err: fmt.Errorf("open: %w", fs.ErrPermission), Remedy: "run as root"}},
			state: Unavailable, reason: "open: permission denied", remedy: "run as root",
			want: "teescope_source_up{source=\"x\"} 0",
		},
		"blind": {
			fake:  fake{openErr: &Problem{Err: errors.New("no counters"), Blind: true}},
			state: Unavailable, reason: "no counters", blind: true,
			want: "teescope_source_blind{source=\"x\",reason=\"no counters\"} 1\nteescope_source_up{source=\"x\"} 0",
		},
		"degraded": {
			fake:  fake{samples: two[1:], readErr: fmt.Errorf("read: %w", &Problem{Err: errors.New("cut"), Remedy: "look"})},
			state: Degraded, reason: "read: cut", remedy: "look",
			want: "tee_a_level 1\n" + degraded + "teescope_source_up{source=\"x\"} 1",
		},
		"degraded to nothing": {
			fake:  fake{readErr: errors.New("cut")},
			state: Degraded, reason: "cut",
			want: degraded + "teescope_source_up{source=\"x\"} 0",
		},
		"coverage": {
			fake: fake{samples: []metric.Sample{
				{Desc: Coverage, Value: 0.5}, {Desc: Missed, Value: 3}, {Desc: Folded, Value: 4}}},
			state: Available,
			want: "teescope_series_folded_total{source=\"x\"} 4\nteescope_source_coverage_ratio{source=\"x\"} 0.5\n" +
				"teescope_source_missed_events_total{source=\"x\"} 3\nteescope_source_up{source=\"x\"} 1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			facts := []tee.Facts{{Kind: "sgx"}}
			e := Open(clock(), facts, []*Source{c.fake.source("x")}, nil)
			if got := text(t, e); got != c.want {
				t.Errorf("samples\n%s\nwant\n%s", got, c.want)
			}
			s := e.Status()[0]
			if s.State != c.state || s.Remedy != c.remedy || s.Blind != c.blind || !strings.HasPrefix(s.Reason, c.reason) || (c.reason == "") != (s.Reason == "") {
				t.Errorf("status %+v", s)
			}
			if len(c.fake.facts) != 1 {
				t.Errorf("opened with facts %v", c.fake.facts)
			}
			if err := e.Close(); err != nil {
				t.Error(err)
			}
			if want := map[bool]int{true: 1, false: 0}[c.fake.openErr == nil]; c.fake.closed != want {
				t.Errorf("closed %d times, want %d", c.fake.closed, want)
			}
		})
	}
}

// TestRecovers sees a source go down and come back.
func TestRecovers(t *testing.T) {
	f := &fake{samples: []metric.Sample{{Desc: level, Value: 1}}}
	e := Open(clock(), nil, []*Source{f.source("x")}, nil)
	f.readErr = &Problem{Err: errors.New("gone"), Remedy: "wait", Blind: true}
	text(t, e)
	f.readErr = nil
	text(t, e)
	if s := e.Status()[0]; s.State != Available || s.Reason != "" || s.Remedy != "" || s.Blind || s.Series != 1 {
		t.Errorf("status after recovery: %+v", s)
	}
}

func TestProcessFilter(t *testing.T) {
	f := &fake{samples: []metric.Sample{
		{Desc: calls, Labels: []string{"redis-server"}, Value: 1},
		{Desc: calls, Labels: []string{"nginx"}, Value: 2},
		{Desc: calls, Labels: []string{"victoria-metric"}, Value: 4}, // as the kernel cuts victoria-metrics-prod
		{Desc: level, Value: 3},
	}}
	e := Open(clock(), nil, []*Source{f.source("x")}, &metric.NamePattern{Regexp: regexp.MustCompile("edis")})
	check := func(filter string, want ...string) {
		t.Helper()
		got := text(t, e)
		for _, p := range []string{"redis-server", "nginx", "victoria-metric"} {
			if has := strings.Contains(got, p); has != strings.Contains(strings.Join(want, " "), p) {
				t.Errorf("filter %q: %s shown is %v", filter, p, has)
			}
		}
		if !strings.Contains(got, "tee_a_level 3") {
			t.Errorf("filter %q hides a metric without a process", filter)
		}
		if s := e.Status()[0]; scopeOf(s) != filter || s.State != Available {
			t.Errorf("filter %q: status %+v", filter, s)
		}
	}
	set := func(filter string) error { return e.Set("x", Setting{Process: &filter}) }
	check("edis", "redis-server")
	for _, c := range []struct {
		filter string
		want   []string
	}{{"^nginx$", []string{"nginx"}}, {"none", nil}, {"^victoria-metrics-prod$", []string{"victoria-metric"}}, {"^victoria-logs-prod$", nil}, {"", []string{"redis-server", "nginx", "victoria-metric"}}} {
		if err := set(c.filter); err != nil {
			t.Fatal(err)
		}
		check(c.filter, c.want...)
	}
	if err := set("("); err == nil || !strings.Contains(err.Error(), "x") {
		t.Errorf("bad filter: %v", err)
	}
	check("", "redis-server", "nginx", "victoria-metric") // as before
}

// counting is a fake whose counters begin when it is opened.
type counting struct{ *fake }

func (counting) FromZero() {}

// TestFromZero: of a reader that counts from its opening, a series that a round has and
// the one before had not began there, whether a filter hides it or not; unless the one
// before was not read.
func TestFromZero(t *testing.T) {
	for _, fromZero := range []bool{true, false} {
		f := &fake{}
		source := f.source("x")
		if open := source.Open; fromZero {
			source.Open = func(h *host.Host, facts []tee.Facts) (Reader, error) {
				_, err := open(h, facts)
				return counting{f}, err
			}
		}
		round := 0
		e := Open(&host.Host{Now: func() time.Time { return time.Unix(int64(round), 0) }}, nil, []*Source{source}, &metric.NamePattern{Regexp: regexp.MustCompile("^[^h]")})
		next := func(want map[string]int, processes ...string) {
			t.Helper()
			round++
			f.samples = []metric.Sample{{Desc: level, Value: 3}}
			for _, p := range processes {
				f.samples = append(f.samples, metric.Sample{Desc: calls, Labels: []string{p}, Value: 5})
			}
			if f.readErr != nil {
				f.samples = nil
			}
			_, samples := e.Collect(t.Context())
			got := map[string]int{}
			for _, s := range samples {
				if !s.Began.IsZero() {
					got[strings.Join(s.Labels, " ")] = int(s.Began.Unix())
				}
				if before := s.Began.Add(-time.Second); s.Zero.IsZero() != s.Began.IsZero() || !s.Zero.IsZero() && !s.Zero.Equal(before) {
					t.Errorf("round %d: %v was 0 at %v, want the round before %v", round, s.Labels, s.Zero, s.Began)
				}
			}
			if !fromZero {
				want = nil
			}
			if !maps.Equal(got, want) {
				t.Errorf("round %d: %v, want %v", round, got, want)
			}
		}
		next(nil, "a")
		next(map[string]int{"b": 2}, "a", "b", "hidden")
		next(map[string]int{"b": 2}, "a", "b", "hidden")
		all := ""
		if err := e.Set("x", Setting{Process: &all}); err != nil {
			t.Fatal(err)
		}
		next(map[string]int{"b": 2, "hidden": 2}, "a", "b", "hidden")
		f.readErr = errors.New("gone")
		next(nil)
		f.readErr = nil
		next(map[string]int{"b": 2}, "a", "b", "c")
		next(map[string]int{"b": 2, "d": 7}, "a", "b", "c", "d")
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
}

func scopeOf(s Status) string {
	if s.Scope.Process == nil {
		return ""
	}
	return s.Scope.Process.String()
}

func TestOnOff(t *testing.T) {
	f := &fake{samples: []metric.Sample{{Desc: level, Value: 1}}, closeErr: errors.New("close: busy")}
	e := Open(clock(), nil, []*Source{f.source("x")}, nil)
	turn := func(on bool) error { return e.Set("x", Setting{On: &on}) }
	if err := turn(true); err != nil || f.opened != 1 {
		t.Errorf("switching on what is on: %v, opened %d times", err, f.opened)
	}
	if err := turn(false); err == nil || f.closed != 1 {
		t.Errorf("switching off: %v, closed %d times; want the reader's error", err, f.closed)
	}
	if got := text(t, e); got != "" {
		t.Errorf("switched off, but emits\n%s", got)
	}
	if s := e.Status()[0]; s.State != Off || s.Series != 0 || s.Remedy == "" {
		t.Errorf("status %+v", s)
	}
	if err := turn(true); err != nil || f.opened != 2 {
		t.Errorf("switching on: %v, opened %d times", err, f.opened)
	}
	if got := text(t, e); !strings.Contains(got, "tee_a_level 1") {
		t.Errorf("switched on, but emits\n%s", got)
	}
	on := true
	if err := e.Set("y", Setting{On: &on}); !errors.Is(err, ErrNoSource) {
		t.Errorf("unknown source: %v", err)
	}
	if err := e.Close(); err == nil {
		t.Error("close hides the reader's error")
	}
	f.closeErr = nil
	if err := e.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
}

// TestRun sees one round at once, and more with the ticks.
func TestRun(t *testing.T) {
	for interval, want := range map[time.Duration]int{time.Hour: 1, time.Millisecond: 3} {
		e := Open(clock(), nil, []*Source{(&fake{}).source("x")}, nil)
		ctx, cancel := context.WithCancel(t.Context())
		rounds := 0
		err := e.Run(ctx, interval, func(time.Time, []metric.Sample) {
			if rounds++; rounds == want {
				cancel()
			}
		})
		if !errors.Is(err, context.Canceled) || rounds < want {
			t.Errorf("every %v: %d rounds and %v, want %d and canceled", interval, rounds, err, want)
		}
		cancel()
	}
}

// TestConcurrent is for the race detector: the page changes settings while the
// engine collects.
func TestConcurrent(t *testing.T) {
	f := &fake{samples: []metric.Sample{{Desc: calls, Labels: []string{"a"}, Value: 1}}}
	e := Open(clock(), nil, []*Source{f.source("x")}, nil)
	done := make(chan error)
	go func() {
		var err error
		for i := range 100 {
			on, filter := i%2 == 0, "a|b"
			err = errors.Join(err, e.Set("x", Setting{On: &on, Process: &filter}))
			e.Status()
		}
		done <- err
	}()
	for range 100 {
		e.Collect(t.Context())
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestBlockedFile: a file that never answers is named, the other sources go on,
// and nothing piles up; when it answers, the source is back.
func TestBlockedFile(t *testing.T) {
	root := t.TempDir()
	fifo := filepath.Join(root, "proc", "slow")
	if err := errors.Join(os.Mkdir(filepath.Dir(fifo), 0o755), unix.Mkfifo(fifo, 0o600)); err != nil {
		t.Fatal(err)
	}
	h := host.At(root)
	slow := &Source{Name: "slow", Doc: "Reads a file.", Metrics: []*metric.Desc{level}, Open: func(h *host.Host, _ []tee.Facts) (Reader, error) {
		return readFunc(func(emit func(metric.Sample)) error {
			v, err := h.ReadUint("/proc/slow")
			if err == nil {
				emit(metric.Sample{Desc: level, Value: float64(v)})
			}
			return err
		}), nil
	}}
	ok := &fake{samples: []metric.Sample{{Desc: calls, Labels: []string{"a"}, Value: 1}}}
	e := Open(h, nil, []*Source{slow, ok.source("ok")}, nil)
	for range 3 {
		_, samples := e.Collect(t.Context())
		s := e.Status()
		if s[0].State != Degraded || !strings.Contains(s[0].Reason, "/proc/slow") || s[0].Remedy == "" {
			t.Fatalf("status %+v", s[0])
		}
		if s[1].State != Available || len(samples) == 0 {
			t.Errorf("the other source is %s", s[1].State)
		}
	}
	w, err := os.OpenFile(fifo, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.WriteString("7\n"); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(fifo); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(fifo, []byte("8\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	await.Event(t, "the source is back after the file answered", func() error {
		e.Collect(t.Context())
		if s := e.Status()[0]; s.State != Available {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

// readFunc is a Reader that holds nothing open.
type readFunc func(emit func(metric.Sample)) error

func (f readFunc) Read(_ context.Context, emit func(metric.Sample)) error { return f(emit) }
func (f readFunc) Close() error                                           { return nil }

// picky takes no filter by control group.
type picky struct {
	fake
	scope Scope
}

func (p *picky) Adjust(_ string, s Scope) error {
	if s.Cgroup != nil {
		return errors.New("nothing matches")
	}
	p.scope = s
	return nil
}

// TestRefusedSetting: a setting that the reader refuses leaves everything as it was.
func TestRefusedSetting(t *testing.T) {
	p := &picky{}
	pid := &metric.Desc{Name: "tee_pid_calls_total", Help: "Calls.", Labels: []string{"pid"}}
	e := Open(clock(), nil, []*Source{{Name: "x", Doc: "A source.", Metrics: []*metric.Desc{pid},
		Open: func(*host.Host, []tee.Facts) (Reader, error) { return p, nil }}}, nil)
	if err := e.Set("x", Setting{PIDs: &[]int{7, 7}}); err != nil || len(p.scope.PIDs) != 1 {
		t.Fatalf("%v, narrowed to %v", err, p.scope.PIDs)
	}
	group := "web"
	if err := e.Set("x", Setting{Cgroup: &group}); err == nil || !strings.Contains(err.Error(), "nothing matches") {
		t.Errorf("set: %v", err)
	}
	if s := e.Status()[0]; s.Scope.Cgroup != nil || len(s.Scope.PIDs) != 1 || s.State != Available || !s.Narrows {
		t.Errorf("status %+v", s)
	}
	if p.scope.Cgroup != nil || len(p.scope.PIDs) != 1 {
		t.Errorf("the reader has %+v", p.scope)
	}
}
