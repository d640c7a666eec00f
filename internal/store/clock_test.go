package store_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/store"
)

// timed is a store whose rounds are made at any time, and which is closed and opened on the way.
type timed struct {
	*store.Store
	t    *testing.T
	opts store.Options
	n    int // of the next round
	lost int // rounds
}

func newTimed(t *testing.T, change func(*store.Options)) *timed {
	o := damageOptions(t.TempDir())
	if change != nil {
		change(&o)
	}
	s := &timed{t: t, opts: o}
	t.Cleanup(func() { must(t, s.Close()) })
	s.reopen()
	return s
}

func (s *timed) reopen() {
	s.t.Helper()
	if s.Store != nil {
		must(s.t, s.Close())
	}
	var err error
	s.Store, err = store.Open(s.t.Context(), s.opts)
	must(s.t, err)
}

// rounds appends at every interval from a time on; a value is the number of its round. It returns the first one.
func (s *timed) rounds(from time.Time, n int) (first int) {
	s.t.Helper()
	first = s.n
	for i := range n {
		if err := s.Append(from.Add(time.Duration(i)*s.opts.Interval), []metric.Sample{call("a", "read", float64(s.n)), {Desc: load, Value: float64(s.n)}}); err != nil {
			s.lost++
			s.t.Logf("round %d: %v", s.n, err)
		}
		s.n++
	}
	return first
}

// check compares the rounds that are answered at every interval from a time on with n, beginning with first.
func (s *timed) check(what string, from time.Time, first, n int) {
	s.t.Helper()
	for i := range n {
		at := from.Add(time.Duration(i) * s.opts.Interval)
		if p := query(s.t, s.Store, `last_over_time(node_load1[1s])`, at); len(p) != 1 || p[0].Value != float64(first+i) {
			s.t.Fatalf("%s: at %s there is %v, want %d", what, at.UTC(), p, first+i)
		}
	}
}

// none checks that nothing is answered of n intervals.
func (s *timed) none(what string, from time.Time, n int) {
	s.t.Helper()
	span := time.Duration(n) * s.opts.Interval
	if p := query(s.t, s.Store, fmt.Sprintf("last_over_time(node_load1[%ds])", int(span.Seconds())), from.Add(span)); len(p) != 0 {
		s.t.Errorf("%s: %v is answered, want nothing", what, p)
	}
}

// TestClockWasAhead: the clock is ahead and then set right. Every round is stored, what was good is answered, and what
// was from the future is set aside and said.
func TestClockWasAhead(t *testing.T) {
	for _, ahead := range []time.Duration{10 * time.Minute, 48 * time.Hour, 400 * 24 * time.Hour} {
		for _, before := range []int{0, 10, 400} {
			for _, during := range []int{3, 700} { // 700 rounds are enough for blocks
				for _, restart := range []bool{false, true} {
					if during*30 > 10*60 && ahead < time.Hour {
						continue // some of it is in the past when the clock is set right
					}
					t.Run(fmt.Sprintf("%s, %d before, %d during, restart %v", ahead, before, during, restart), func(t *testing.T) {
						s := newTimed(t, func(o *store.Options) { o.Retention = 24 * time.Hour })
						first := s.rounds(base, before)
						now := base.Add(time.Duration(before) * s.opts.Interval)
						if restart && before > 0 {
							s.reopen()
						}
						s.rounds(now.Add(ahead), during)
						if restart {
							s.reopen()
						}
						right := s.rounds(now.Add(time.Second), 20)
						if s.lost > 0 {
							t.Errorf("%d rounds are lost", s.lost)
						}
						for range 2 {
							s.check("before", base, first, before)
							s.check("after", now.Add(time.Second), right, 20)
							s.none("the future", now.Add(ahead-time.Second), during)
							losses := s.Losses()
							if len(losses) != 1 || losses[0].Kind != "samples from the future" || losses[0].Lost == "nothing" || losses[0].From.Before(now.Add(ahead)) ||
								losses[0].To.After(now.Add(ahead+time.Duration(during)*s.opts.Interval)) {
								t.Errorf("the losses are %+v", losses)
							}
							if m := collect(s.Store); m["teescope_store_damaged_parts"] != 1 || m["teescope_store_damaged"] != 1 {
								t.Errorf("the metrics do not say it: %v", m)
							}
							s.reopen()
						}
						note, err := os.ReadFile(filepath.Join(s.opts.Dir, "quarantine", s.Losses()[0].Part+".txt"))
						must(t, err)
						if !strings.Contains(string(note), "reason: the clock went back from ") {
							t.Errorf("the note is\n%s", note)
						}
						// Time passes the end of what was set aside: it stays there.
						s.rounds(now.Add(ahead+time.Duration(during+10)*s.opts.Interval), 1)
						if before == 0 && during == 3 && s.lost > 0 {
							t.Errorf("%d rounds are lost", s.lost)
						}
					})
				}
			}
		}
	}
}

