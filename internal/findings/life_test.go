// clock: the tests of this file run in bubbles of testing/synctest.
package findings_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/query"
)

const (
	lifeOfDB = query.StartTime + `{job="teescope",instance="vm1",process="db"}`
	interval = 5 * time.Second
)

// world is a machine with one process, as its readings have it: each change is seen from the next reading on.
type world struct {
	mu sync.Mutex
	// born and ended bound the process's life, and read is the newest reading.
	born, ended, read time.Time
	// blind: the source of lives does not work.
	blind bool
}

func (w *world) lives() bool {
	return !w.read.Before(w.born) && (w.ended.IsZero() || w.read.Before(w.ended))
}

// Query answers what the engine asks about lives.
func (w *world) Query(_ context.Context, expr string, _ time.Time) ([]metric.Point, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.blind:
	case strings.Contains(expr, "changes("): // it has no predecessor
	case strings.Contains(expr, lifeOfDB) && w.lives():
		return []metric.Point{{Value: float64(w.born.Unix())}}, nil
	case strings.Contains(expr, query.StartTime+`{instance="vm1",job="teescope"}`): // the machine has other processes
		return []metric.Point{{Value: 1}}, nil
	case strings.Contains(expr, `teescope_source_up{instance="vm1",job="teescope",source="switches"}`):
		return []metric.Point{{Value: 1}}, nil
	}
	return nil, nil
}

// busy holds for the process while it was busy in the whole window, or, as a mean over the window would, for as long
// after its end.
func (w *world) busy() *findings.Rule {
	return &findings.Rule{Name: "busy", Run: func(_ context.Context, p *findings.Pass) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		window := p.To.Sub(p.From)
		if w.read.Sub(w.born) >= window && (w.ended.IsZero() || w.read.Sub(w.ended) < window) {
			p.Report(findings.Finding{Machine: query.Machine{Job: "teescope", Instance: "vm1"}, Subject: "db", Life: lifeOfDB,
				Title: "db spends 80 % of its time on 3 locks.", Severity: findings.Warning})
		}
		return nil
	}}
}

// watched is what happened to the finding, and when its mark was first seen.
type watched struct {
	opened, marked, closed time.Time
	reopened               bool
	last                   findings.Record
}

