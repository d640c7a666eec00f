// clock: the tests of this file run in bubbles of testing/synctest.
package probe

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe/budget"
	"github.com/teescope/teescope/internal/tee"
)

// fullChecks is how often in a period a source that counts everything is asked what it has spent.
const fullChecks = 8

// load is a Governed reader on a machine with a few cores, whose events come at
// a rate that a test sets and which it sees while it is attached only.
type load struct {
	process  string
	mu       sync.Mutex
	rate     func(time.Time) []float64 // events a second on each core
	cost     []float64                 // seconds an event, by level
	level    int
	levels   []int // as adjusted
	attached bool
	at       time.Time
	counted  []float64
	spent    []float64
	real     float64
	toggles  int
	extra    float64 // CPU seconds that every window costs more than its events
	steady   bool
	hard     bool // its cores are never idle, so counting slows it
	// slow is how long attaching and detaching take; they take effect at the end of the call, or at its beginning.
	slow  time.Duration
	early bool
	asked []time.Time // when it was asked what it has spent
	// late is how much later than asked for window n, from 1, is closed.
	late func(n int) time.Duration
	// tells: it can say when it has spent what it may, most; told is how often it did.
	tells   bool
	most    []float64
	reached func()
	told    int
}

func newLoad(cost float64, rates ...float64) *load {
	l := &load{process: "a", cost: []float64{cost}, attached: true, counted: make([]float64, len(rates)), spent: make([]float64, len(rates))}
	l.rate = func(time.Time) []float64 { return rates }
	return l
}

// set changes the rate from now on.
func (l *load) set(rate func(time.Time) []float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.advance()
	l.rate = rate
}

// sofar is how many events there were, and how often it was attached or detached.
func (l *load) sofar() (events float64, toggles int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.real, l.toggles
}

// advance makes the events until now. The clock stands still while code runs, so
// nothing happens in between.
func (l *load) advance() {
	now := time.Now()
	const step = time.Millisecond
	for l.at.Before(now) {
		d := min(step, now.Sub(l.at))
		for cpu, r := range l.rate(l.at) {
			if l.hard && l.attached {
				r /= 1 + r*l.cost[l.level]
			}
			n := r * d.Seconds()
			l.real += n
			if l.attached {
				l.counted[cpu] += n
				l.spent[cpu] += n * l.cost[l.level]
			}
		}
		l.at = l.at.Add(d)
	}
}

func (l *load) isAttached() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.attached
}

func (l *load) turn(on bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.advance()
	l.attached = on
	l.toggles++
	return nil
}

func (l *load) Attach() error { return l.slowly(true) }

// slowly is turn in a call that takes a while.
func (l *load) slowly(on bool) error {
	if l.early {
		defer time.Sleep(l.slow)
	} else {
		time.Sleep(l.slow)
	}
	return l.turn(on)
}

func (l *load) Detach() error {
	if l.late != nil {
		_, toggles := l.sofar()
		time.Sleep(l.late(toggles/2 + 1))
	}
	if err := l.slowly(false); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for cpu := range l.spent {
		l.spent[cpu] += l.extra
	}
	return nil
}

func (l *load) Close() error { return nil }

func (l *load) Spent() (float64, []float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.advance()
	l.asked = append(l.asked, l.at)
	var n float64
	for _, c := range l.counted {
		n += c
	}
	return n, slices.Clone(l.spent)
}

func (l *load) Limit(most []float64, reached func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.most, l.reached = most, reached
	return l.tells
}

// tell says that it has spent what it may, if it has: once for each limit.
func (l *load) tell() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.advance()
	for cpu, most := range l.most {
		if l.tells && l.spent[cpu] >= most {
			l.most = nil
			l.told++
			l.reached()
			return
		}
	}
}

func (l *load) Adjust(level string, _ Scope) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.advance()
	l.level = slices.Index([]string{"count", "latency"}, level)
	l.levels = append(l.levels, l.level)
	return nil
}

func (l *load) Read(_ context.Context, emit func(metric.Sample)) error {
	n, _ := l.Spent()
	emit(metric.Sample{Desc: calls, Labels: []string{l.process}, Value: n})
	return nil
}

func (l *load) source(name string) *Source {
	return &Source{Name: name, Doc: "A load.", Metrics: []*metric.Desc{calls}, Levels: []Level{{"count", "Counts."}, {"latency", "Times."}},
		Open: func(*host.Host, []tee.Facts) (Reader, error) {
			if l.steady {
				return steadyLoad{l}, nil
			}
			return l, nil
		}}
}

func value(t *testing.T, samples []metric.Sample, d *metric.Desc, label string) float64 {
	t.Helper()
	for _, s := range samples {
		if s.Desc == d && (len(s.Labels) == 0 || slices.Contains(s.Labels, label)) {
			return s.Value
		}
	}
	return math.NaN()
}

// govern runs the engine in a bubble of fake time, with the given share of each
// of two cores. Its windows begin at the same moments in every run.
func govern(t *testing.T, share float64, loads []*load, do func(e *Engine)) {
	synctest.Test(t, func(t *testing.T) {
		var sources []*Source
		for i, l := range loads {
			l.at, l.process = time.Now(), []string{"a", "b", "c"}[i]
			sources = append(sources, l.source([]string{"x", "y", "z"}[i]))
		}
		e := openSeeded(t, sources)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			e.Govern(ctx, budgetOf(share, loads))
			close(done)
		}()
		var tellers sync.WaitGroup
		if slices.ContainsFunc(loads, func(l *load) bool { return l.tells }) {
			tellers.Go(func() {
				time.Sleep(aside / 2)
				for ; ctx.Err() == nil; time.Sleep(time.Millisecond) {
					for _, l := range loads {
						l.tell()
					}
				}
			})
		}
		time.Sleep(aside)
		do(e)
		cancel()
		<-done
		tellers.Wait()
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
}

// openSeeded opens sources under a governor whose windows begin at the same moments in every run.
func openSeeded(t *testing.T, sources []*Source) *Engine {
	t.Helper()
	e := New(&host.Host{Now: time.Now}, nil, sources, nil)
	e.governor = budget.New(time.Now, rand.NewPCG(1, 2))
	if err := e.Start(func(*Source) bool { return true }); err != nil {
		t.Fatal(err)
	}
	return e
}

// budgetOf is a budget of two cores on which only the loads run.
func budgetOf(share float64, loads []*load) budget.Budget {
	idle := func() []float64 { // of cores that only a load that never waits uses
		s := time.Since(time.Unix(0, 0)).Seconds()
		if loads[0].hard {
			s = 0
		}
		return []float64{s, s}
	}
	return budget.Budget{Share: share, Userspace: func() float64 { return 0 }, CPUs: 2, Idle: idle}
}

// steadyLoad is a load that the budget sets aside.
type steadyLoad struct{ *load }

// Steady implements Steady.
func (steadyLoad) Steady() {}
