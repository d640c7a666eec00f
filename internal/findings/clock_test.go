package findings_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/findings"
)

var wrongBy = []time.Duration{10 * time.Minute, 48 * time.Hour, 400 * 24 * time.Hour}

// TestClockIsSet: a finding opened by a clock that was ahead goes on when the clock is set right, from now on, and
// closes as any other; no time is left in the future.
func TestClockIsSet(t *testing.T) {
	for _, by := range wrongBy {
		t.Run(by.String(), func(t *testing.T) {
			c := &clock{at: time.Minute}
			load := "load 15s\n  " + `temperature{machine="a"} 100x40 20x40`
			var closed []findings.Record
			e := start(t, c, load, []*findings.Rule{heat}, func(o *findings.Options) {
				o.Started = at(by)
				open := findings.Record{ID: "ahead", State: findings.Open, Since: at(by), LastSeen: at(by + time.Minute),
					Finding: findings.Finding{Rule: "heat", Subject: "a", Severity: findings.Warning, Title: "Hot."}}
				until := at(by + time.Minute)
				done := findings.Record{ID: "done", State: findings.Closed, Since: at(by), LastSeen: until, Until: &until, Finding: findings.Finding{Rule: "heat", Subject: "b"}}
				o.Past = []findings.Record{open, done}
				o.Observe = func(r findings.Record) {
					if r.State == findings.Closed {
						closed = append(closed, r)
					}
				}
			})
			for ; c.at <= 14*time.Minute; c.at += 15 * time.Second {
				e.Evaluate(t.Context())
				for _, r := range e.Records() {
					if r.Since.After(c.now()) || r.LastSeen.After(c.now()) || r.Until != nil && r.Until.After(c.now()) {
						t.Fatalf("at %s: %s is from the future: since %s, seen %s, until %v", c.at, r.ID, r.Since, r.LastSeen, r.Until)
					}
				}
			}
			if len(closed) != 1 || closed[0].ID != "ahead" || !closed[0].Since.Equal(at(time.Minute)) || closed[0].Until.After(at(12*time.Minute)) {
				t.Errorf("closed: %+v", closed)
			}
		})
	}
}

// TestClockJumps: a jump of more than an hour is a gap in observation: the finding ends when it was last seen, and
// begins anew. So none is open since 1970.
func TestClockJumps(t *testing.T) {
	c := &clock{at: time.Minute}
	e := start(t, c, "load 15s\n  "+`temperature{machine="a"} 100x4000`, []*findings.Rule{heat}, nil)
	for ; c.at <= 10*time.Minute; c.at += 15 * time.Second {
		e.Evaluate(t.Context())
	}
	c.at = 8 * time.Hour
	e.Evaluate(t.Context())
	var got []string
	for _, r := range e.Records() {
		s := fmt.Sprintf("%s since %s", r.State, r.Since.Sub(at(0)))
		if r.Until != nil {
			s += fmt.Sprintf(" until %s", r.Until.Sub(at(0)))
		}
		got = append(got, s)
	}
	if want := "[open since 8h0m0s closed since 1m0s until 10m0s]"; fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
}

// TestSilenceOfAnAheadClock: a silence lasts as long as it was meant to, while the monitor runs and after a restart.
func TestSilenceOfAnAheadClock(t *testing.T) {
	for _, by := range wrongBy {
		for _, restart := range []bool{false, true} {
			right := time.Unix(1000, 0)
			s := newSilences(t)
			s.now = right.Add(by)
			x, err := s.Add(findings.Silence{Until: s.now.Add(time.Hour)})
			if err != nil {
				t.Fatal(err)
			}
			s.now = right
			if restart {
				s = newSilences(t, s.kept...)
			}
			f := findings.Finding{Rule: "heat", Subject: "a"}
			if got := s.Covering(f); got != x.ID {
				t.Errorf("%s, restart %v: it is covered by %q", by, restart, got)
			}
			if l := s.List(); len(l) != 1 || !l[0].Until.Equal(right.Add(time.Hour)) {
				t.Errorf("%s, restart %v: %+v", by, restart, l)
			}
			s.now = right.Add(time.Hour)
			if got := s.Covering(f); got != "" {
				t.Errorf("%s, restart %v: after its end it is covered by %q", by, restart, got)
			}
		}
	}
}
