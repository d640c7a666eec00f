package findings_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/query"
	"github.com/teescope/teescope/internal/store/storetest"
)

// heat is a predictable rule: it holds for a machine whose mean temperature over the window was above 90.
var heat = &findings.Rule{
	Name: "heat", Title: "Heat", Doc: "Above 90.", Needs: []string{"temperature"},
	Remedy: "Open the window.", Reference: "thermometer(1)",
	Run: func(ctx context.Context, p *findings.Pass) error {
		expr := fmt.Sprintf("avg_over_time(temperature[%s])", query.PromDuration(p.To.Sub(p.From)))
		points, err := p.Query(ctx, expr+" > 90", p.To)
		for _, pt := range points {
			p.Report(findings.Finding{
				Subject: pt.Labels["machine"], Severity: findings.Warning, Title: fmt.Sprintf("%.0f degrees.", pt.Value),
				Evidence: []query.Evidence{
					{Text: "now", Expr: "temperature"},
					{Text: "mean", Value: pt.Value, Expr: expr},
				},
			})
		}
		return err
	},
}

// clock is a time set by the test, as an offset from the first loaded value.
type clock struct{ at time.Duration }

func (c *clock) now() time.Time { return time.Unix(0, 0).Add(c.at) }

// start returns an engine over loaded series, with a monitor that started at 0.
func start(t *testing.T, c *clock, load string, rules []*findings.Rule, set func(*findings.Options)) *findings.Engine {
	t.Helper()
	o := findings.DefaultOptions()
	o.Now, o.Started = c.now, time.Unix(0, 0)
	if set != nil {
		set(&o)
	}
	return findings.New(rules, storetest.Load(t, load), o)
}

// events evaluates every 15 s and returns what happened when.
func events(t *testing.T, c *clock, until time.Duration, load string, set func(*findings.Options)) []string {
	t.Helper()
	var out []string
	e := start(t, c, load, []*findings.Rule{heat}, func(o *findings.Options) {
		o.Observe = func(r findings.Record) { out = append(out, fmt.Sprintf("%s %s %s", c.at, r.State, r.Subject)) }
		if set != nil {
			set(o)
		}
	})
	for ; c.at <= until; c.at += 15 * time.Second {
		e.Evaluate(t.Context())
	}
	return out
}

