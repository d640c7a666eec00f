package monitor

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/explain"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/observe"
	"github.com/teescope/teescope/internal/probe/sources"
	"github.com/teescope/teescope/internal/top"
)

// closedAlone is a monitor in this process that reads nothing by itself and is closed at the end of the test.
func closedAlone(t *testing.T) *Alone {
	t.Helper()
	s := observedAlone()
	s.Sources, s.Probes = "^process_times$", t.TempDir()
	a, err := newAlone(t.Context(), s, Settings{Data: t.TempDir(), Interval: UsualInterval, Judging: judging})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// steady is a monitor in this process on a virtual clock, to which a test gives the readings: the process steady uses half a
// core, and two of its threads wait; teescope itself uses a quarter of a core.
type steady struct {
	*Alone
	t     *testing.T
	now   time.Time
	begun time.Time // the counters' zero
}

func newSteady(t *testing.T) *steady {
	a := &steady{Alone: closedAlone(t), t: t, now: time.Now()}
	a.Host.Now = func() time.Time { return a.now }
	a.Platform.Started = a.now
	a.pass(700 * time.Millisecond)
	a.begun = a.now
	t.Cleanup(func() {
		if err := errors.Join(a.Observer.Close(), a.keeper.Close()); err != nil {
			t.Error(err)
		}
	})
	return a
}

func (a *steady) pass(d time.Duration) { a.now = a.now.Add(d) }

// reading stores one.
func (a *steady) reading() {
	a.t.Helper()
	var out []metric.Sample
	s := a.now.Sub(a.begun).Seconds()
	put := func(name string, v float64, label string) {
		a.t.Helper()
		for _, source := range sources.All {
			for _, d := range source.Metrics {
				if d.Name == name {
					out = append(out, metric.Sample{Desc: d, Value: v, Labels: []string{label}})
					return
				}
			}
		}
		a.t.Fatalf("nothing emits %s", name)
	}
	put("tee_process_stat_cpu_seconds_total", s/2, "steady")
	put("tee_process_stat_wait_seconds_total", 2*s, "steady")
	put("teescope_overhead_cpu_seconds_total", s/4, "dispatch")
	a.store(a.now, out)
}

// open tells that all sources have been read twice.
func (a *steady) open() {
	from, _ := a.span()
	a.analyse(a.every(eagerRules, EagerInterval), from)
	close(a.opened)
}

// exact checks the rates that top shows now.
func (a *steady) exact(when string) {
	a.t.Helper()
	backend := a.Backend("top", false)
	shown, err := top.NewModel(a.t.Context(), backend, time.Second, nil)
	if err != nil {
		a.t.Fatal(err)
	}
	_, row, _ := strings.Cut(shown.Table(), "\nsteady ")
	values := strings.Fields(row)
	if len(values) != 2 || !strings.Contains(shown.Table(), "CPU%   WAIT\n") {
		a.t.Errorf("%s: the table is\n%s", when, shown.Table())
		return
	}
	near := func(what string, got, want float64) {
		a.t.Helper()
		if math.Abs(got-want) > want/100+0.005 { // client.SpanMargin of the first 250 ms, and what is printed is rounded
			a.t.Errorf("%s: %s is %v, want %v", when, what, got, want)
		}
	}
	for i, want := range []float64{50, 2} {
		v, err := strconv.ParseFloat(strings.TrimPrefix(values[i], "~"), 64)
		if err != nil {
			a.t.Fatal(err)
		}
		near([]string{"CPU%", "WAIT"}[i], v, want)
	}
	own, err := backend.Overhead(a.t.Context())
	if err != nil {
		a.t.Fatal(err)
	}
	near("its own cost", own.CPU["dispatch"], 0.25)
}

// TestAloneRates: rates are right from the second reading on, whenever they are looked at.
func TestAloneRates(t *testing.T) {
	a := newSteady(t)
	a.reading()
	a.pass(firstReadings)
	a.reading()
	a.exact("at the second reading")
	a.pass(900 * time.Millisecond)
	a.exact("before the third")
	a.pass(100 * time.Millisecond)
	a.reading()
	a.exact("at the third")
	a.allRead()
	for n := range 30 {
		a.pass(EagerInterval)
		a.reading()
		if n == 0 {
			a.open()
		}
		a.pass(700 * time.Millisecond)
		a.exact("of all sources")
		a.pass(100 * time.Millisecond)
	}
	for range 4 {
		a.pass(UsualInterval)
		a.reading()
		a.exact("of the longest interval")
	}
}

// TestAloneClockSetBack: what was read before the clock was set back is forgotten, and does not count as the future.
func TestAloneClockSetBack(t *testing.T) {
	a := newSteady(t)
	a.reading()
	a.allRead()
	a.pass(EagerInterval)
	a.reading()
	a.open()
	a.pass(-time.Hour)
	a.begun = a.now
	a.reading()
	for range 6 {
		a.pass(EagerInterval)
		a.reading()
	}
	a.exact("after the clock was set back")
	if from, until := a.span(); until.Sub(from) != 6*EagerInterval {
		t.Errorf("it was watched from %v until %v", from, until)
	}
	var no *explain.Refusal
	_, err := a.explained(t.Context(), explain.Question{Process: "steady", From: a.now.Add(-time.Minute), To: a.now}, "", false)
	if errors.As(err, &no) && !no.NotFound {
		t.Errorf("an explanation is refused: %v", err)
	}
}

// TestAloneExplains: what is not read is the reason only for a process that there is.
func TestAloneExplains(t *testing.T) {
	a := newSteady(t)
	a.reading()
	a.allRead()
	a.pass(EagerInterval)
	a.reading()
	a.open()
	a.pass(leastExplained)
	a.reading()
	const lack = "Not root."
	for process, want := range map[string][2]string{
		"steady":            {"no source that works here shows where the process's time goes. Not root", "no source that works here shows where the process's time goes"},
		"teescope-nonesuch": {`teescope saw no process "teescope-nonesuch"`, `teescope saw no process "teescope-nonesuch"`},
	} {
		t.Run(process, func(t *testing.T) {
			for i, told := range []bool{false, true} {
				var no *explain.Refusal
				_, err := a.explained(t.Context(), explain.Question{Process: process, From: a.now.Add(-time.Minute), To: a.now}, lack, told)
				if !errors.As(err, &no) || no.Reason != want[i] {
					t.Errorf("%s, told: %v: %v, want %q", process, told, err, want[i])
				}
			}
		})
	}
}

// TestAloneYouth: the first words are about this process, and no monitor.
func TestAloneYouth(t *testing.T) {
	a := newSteady(t)
	a.reading()
	f, err := a.Backend("top", false).Findings(t.Context())
	if want := "teescope has watched for 1 s; the first answers take a few seconds."; err != nil || f.Summary.Headline != want || f.Summary.Youth != want {
		t.Errorf("%v, %+v, want %q", err, f.Summary, want)
	}
}

// TestAloneEndsWhenDropFails: whoever waits gets the reason, and so does who asks later.
func TestAloneEndsWhenDropFails(t *testing.T) {
	a := closedAlone(t)
	fault := errors.New("capabilities stay")
	a.drop = func() error { return fault }
	a.costs.Store(&observe.UnitCosts{}) // else it waits for them first
	a.start(t.Context(), true)
	if err := a.await(t.Context(), a.opened); !errors.Is(err, fault) {
		t.Errorf("who waits gets %v", err)
	}
	if _, err := top.NewModel(t.Context(), a.Backend("top", false), time.Second, nil); !errors.Is(err, fault) {
		t.Errorf("who asks gets %v", err)
	}
	if err := a.Close(); err != nil {
		t.Errorf("the reason is told again: %v", err)
	}
}
