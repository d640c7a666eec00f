package analysis_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/analysis"
)

// at is a moment in a test's time.
func at(d time.Duration) time.Time { return time.Unix(0, 0).Add(d) }

// TestRestart: what was open before goes on under its id when it still holds, and
// else closes when it was last seen.
func TestRestart(t *testing.T) {
	const load = "load 15s\n  temperature{machine=\"a\"} 100x200\n  temperature{machine=\"b\"} 20x200\n"
	before := func(rule, subject string, seen time.Duration) analysis.Record {
		return analysis.Record{ID: "before-" + subject, State: analysis.Open, Since: at(time.Minute), LastSeen: at(seen),
			Finding: analysis.Finding{Rule: rule, Subject: subject, Severity: analysis.Warning, Title: "Hot."}}
	}
	for _, tt := range []struct {
		name string
		past []analysis.Record
		load string
		want []string // when what changed
		open []string
	}{
		{"still holds", []analysis.Record{before("heat", "a", 8*time.Minute)}, load, nil, []string{"before-a since 1m0s"}},
		{"holds no more", []analysis.Record{before("heat", "b", 8*time.Minute)}, load,
			[]string{"10m0s open a", "11m0s closed b until 8m0s"}, []string{"new since 10m0s"}},
		{"its rule is gone", []analysis.Record{before("rain", "b", 8*time.Minute)}, load,
			[]string{"10m0s closed b until 8m0s", "10m0s open a"}, []string{"new since 10m0s"}},
		{"nobody watched for long", []analysis.Record{before("heat", "a", -51*time.Minute)}, load,
			[]string{"10m0s closed a until -51m0s", "10m0s open a"}, []string{"new since 10m0s"}},
		{"nothing can be told for a while", []analysis.Record{before("heat", "a", 8*time.Minute)},
			"load 15s\n  temperature{machine=\"a\"} _x40 100x200\n", nil, []string{"before-a since 1m0s"}},
		{"nothing can be told at all", []analysis.Record{before("heat", "a", 8*time.Minute)},
			"load 15s\n  other 1x200\n", []string{"11m0s closed a until 8m0s"}, nil},
		{"several, and closed ones", []analysis.Record{
			{ID: "old", State: analysis.Closed, Until: ptr(at(2 * time.Minute)), Finding: analysis.Finding{Rule: "heat", Subject: "a"}},
			{ID: "no end", State: analysis.Closed},
			before("heat", "a", 9*time.Minute), before("heat", "b", 9*time.Minute)}, load,
			[]string{"11m0s closed b until 9m0s"}, []string{"before-a since 1m0s"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := &clock{at: 10 * time.Minute}
			var got []string
			e := start(t, c, tt.load, []*analysis.Rule{heat}, func(o *analysis.Options) {
				o.Started, o.Past = c.now(), tt.past
				o.Observe = func(r analysis.Record) {
					s := fmt.Sprintf("%s %s %s", c.at, r.State, r.Subject)
					if r.Until != nil {
						s += fmt.Sprintf(" until %s", r.Until.Sub(at(0)))
					}
					got = append(got, s)
				}
			})
			for ; c.at <= 12*time.Minute; c.at += 15 * time.Second {
				e.Evaluate(t.Context())
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("changes %q, want %q", got, tt.want)
			}
			var open []string
			for _, r := range e.Records() {
				if r.State == analysis.Open {
					id := r.ID
					if !strings.HasPrefix(id, "before") {
						id = "new"
					}
					open = append(open, fmt.Sprintf("%s since %s", id, r.Since.Sub(at(0))))
				}
			}
			if !slices.Equal(open, tt.open) {
				t.Errorf("open %q, want %q", open, tt.open)
			}
		})
	}
}

func ptr[T any](v T) *T { return &v }