// watch runs an engine over the world for a while.
func watch(t *testing.T, w *world, length time.Duration, set func(*findings.Options)) (out watched) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), length)
	defer stop()
	o := findings.DefaultOptions()
	o.Now, o.Started, o.Interval = time.Now, time.Now(), interval
	o.Slowed = func() int { return 4 } // the governor at its slowest
	o.Source = func(string) string { return "switches" }
	o.Observe = func(r findings.Record) {
		switch {
		case r.State == findings.Closed:
			out.closed, out.last = time.Now(), r
		case out.opened.IsZero():
			out.opened = time.Now()
		default:
			out.reopened = true
		}
	}
	if set != nil {
		set(&o)
	}
	e := findings.New([]*findings.Rule{w.busy()}, w, o)
	var all sync.WaitGroup
	all.Go(func() {
		if err := e.Run(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
	for ctx.Err() == nil {
		w.mu.Lock()
		w.read = time.Now()
		w.mu.Unlock()
		e.Read()
		synctest.Wait()
		for _, r := range e.Records() {
			if r.Ended != nil && out.marked.IsZero() {
				out.marked, out.last = time.Now(), r
			}
		}
		time.Sleep(interval)
	}
	all.Wait()
	return out
}

// TestDelays: with the governor at its slowest, a finding opens at most 15 s after its rule's window is met, is marked at the
// reading after its subject's end, closes at most 10 s after it, and does not open again while the window still has the cause.
func TestDelays(t *testing.T) {
	for phase := range 15 {
		synctest.Test(t, func(t *testing.T) {
			w := &world{born: time.Now().Add(20*time.Second + time.Duration(phase)*time.Second + 300*time.Millisecond)}
			met := w.born.Add(time.Minute)
			w.ended = met.Add(40*time.Second + time.Duration(3*phase)*time.Second)
			got := watch(t, w, 6*time.Minute, nil)
			// Times count from the readings that show them.
			if late := got.opened.Sub(met); got.opened.IsZero() || late < 0 || late > 15*time.Second+interval {
				t.Errorf("phase %d: opened %v after the window was met", phase, late)
			}
			if late := got.marked.Sub(w.ended); got.marked.IsZero() || late > interval {
				t.Errorf("phase %d: marked %v after the end, want the next reading", phase, late)
			}
			if late := got.closed.Sub(w.ended); got.closed.IsZero() || late > 10*time.Second {
				t.Errorf("phase %d: closed %v after the end", phase, late)
			}
			if got.reopened {
				t.Errorf("phase %d: opened again after its subject had ended", phase)
			}
			if got.last.Until == nil || got.last.Until.Sub(w.ended) > interval || got.last.Sentence != "db spent 80 % of its time on 3 locks, until it ended." {
				t.Errorf("phase %d: closed as %+v", phase, got.last)
			}
		})
	}
}

// TestEndIsKnown: no end is claimed where the source of lives does not work, nor of a finding of an earlier run whose subject has
// done nothing since.
func TestEndIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{born: time.Now(), blind: true}
		if got := watch(t, w, 3*time.Minute, nil); got.opened.IsZero() || !got.marked.IsZero() || !got.closed.IsZero() {
			t.Errorf("blind: %+v, want a finding that stays open", got)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		w := &world{born: time.Now().Add(time.Hour)}
		got := watch(t, w, 50*time.Second, func(o *findings.Options) {
			o.Past = []findings.Record{{ID: "before", State: findings.Open, Since: time.Now().Add(-time.Minute), LastSeen: time.Now().Add(-20 * time.Second),
				Finding: findings.Finding{Rule: "busy", Machine: query.Machine{Job: "teescope", Instance: "vm1"}, Subject: "db", Life: lifeOfDB}}}
		})
		if !got.marked.IsZero() {
			t.Errorf("a finding of an earlier run is marked as ended: %+v", got.last)
		}
	})
}

// TestComesBack: a subject that one reading lacks, and the next has again, keeps its finding, without the mark.
func TestComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{born: time.Now()}
		gap := time.Now().Add(2*time.Minute + time.Second)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go func() {
			for at, ended := range map[time.Duration]time.Time{time.Until(gap): gap, time.Until(gap.Add(interval)): {}} {
				time.AfterFunc(at, func() {
					w.mu.Lock()
					defer w.mu.Unlock()
					w.ended = ended
				})
			}
			<-ctx.Done()
		}()
		got := watch(t, w, 4*time.Minute, nil)
		stop()
		if got.marked.IsZero() || !got.closed.IsZero() || got.reopened {
			t.Errorf("%+v, want a mark and no end", got)
		}
	})
}

// TestSentences: no sentence is in the present tense about a value older than two readings.
func TestSentences(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(1000+s), 0) }
	ended, until := at(28), at(30)
	for _, c := range []struct {
		title string
		now   int
		set   func(*findings.Record)
		want  string
	}{
		{"is on spends 60 % of its time.", 10, nil, "is on spends 60 % of its time."},
		{"is on spends 60 % of its time.", 11, nil, "is on spent 60 % of its time, until 11 s ago."},
		{"is on spends 60 % of its time.", 40, func(r *findings.Record) { r.Ended = &ended }, "is on spent 60 % of its time; ended 12 s ago."},
		{"At least one task of is on waits 2 s: it calls 3.", 100, nil, "At least one task of is on waited 2 s: it called 3, until 1 min 40 s ago."},
		{"heat: 3.", 100, func(r *findings.Record) { r.State, r.Until = findings.Closed, &until }, "heat: 3."},
	} {
		t.Run(c.title, func(t *testing.T) {
			r := findings.Record{Finding: findings.Finding{Subject: "is on", Title: c.title}, State: findings.Open, LastSeen: at(0)}
			if c.set != nil {
				c.set(&r)
			}
			if got := r.WithSentence(at(c.now), 10*time.Second); got.Sentence != c.want || got.Age != float64(c.now) {
				t.Errorf("%s after %d s: %q, age %g, want %q", c.title, c.now, got.Sentence, got.Age, c.want)
			}
		})
	}
}