func TestOpensAndCloses(t *testing.T) {
	for _, tt := range []struct {
		name, load string
		from       time.Duration
		set        func(*findings.Options)
		want       []string
	}{
		{
			name: "young: the short window alone",
			load: `temperature{machine="a"} 20x3 100x7 20x40`, // hot from 1m to 2m45s
			from: 15 * time.Second,
			want: []string{"1m45s open a", "3m45s closed a"}, // the last four hot readings are seen at 2m45s
		},
		{
			name: "old: both windows",
			load: `temperature{machine="a"} 20x39 100x40`, // hot from 10m
			from: 6 * time.Minute,
			want: []string{"14m15s open a"}, // 18 of the 20 readings are hot, which gives 92; 17 give 88
		},
		{
			name: "windows of its own",
			load: `temperature{machine="a"} 20x39 100x40`,
			from: 6 * time.Minute,
			set: func(o *findings.Options) {
				o.PerRule = map[string]findings.Windows{"heat": {Long: 2 * time.Minute, Short: 30 * time.Second}}
			},
			want: []string{"11m45s open a"}, // all 8 readings: 7 give 90, which is not above
		},
		{
			name: "a short dip does not close, and two subjects are two findings",
			load: "temperature{machine=\"a\"} 100x20 20x2 100x20\n temperature{machine=\"b\"} 20x10 100x32",
			from: time.Minute,
			set:  func(o *findings.Options) { o.CloseAfter = 2 * time.Minute },
			want: []string{"1m0s open a", "3m30s open b"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := &clock{at: tt.from}
			got := events(t, c, 16*time.Minute, "load 15s\n  "+tt.load+"\n", tt.set)
			if len(got) > len(tt.want) && c.at > 10*time.Minute { // events after the end of the data do not matter here
				got = got[:len(tt.want)]
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestRecords(t *testing.T) {
	c := &clock{at: time.Minute}
	e := start(t, c, "load 15s\n  temperature{machine=\"a\"} 100x7 95x20 20x20 100x20\n  temperature{machine=\"b\"} 20x12 100x100\n", []*findings.Rule{heat}, nil)
	step := func(to time.Duration) {
		for ; c.at <= to; c.at += 15 * time.Second {
			e.Evaluate(t.Context())
		}
	}

	step(time.Minute)
	first := e.Records()
	if len(first) != 1 || first[0].State != findings.Open || first[0].Since != time.Unix(60, 0) || first[0].LastSeen != first[0].Since {
		t.Fatalf("after a minute: %+v", first)
	}
	if r := first[0]; r.Rule != "heat" || r.Remedy != heat.Remedy || r.Reference != heat.Reference {
		t.Errorf("what the rule says of itself is missing: %+v", r)
	}

	step(6 * time.Minute)
	now := e.Records()
	if len(now) != 2 || now[0].Subject != "b" || now[1].Subject != "a" {
		t.Fatalf("want b, the newer one, before a: %+v", now)
	}
	a := now[1]
	if a.ID != first[0].ID || a.Since != first[0].Since || a.LastSeen != time.Unix(360, 0) || a.Title != "95 degrees." {
		t.Errorf("not updated: %+v", a)
	}
	// The evidence of the short window comes first, then the evidence that only the long one has.
	var texts []string
	for _, ev := range a.Evidence {
		texts = append(texts, ev.Expr)
	}
	if want := []string{"temperature", "avg_over_time(temperature[1m])", "avg_over_time(temperature[5m])"}; !slices.Equal(texts, want) {
		t.Errorf("evidence %q, want %q", texts, want)
	}

	step(9 * time.Minute)
	now = e.Records()
	if len(now) != 2 || now[1].State != findings.Closed || now[1].Until == nil || now[1].Until.Sub(now[1].LastSeen) != time.Minute {
		t.Fatalf("a is not closed a minute after it was last seen: %+v", now)
	}

	// A restarted monitor is young and knows nothing: a cause that still holds is found again at once, as a new
	// finding.
	again := start(t, c, "load 15s\n  temperature{machine=\"b\"} 20x12 100x100\n", []*findings.Rule{heat}, func(o *findings.Options) { o.Started = c.now() })
	again.Evaluate(t.Context())
	if r := again.Records(); len(r) != 1 || r[0].Subject != "b" || r[0].ID == now[0].ID {
		t.Errorf("after a restart: %+v", r)
	}
}

func TestHistoryIsBounded(t *testing.T) {
	c := &clock{at: time.Minute}
	e := start(t, c, "load 15s\n  temperature{machine=\"a\"} 100x7 20x12 100x7 20x12 100x7 20x12\n", []*findings.Rule{heat}, func(o *findings.Options) {
		o.History = 2
		o.PerRule = map[string]findings.Windows{"heat": {Long: time.Minute, Short: time.Minute}}
	})
	for ; c.at <= 15*time.Minute; c.at += 15 * time.Second {
		e.Evaluate(t.Context())
	}
	r := e.Records()
	if len(r) != 2 || !r[0].Until.After(*r[1].Until) || r[0].ID == r[1].ID {
		t.Errorf("want the last two, the newer first: %+v", r)
	}
	if e.Complete(time.Time{}) || !e.Complete(*r[1].Until) {
		t.Error("the engine does not know from when on it knows all")
	}
}

func TestCannotTell(t *testing.T) {
	broken := &findings.Rule{Name: "broken", Needs: []string{"temperature"}, Run: func(ctx context.Context, p *findings.Pass) error {
		p.Report(findings.Finding{Subject: "half", Title: "Seen before the error."})
		return errors.New("the other half is missing")
	}}
	panics := &findings.Rule{Name: "panics", Needs: []string{"temperature"}, Run: func(ctx context.Context, p *findings.Pass) error {
		var none *findings.Finding
		p.Report(*none)
		return nil
	}}
	for _, tt := range []struct {
		name, load string
		rule       *findings.Rule
		want       string
	}{
		{"panic", `temperature{machine="a"} 100x50`, panics, "rule panics crashed: runtime error: invalid memory address"},
		{"no series", `other 1x50`, heat, "the metric temperature has no reading in the last 1m: the sensor is off"},
		{"series ended", `temperature{machine="a"} 100x20`, heat, "the metric temperature has no reading in the last 1m: the sensor is off"},
		{"one reading", `temperature{machine="a"} _x39 100`, heat, "the metric temperature has only one reading in the last 1m"},
		{"error", `temperature{machine="a"} 100x50`, broken, "the other half is missing"},
		{"bad need", `temperature 1x50`, &findings.Rule{Name: "bad", Needs: []string{"no name"}}, "query topk(1, count_over_time(no name[1m])): "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := &clock{at: 10 * time.Minute}
			e := start(t, c, "load 15s\n  "+tt.load+"\n", []*findings.Rule{tt.rule}, func(o *findings.Options) {
				o.Absent = func(string) string { return "the sensor is off" }
			})
			if s := e.Rules()[0]; s.Answer != findings.CannotTell || s.Reason == "" {
				t.Errorf("before the first evaluation: %+v", s)
			}
			e.Evaluate(t.Context())
			s := e.Rules()[0]
			if s.Answer != findings.CannotTell || !strings.HasPrefix(s.Reason, tt.want) || s.At != c.now() {
				t.Errorf("got %+v, want reason %q", s, tt.want)
			}
			if r := e.Records(); len(r) != 0 {
				t.Errorf("findings of a rule that cannot tell: %+v", r)
			}
		})
	}
}

// TestOverlap: an evaluation during another one changes nothing.
func TestOverlap(t *testing.T) {
	c := &clock{at: 10 * time.Minute}
	entered, leave := make(chan struct{}), make(chan struct{})
	runs := 0
	slow := &findings.Rule{Name: "slow", Needs: []string{"m"}, Run: func(context.Context, *findings.Pass) error {
		runs++
		close(entered)
		<-leave
		return nil
	}}
	e := start(t, c, "load 15s\n  m 1x60\n", []*findings.Rule{slow}, nil)
	done := make(chan struct{})
	go func() { e.Evaluate(t.Context()); close(done) }()
	<-entered
	e.Evaluate(t.Context())
	if a := e.Rules()[0].Answer; a != findings.CannotTell {
		t.Errorf("answer during the first evaluation is %q", a)
	}
	close(leave)
	<-done
	if a := e.Rules()[0].Answer; runs != 1 || a != findings.Silent {
		t.Errorf("%d runs and answer %q, want one run and silent", runs, a)
	}
}

// TestRun evaluates by itself until the context ends.
func TestRun(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	runs := 0
	r := &findings.Rule{Name: "r", Needs: []string{"m"}, Run: func(context.Context, *findings.Pass) error {
		if runs++; runs == 3 {
			stop()
		}
		return nil
	}}
	c := &clock{at: 2 * time.Minute}
	e := start(t, c, "load 15s\n  m 1x60\n", []*findings.Rule{r}, func(o *findings.Options) { o.Every = time.Millisecond })
	if err := e.Run(ctx); !errors.Is(err, context.Canceled) || runs != 3 {
		t.Errorf("Run returned %v after %d runs", err, runs)
	}
}

// TestRunBesideReadings: no evaluation begins at the same time as a reading. Readings are made at each interval from
// the start on.
func TestRunBesideReadings(t *testing.T) {
	for _, interval := range []time.Duration{time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			began := time.Now()
			runs := 0
			o := findings.DefaultOptions()
			o.Now, o.Started, o.Interval = time.Now, began, interval
			o.Evaluated = func(_, _ []findings.Record) {
				if phase := time.Since(began) % interval; phase < interval/5 || phase > interval*9/10 {
					t.Errorf("readings every %s: an evaluation %s after one", interval, phase)
				}
				if runs++; runs == 8 {
					stop()
				}
			}
			if err := findings.New(nil, nil, o).Run(ctx); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
	}
}

// TestLeastObserved: a young monitor is judged over the time that it has watched, once that is long enough to hold four
// readings and what the options ask for; before that, over the short window.
func TestLeastObserved(t *testing.T) {
	for _, tt := range []struct {
		interval, least, age, want time.Duration
	}{
		{time.Second, 0, 19 * time.Second, time.Minute},
		{time.Second, 0, 20 * time.Second, 20 * time.Second},
		{time.Second, 5 * time.Second, 4 * time.Second, time.Minute},
		{time.Second, 5 * time.Second, 6 * time.Second, 6 * time.Second},
		{2 * time.Second, 5 * time.Second, 7 * time.Second, time.Minute},
		{2 * time.Second, 5 * time.Second, 8 * time.Second, 8 * time.Second},
		{time.Second, 5 * time.Second, 2 * time.Minute, time.Minute},
	} {
		var window time.Duration
		r := above("young")
		r.Run = func(_ context.Context, p *findings.Pass) error { window = p.To.Sub(p.From); return nil }
		c := &clock{at: 10 * time.Minute}
		e := start(t, c, "load 1s\n  temperature 100x900\n", []*findings.Rule{r}, func(o *findings.Options) {
			o.Started, o.Interval, o.LeastObserved = c.now().Add(-tt.age), tt.interval, tt.least
		})
		e.Evaluate(t.Context())
		if window != tt.want {
			t.Errorf("%+v: judged over %v", tt, window)
		}
	}
}

// TestTook: an evaluation says how long it took; a clock that was set back meanwhile makes it no time at all.
func TestTook(t *testing.T) {
	c := &clock{at: time.Minute}
	step := 3 * time.Second
	slow := above("slow")
	slow.Run = func(context.Context, *findings.Pass) error { c.at += step; return nil }
	e := start(t, c, "load 15s\n  temperature 100x100\n", []*findings.Rule{slow}, nil)
	if d, ok := e.EvaluationTime(); ok {
		t.Errorf("before the first evaluation: %v", d)
	}
	for _, tt := range []struct{ step, want time.Duration }{{3 * time.Second, 3 * time.Second}, {-3 * time.Second, 0}} {
		step = tt.step
		e.Evaluate(t.Context())
		if d, ok := e.EvaluationTime(); !ok || d != tt.want {
			t.Errorf("took %v, %v; want %v", d, ok, tt.want)
		}
	}
}