// TestEvaluated: after each evaluation what changed and what is open is told, with
// the silence that covers it, which may begin and end while it is open.
func TestEvaluated(t *testing.T) {
	c := &clock{at: time.Minute}
	s, err := analysis.NewSilences(nil, []*analysis.Rule{heat}, c.now, func([]analysis.Silence) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	var changed, open []analysis.Record
	calls := 0
	e := start(t, c, "load 15s\n  temperature{machine=\"a\"} 100x10 20x100\n", []*analysis.Rule{heat}, func(o *analysis.Options) {
		o.Silences = s
		o.Evaluated = func(ch, op []analysis.Record) { changed, open = ch, op; calls++ }
	})
	e.Evaluate(t.Context())
	if len(changed) != 1 || len(open) != 1 || open[0].Silenced != "" || open[0].ID != changed[0].ID {
		t.Fatalf("opened: %+v, %+v", changed, open)
	}
	x, err := s.Add(analysis.Silence{Subject: "a", Until: at(2 * time.Minute)})
	if err != nil {
		t.Fatal(err)
	}
	if r := e.Records(); r[0].Silenced != x.ID {
		t.Errorf("shown as silenced by %q", r[0].Silenced)
	}
	c.at = 90 * time.Second
	e.Evaluate(t.Context())
	if len(changed) != 0 || len(open) != 1 || open[0].Silenced != x.ID {
		t.Errorf("silenced: %+v, %+v", changed, open)
	}
	c.at = 2 * time.Minute
	e.Evaluate(t.Context())
	if len(open) != 1 || open[0].Silenced != "" {
		t.Errorf("after the silence: %+v", open)
	}
	for ; c.at < 8*time.Minute; c.at += 15 * time.Second {
		if e.Evaluate(t.Context()); len(changed) > 0 {
			break
		}
	}
	if len(changed) != 1 || changed[0].State != analysis.Closed || len(open) != 0 {
		t.Errorf("closed: %+v, %+v", changed, open)
	}
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	before := calls
	e.Evaluate(stopped)
	if calls != before+1 || len(changed) != 0 {
		t.Errorf("an evaluation cut short: %d calls more, changed %+v", calls-before, changed)
	}
}

// TestNoNumber: evidence that is not a number has no place in a finding.
func TestNoNumber(t *testing.T) {
	r := &analysis.Rule{Name: "r", Needs: []string{"m"}, Run: func(_ context.Context, p *analysis.Pass) error {
		p.Report(analysis.Finding{Subject: "s", Evidence: []analysis.Evidence{{Text: "a", Value: math.NaN()}, {Text: "b", Value: 1}, {Text: "c", Value: math.Inf(1)}}})
		return nil
	}}
	c := &clock{at: 2 * time.Minute}
	e := start(t, c, "load 15s\n  m 1x60\n", []*analysis.Rule{r}, nil)
	e.Evaluate(t.Context())
	if rec := e.Records(); len(rec) != 1 || len(rec[0].Evidence) != 1 || rec[0].Evidence[0].Text != "b" {
		t.Errorf("%+v", rec)
	}
}

func TestFilter(t *testing.T) {
	rec := func(id string, state analysis.State, since, until int, severity analysis.Severity) analysis.Record {
		r := analysis.Record{ID: id, State: state, Since: at(time.Duration(since) * time.Minute), LastSeen: at(time.Duration(until) * time.Minute),
			Finding: analysis.Finding{Rule: "heat", Subject: "machine-" + id, Severity: severity}}
		if state == analysis.Closed {
			r.Until = ptr(r.LastSeen)
		}
		return r
	}
	list := []analysis.Record{
		rec("a", analysis.Closed, 1, 3, analysis.Critical), rec("b", analysis.Open, 2, 9, analysis.Info),
		rec("c", analysis.Closed, 4, 6, analysis.Info), rec("d", analysis.Open, 5, 9, analysis.Critical), rec("e", analysis.Open, 8, 9, analysis.Info),
	}
	list[2].Rule = "cold"
	whole, err := analysis.Whole("machine-[ab]")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name   string
		filter analysis.Filter
		want   string
	}{
		{"all", analysis.Filter{}, "debca"},
		{"limit", analysis.Filter{Limit: 2}, "de"},
		{"state", analysis.Filter{State: analysis.Closed}, "ca"},
		{"rule", analysis.Filter{Rule: "cold"}, "c"},
		{"subject", analysis.Filter{Subject: whole}, "ba"},
		{"from", analysis.Filter{From: at(4 * time.Minute)}, "debc"},
		{"to", analysis.Filter{To: at(3 * time.Minute)}, "ba"},
		{"within", analysis.Filter{From: at(7 * time.Minute), To: at(7 * time.Minute)}, "db"},
	} {
		var got string
		for _, r := range tt.filter.Select(list) {
			got += r.ID
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}