// TestClockWasBehind: a machine boots in 1970 until its time is synchronised. Nothing is lost of before, of the time
// until then, and of after.
func TestClockWasBehind(t *testing.T) {
	for _, boot := range []time.Time{time.Unix(30, 0), base.Add(time.Hour)} {
		for _, before := range []int{30, 700} {
			for _, restart := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, %d before, restart %v", boot.UTC(), before, restart), func(t *testing.T) {
					s := newTimed(t, nil)
					begin := base.Add(2 * time.Hour)
					first := s.rounds(begin, before)
					if restart {
						s.reopen()
					}
					wrong := s.rounds(boot, 5)
					s.none("before, while the clock is behind", begin, before)
					s.check("while it is behind", boot, wrong, 5)
					if restart {
						s.reopen()
					}
					now := begin.Add(time.Duration(before+10) * s.opts.Interval)
					right := s.rounds(now, 20)
					if s.lost > 0 {
						t.Errorf("%d rounds are lost", s.lost)
					}
					for range 2 {
						s.check("before", begin, first, before)
						s.check("while it was behind", boot, wrong, 5)
						s.check("after", now, right, 20)
						if l := s.Losses(); len(l) != 0 {
							t.Errorf("the losses are %v", l)
						}
						s.reopen()
					}
				})
			}
		}
	}
}

// TestClockAndReboot: after a boot samples that were set aside come back if the clock was behind for certain, because it
// showed a time before the program was built; else they stay where they are.
func TestClockAndReboot(t *testing.T) {
	built := base.Add(-24 * time.Hour)
	for name, c := range map[string]struct {
		built, aside, wrong, right time.Time
		back                       bool
	}{
		"behind":                  {built, base, time.Unix(30, 0), base.Add(time.Hour), true},
		"behind, still":           {built, base, time.Unix(30, 0), base.Add(-time.Hour), false},
		"behind, or it was ahead": {time.Time{}, base, time.Unix(30, 0), base.Add(time.Hour), false},
		"was ahead":               {built, base.Add(48 * time.Hour), base, base.Add(72 * time.Hour), false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTimed(t, func(o *store.Options) { o.Built = c.built; o.Reboot("first") })
			aside := s.rounds(c.aside, 30)
			s.opts.Reboot("second")
			s.reopen()
			wrong := s.rounds(c.wrong, 5)
			s.none("set aside, before the reboot", c.aside, 30)
			s.opts.Reboot("third")
			s.reopen()
			right := s.rounds(c.right, 5)
			if s.lost > 0 {
				t.Errorf("%d rounds are lost", s.lost)
			}
			for range 2 {
				if c.back {
					s.check("set aside", c.aside, aside, 30)
				} else {
					s.none("set aside", c.aside, 30)
				}
				s.check("after it", c.wrong, wrong, 5)
				s.check("after the reboot", c.right, right, 5)
				if l := s.Losses(); (len(l) == 0) != c.back {
					t.Errorf("the losses are %+v", l)
				}
				s.reopen()
			}
		})
	}
}

// TestClockSteps: steps while rounds are made lose none of them; small ones at most one round, and leave the database alone.
func TestClockSteps(t *testing.T) {
	s := newTimed(t, nil)
	now := base
	for i, step := range []time.Duration{0, -40 * time.Second, -3 * time.Minute, 5 * time.Hour, -5 * time.Hour, -time.Minute, 25 * time.Hour, -25 * time.Hour, -100 * time.Second} {
		s.lost = 0
		now = now.Add(step)
		s.rounds(now, 10)
		wait := 0
		if step == -40*time.Second { // the next round is later than the last one
			wait = 1
			if len(s.Losses()) != 0 {
				t.Errorf("a step of %s set aside %v", step, s.Losses())
			}
		}
		if s.lost != wait {
			t.Errorf("step %d, %s: %d rounds are lost, want %d", i, step, s.lost, wait)
		}
		s.check(fmt.Sprintf("step %d, %s", i, step), now.Add(s.opts.Interval), s.n-9, 9)
		now = now.Add(10 * s.opts.Interval)
	}
}