// TestOwnYouth: in the two minutes after the start no finding about the monitor itself opens, unless it is critical.
func TestOwnYouth(t *testing.T) {
	for severity, want := range map[findings.Severity]time.Duration{findings.Warning: 2 * time.Minute, findings.Critical: 15 * time.Second} {
		at := time.Unix(0, 0)
		var opened time.Duration
		o := findings.DefaultOptions()
		o.Now, o.Started = func() time.Time { return at }, at
		o.Observe = func(findings.Record) { opened = at.Sub(time.Unix(0, 0)) }
		own := &findings.Rule{Name: "own", Role: findings.RoleMonitor, Run: func(_ context.Context, p *findings.Pass) error {
			p.Report(findings.Finding{Subject: "teescope", Title: "teescope is over 1.", Severity: severity})
			return nil
		}}
		e := findings.New([]*findings.Rule{own}, &world{}, o)
		for at = at.Add(15 * time.Second); opened == 0 && at.Before(time.Unix(600, 0)); at = at.Add(15 * time.Second) {
			e.Evaluate(t.Context())
		}
		if opened != want {
			t.Errorf("%s: opened after %v, want %v", severity, opened, want)
		}
		if all := e.Records(); len(all) != 1 || all[0].Role != findings.RoleMonitor {
			t.Errorf("%s: %+v", severity, all)
		}
	}
}

// TestOwnProcessYouth: in the same time no rule about processes opens a finding about teescope's, however bad it is; later it is a process like others.
func TestOwnProcessYouth(t *testing.T) {
	at := time.Unix(0, 0)
	opened := map[string]time.Duration{}
	o := findings.DefaultOptions()
	o.Now, o.Started = func() time.Time { return at }, at
	o.Observe = func(r findings.Record) { opened[r.Subject] = at.Sub(time.Unix(0, 0)) }
	starved := &findings.Rule{Name: "starved", Run: func(_ context.Context, p *findings.Pass) error {
		for _, name := range []string{"teescope", "redis"} {
			p.Report(findings.Finding{Subject: name, Title: name + " waits.", Severity: findings.Critical})
		}
		return nil
	}}
	e := findings.New([]*findings.Rule{starved}, &world{}, o)
	for at = at.Add(15 * time.Second); len(opened) < 2 && at.Before(time.Unix(600, 0)); at = at.Add(15 * time.Second) {
		e.Evaluate(t.Context())
	}
	if opened["redis"] != 15*time.Second || opened["teescope"] != 2*time.Minute {
		t.Errorf("opened after %v", opened)
	}
	for _, r := range e.Records() {
		if !r.IsProblem() {
			t.Errorf("%s is no problem", r.Subject)
		}
	}
}

// TestEndedComeLast: a finding whose subject has ended is below all others that are open, whatever its severity.
func TestEndedComeLast(t *testing.T) {
	ended := time.Unix(5, 0)
	list := []findings.Record{
		{ID: "dead", State: findings.Open, Ended: &ended, Finding: findings.Finding{Severity: findings.Critical}},
		{ID: "closed", State: findings.Closed, Until: &ended},
		{ID: "note", State: findings.Open, Finding: findings.Finding{Severity: findings.Info}},
	}
	findings.Sort(list)
	if got := list[0].ID + " " + list[1].ID + " " + list[2].ID; got != "note dead closed" {
		t.Error(got)
	}
}
