package findings_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/query"
)

// at is a moment in a test's time.
func at(d time.Duration) time.Time { return time.Unix(0, 0).Add(d) }

// TestRestart: a finding open before the restart keeps its id if it still holds; otherwise it closes when it was last
// seen.
func TestRestart(t *testing.T) {
	const load = "load 15s\n  temperature{machine=\"a\"} 100x200\n  temperature{machine=\"b\"} 20x200\n"
	before := func(rule, subject string, seen time.Duration) findings.Record {
		return findings.Record{ID: "before-" + subject, State: findings.Open, Since: at(time.Minute), LastSeen: at(seen),
			Finding: findings.Finding{Rule: rule, Subject: subject, Severity: findings.Warning, Title: "Hot."}}
	}
	for _, tt := range []struct {
		name string
		past []findings.Record
		load string
		want []string // when what changed
		open []string
	}{
		{"still holds", []findings.Record{before("heat", "a", 8*time.Minute)}, load, nil, []string{"before-a since 1m0s"}},
		{"holds no more", []findings.Record{before("heat", "b", 8*time.Minute)}, load,
			[]string{"10m0s open a", "11m0s closed b until 8m0s"}, []string{"new since 10m0s"}},
		{"its rule is gone", []findings.Record{before("rain", "b", 8*time.Minute)}, load,
			[]string{"10m0s closed b until 8m0s", "10m0s open a"}, []string{"new since 10m0s"}},
		{"nobody watched for long", []findings.Record{before("heat", "a", -51*time.Minute)}, load,
			[]string{"10m0s closed a until -51m0s", "10m0s open a"}, []string{"new since 10m0s"}},
		{"nothing can be told for a while", []findings.Record{before("heat", "a", 8*time.Minute)},
			"load 15s\n  temperature{machine=\"a\"} _x40 100x200\n", nil, []string{"before-a since 1m0s"}},
		{"nothing can be told at all", []findings.Record{before("heat", "a", 8*time.Minute)},
			"load 15s\n  other 1x200\n", []string{"11m0s closed a until 8m0s"}, nil},
		{"several, and closed ones", []findings.Record{
			{ID: "old", State: findings.Closed, Until: ptr(at(2 * time.Minute)), Finding: findings.Finding{Rule: "heat", Subject: "a"}},
			{ID: "no end", State: findings.Closed},
			before("heat", "a", 9*time.Minute), before("heat", "b", 9*time.Minute)}, load,
			[]string{"11m0s closed b until 9m0s"}, []string{"before-a since 1m0s"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := &clock{at: 10 * time.Minute}
			var got []string
			e := start(t, c, tt.load, []*findings.Rule{heat}, func(o *findings.Options) {
				o.Started, o.Past = c.now(), tt.past
				o.Observe = func(r findings.Record) {
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
				if r.State == findings.Open {
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

// TestEvaluated: after each evaluation the changed and the open findings are passed on, each with the silence that
// covers it. A silence may begin and end while a finding is open.
func TestEvaluated(t *testing.T) {
	c := &clock{at: time.Minute}
	s, err := findings.NewSilences(nil, []*findings.Rule{heat}, c.now, func([]findings.Silence) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	var changed, open []findings.Record
	calls := 0
	e := start(t, c, "load 15s\n  temperature{machine=\"a\"} 100x10 20x100\n", []*findings.Rule{heat}, func(o *findings.Options) {
		o.Silences = s
		o.Evaluated = func(ch, op []findings.Record) { changed, open = ch, op; calls++ }
	})
	e.Evaluate(t.Context())
	if len(changed) != 1 || len(open) != 1 || open[0].Silenced != "" || open[0].ID != changed[0].ID {
		t.Fatalf("opened: %+v, %+v", changed, open)
	}
	x, err := s.Add(findings.Silence{Subject: "a", Until: at(2 * time.Minute)})
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
	if len(changed) != 1 || changed[0].State != findings.Closed || len(open) != 0 {
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

// TestNoNumber: evidence that is not a number is dropped from a finding.
func TestNoNumber(t *testing.T) {
	r := &findings.Rule{Name: "r", Needs: []string{"m"}, Run: func(_ context.Context, p *findings.Pass) error {
		p.Report(findings.Finding{Subject: "s", Evidence: []query.Evidence{{Text: "a", Value: math.NaN()}, {Text: "b", Value: 1}, {Text: "c", Value: math.Inf(1)}}})
		return nil
	}}
	c := &clock{at: 2 * time.Minute}
	e := start(t, c, "load 15s\n  m 1x60\n", []*findings.Rule{r}, nil)
	e.Evaluate(t.Context())
	if rec := e.Records(); len(rec) != 1 || len(rec[0].Evidence) != 1 || rec[0].Evidence[0].Text != "b" {
		t.Errorf("%+v", rec)
	}
}

func TestFilter(t *testing.T) {
	rec := func(id string, state findings.State, since, until int, severity findings.Severity) findings.Record {
		r := findings.Record{ID: id, State: state, Since: at(time.Duration(since) * time.Minute), LastSeen: at(time.Duration(until) * time.Minute),
			Finding: findings.Finding{Rule: "heat", Subject: "machine-" + id, Severity: severity}}
		if state == findings.Closed {
			r.Until = ptr(r.LastSeen)
		}
		return r
	}
	list := []findings.Record{
		rec("a", findings.Closed, 1, 3, findings.Critical), rec("b", findings.Open, 2, 9, findings.Info),
		rec("c", findings.Closed, 4, 6, findings.Info), rec("d", findings.Open, 5, 9, findings.Critical), rec("e", findings.Open, 8, 9, findings.Info),
	}
	list[2].Rule = "cold"
	whole, err := findings.Whole("machine-[ab]")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name   string
		filter findings.Filter
		want   string
	}{
		{"all", findings.Filter{}, "debca"},
		{"limit", findings.Filter{Limit: 2}, "de"},
		{"state", findings.Filter{State: findings.Closed}, "ca"},
		{"rule", findings.Filter{Rule: "cold"}, "c"},
		{"subject", findings.Filter{Subject: whole}, "ba"},
		{"from", findings.Filter{From: at(4 * time.Minute)}, "debc"},
		{"to", findings.Filter{To: at(3 * time.Minute)}, "ba"},
		{"within", findings.Filter{From: at(7 * time.Minute), To: at(7 * time.Minute)}, "db"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got string
			for _, r := range tt.filter.Select(list) {
				got += r.ID
			}
			if got != tt.want {
				t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
			}
		})
	}
}