// TestClockFlaps: a clock that goes back again and again does not fill the disk.
func TestClockFlaps(t *testing.T) {
	s := newTimed(t, nil)
	for i := range 20 {
		s.rounds(base.Add(time.Duration(i)*s.opts.Interval), 5)
	}
	if n := len(s.Losses()); n != 16 || s.lost > 0 {
		t.Errorf("%d parts are kept, want 16; %d rounds are lost", n, s.lost)
	}
}

// TestRetentionOfWrongClocks: a clock that is ahead deletes nothing; what a clock that was behind has left goes as
// anything else, once as much was recorded since.
func TestRetentionOfWrongClocks(t *testing.T) {
	s := newTimed(t, func(o *store.Options) { o.Retention = 16 * time.Hour })
	wrong := s.rounds(time.Unix(30, 0), 400)
	first := s.rounds(base, 700)
	s.rounds(base.Add(400*24*time.Hour), 700)
	now := base.Add(700 * s.opts.Interval)
	s.rounds(now, 10)
	s.check("of the past", base, first, 700)
	s.check("of 1970", time.Unix(30, 0), wrong, 400)
	s.rounds(now.Add(10*s.opts.Interval), 1500)
	eventually(t, "the blocks of 1970 are deleted", func() bool {
		s.rounds(now.Add(time.Duration(1510+s.n)*s.opts.Interval), 1)
		return len(query(t, s.Store, `last_over_time(node_load1[5h])`, time.Unix(5*3600, 0))) == 0
	})
	if s.lost > 0 {
		t.Errorf("%d rounds are lost", s.lost)
	}
}

// TestReferencesEnd: scrapes keep references; after a new log the same number is another series.
func TestReferencesEnd(t *testing.T) {
	s := newTimed(t, func(o *store.Options) { o.Now = func() time.Time { return base } })
	put := func(ref storage.SeriesRef, name string, at time.Time, v float64) storage.SeriesRef {
		t.Helper()
		app := s.Appendable().Appender(context.Background())
		ref, err := app.Append(ref, labels.FromStrings("__name__", name), at.UnixMilli(), v)
		must(t, errors.Join(err, app.Commit()))
		return ref
	}
	first := put(0, "first", base.Add(5*time.Minute), 1)
	if again := put(first, "first", base.Add(6*time.Minute), 1); again != first {
		t.Errorf("the reference %d became %d", first, again)
	}
	s.rounds(base.Add(5*time.Minute), 3)
	s.rounds(base, 1)
	for i := range 3 {
		put(0, fmt.Sprintf("other%d", i), base.Add(time.Second), 2)
	}
	put(first, "first", base.Add(2*time.Second), 3)
	for name, want := range map[string]float64{"first": 3, "other0": 2, "other1": 2, "other2": 2} {
		t.Run(name, func(t *testing.T) {
			if got := one(t, s.Store, name, base.Add(3*time.Second)); got != want {
				t.Errorf("%s is %v, want %v", name, got, want)
			}
		})
	}
}

// TestFromTheFuture: one sample of a scrape from the future is refused and counted; it would have the store refuse all
// others.
func TestFromTheFuture(t *testing.T) {
	s := newTimed(t, func(o *store.Options) { o.Now = func() time.Time { return base } })
	app := s.Appendable().Appender(context.Background())
	_, err := app.Append(0, labels.FromStrings("__name__", "early"), base.Add(11*time.Minute).UnixMilli(), 1)
	_, good := app.Append(0, labels.FromStrings("__name__", "good"), base.UnixMilli(), 1)
	if !errors.Is(err, storage.ErrOutOfBounds) || errors.Join(good, app.Commit()) != nil {
		t.Errorf("the early one: %v, the good one: %v", err, good)
	}
	if m := refusedBy(s.Store); m["older or later than the store takes"] != 1 || collect(s.Store)["teescope_store_lost_samples_total"] != 1 {
		t.Errorf("refused: %v", m)
	}
	one(t, s.Store, "good", base)
}

// refusedBy returns the counts of refused samples that are not 0, by reason.
func refusedBy(s *store.Store) map[string]float64 {
	out := map[string]float64{}
	s.Collect(func(m metric.Sample) {
		if m.Desc.Name == "teescope_store_refused_samples_total" && m.Value > 0 {
			out[m.Labels[0]] = m.Value
		}
	})
	return out
}
