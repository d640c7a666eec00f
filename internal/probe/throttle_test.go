// clock: the tests of this file run in bubbles of testing/synctest.
package probe

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe/budget"
	"github.com/teescope/teescope/internal/probe/estimate"
	"github.com/teescope/teescope/internal/tee"
)

// TestDebtsAreRepaid: every fifth window is closed 70 ms late, as on a machine whose CPUs are taken away. What it cost
// too much is saved in the periods that follow, so the budget is kept on average over them.
func TestDebtsAreRepaid(t *testing.T) {
	const share, cost, rate, late = 0.01, 88e-9, 5e6, 70 * time.Millisecond
	l := newLoad(cost, rate, rate)
	l.late = func(n int) time.Duration {
		if n%5 == 0 {
			return late
		}
		return 0
	}
	govern(t, share, []*load{l}, func(*Engine) {
		time.Sleep(10 * time.Second) // it is used to the load
		_, spent := l.Spent()
		_, before := l.sofar()
		was, first := spent[0], spent[0]
		debt, since, overruns := 0.0, 0, 0
		const seconds = 120
		for i := range seconds {
			time.Sleep(time.Second)
			_, spent := l.Spent()
			used := spent[0] - was
			if was = spent[0]; used > share {
				overruns++
			}
			if debt = max(0, debt+used-share); debt == 0 {
				since = 0
			} else if since++; since > int(late.Seconds()*rate*cost/share)+2 {
				t.Errorf("second %d: %.4f of a core and second still owed after %d periods", i, debt, since)
			}
		}
		if mean := (was - first) / seconds; mean > share || mean < share/2 {
			t.Errorf("%.4f of a core on average", mean)
		}
		if _, after := l.sofar(); overruns < seconds/12 || after-before < seconds/2 {
			t.Errorf("%d periods over the budget and %d changes in %d periods: the case is not what it should be", overruns, after-before, seconds)
		}
	})
}

// TestSlowedLoad: a load that keeps its cores busy is slowed by being counted, and the
// estimate is of what it does otherwise, whatever part of an event's time counting is. The
// stated error is a third of the difference where counting takes more than half of a core, more than twice the difference where it
// takes an eighth, since such a load may do other things while it is slowed, and sampling.
func TestSlowedLoad(t *testing.T) {
	for rate, part := range map[float64]float64{1e6: 2.3, 8e6: 1. / 3} {
		l := newLoad(140e-9, 0, 0)
		l.hard = true
		govern(t, 0.01, []*load{l}, func(e *Engine) {
			l.set(func(time.Time) []float64 { return []float64{rate, rate} })
			var samples []metric.Sample
			round := func() (estimate, events float64) {
				_, samples = e.Collect(t.Context())
				events, _ = l.sofar()
				return value(t, samples, calls, "a"), events
			}
			time.Sleep(5 * time.Second)
			first, before := round()
			time.Sleep(60 * time.Second)
			last, after := round()
			got := (last - first) / (after - before)
			slower := rate * 140e-9
			if se := value(t, samples, StandardError, "x"); math.Abs(got-1) > 0.02 || se < slower/(1+slower)*part*0.75 || se > slower/(1+slower)*part*1.5 {
				t.Errorf("%.0f a second: %.3f of the events are told, standard error %.3f; each is slower by %.2f, want %.2f of that", rate, got, se, slower, part)
			}
		})
	}
}

// TestBurstsAreInTheError: windows that bursts close early tell too much, by no more than
// the stated error on average.
func TestBurstsAreInTheError(t *testing.T) {
	const trials, warm, rounds, length = 12, 40, 60, 20 * time.Millisecond
	var told, stated, n float64
	for trial := range uint64(trials) {
		l := newLoad(88e-9, 0, 0)
		govern(t, 0.01, []*load{l}, func(e *Engine) {
			l.set(func(now time.Time) []float64 {
				if rand.New(rand.NewPCG(trial, uint64(now.UnixNano())/uint64(length))).Float64() < 0.1 {
					return []float64{5e6, 0}
				}
				return []float64{0, 0}
			})
			var samples []metric.Sample
			round := func() (estimate, events float64) {
				time.Sleep(time.Second)
				_, samples = e.Collect(t.Context())
				events, _ = l.sofar()
				return value(t, samples, calls, "a"), events
			}
			var first, before float64
			for range warm {
				first, before = round()
			}
			var last, after float64
			for range rounds {
				last, after = round()
				// Absent where everything is seen for a moment, or nothing was.
				if e := value(t, samples, StandardError, "x"); !math.IsNaN(e) {
					stated, n = stated+e, n+1
				}
			}
			told += (last - first) / (after - before) / trials
		})
	}
	if n < trials*rounds/2 {
		t.Fatalf("an error is stated in %v of %d rounds", n, trials*rounds)
	}
	stated /= n
	if !(math.Abs(told-1) < stated) {
		t.Errorf("%.2f of the events are told, the stated error is %.2f", told, stated)
	}
	if stated > 1 {
		t.Errorf("an error of %.2f says nothing", stated)
	}
}

// vanishing is a load whose programs cannot be attached while their functions are gone.
type vanishing struct {
	*load
	mu   sync.Mutex
	gone bool
}

func (v *vanishing) set(gone bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.gone = gone
}

func (v *vanishing) Attach() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.gone {
		return errors.New("attach kprobe f: no such function")
	}
	return v.load.Attach()
}

// TestFunctionsVanish: where programs cannot be attached again, because their functions went with a module, values are missing with the
// reason. They are not 0, and no estimate goes on. They are back when the functions are.
func TestFunctionsVanish(t *testing.T) {
	for _, rate := range []float64{3e5, 1000} { // in windows, and all of the time once it is attached
		synctest.Test(t, func(t *testing.T) {
			v := &vanishing{load: newLoad(88e-9, 3e5, 3e5)}
			v.at = time.Now()
			s := v.source("x")
			s.Open = func(*host.Host, []tee.Facts) (Reader, error) { return v, nil }
			e := Open(&host.Host{Now: time.Now}, nil, []*Source{s}, nil)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() {
				defer close(done)
				e.Govern(ctx, budget.Budget{Share: 0.01, Userspace: func() float64 { return 0 }, CPUs: 2})
			}()
			var samples []metric.Sample
			round := func() {
				time.Sleep(5*time.Second + aside)
				_, samples = e.Collect(t.Context())
			}
			for range 4 {
				round()
			}
			if math.IsNaN(value(t, samples, calls, "a")) {
				t.Fatal("nothing is counted")
			}
			v.set(true)
			v.load.set(func(time.Time) []float64 { return []float64{rate, rate} })
			round()
			round()
			before, _ := v.sofar()
			was := v.estimate(e)
			for range 3 {
				round()
				if got, up := value(t, samples, calls, "a"), value(t, samples, Up, "x"); !math.IsNaN(got) || up != 0 {
					t.Errorf("%g calls and up %g without programs", got, up)
				}
				if s := e.Status()[0]; s.State != Degraded || s.Reason != "attach kprobe f: no such function" {
					t.Errorf("status %+v", s)
				}
			}
			after, _ := v.sofar()
			if got := v.estimate(e) - was; after == before || got != 0 {
				t.Errorf("%g calls are estimated of %g that nobody saw", got, after-before)
			}
			v.set(false)
			round()
			round()
			first, at := v.estimate(e), v.realNow()
			for range 6 {
				round()
			}
			got, want := value(t, samples, calls, "a")-first, v.realNow()-at
			if s := e.Status()[0]; math.Abs(got/want-1) > 0.1 || value(t, samples, Up, "x") != 1 || s.Reason == "attach kprobe f: no such function" {
				t.Errorf("%g calls of %g afterwards, status %+v", got, want, s)
			}
			cancel()
			<-done
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// estimate is the estimate of the calls that the engine keeps, shown or not.
func (v *vanishing) estimate(e *Engine) float64 {
	held := e.sources.Lock()
	defer e.sources.Unlock()
	return (*held)[0].estimate.Extrapolate(metric.Sample{Desc: calls, Labels: []string{v.process}}, estimate.Hold).Value
}

func (v *vanishing) realNow() float64 { n, _ := v.sofar(); return n }

// TestDebt: windows that cost more than planned, as those that are closed late on
// a machine whose cores are all taken, cost no more than the budget in the long
// run, and the source is still seen.
func TestDebt(t *testing.T) {
	l := newLoad(88e-9, 5e6, 5e6)
	l.extra = 0.02
	govern(t, 0.01, []*load{l}, func(e *Engine) {
		time.Sleep(5 * time.Second)
		_, before := l.Spent()
		_, windows := l.sofar()
		for range 60 {
			time.Sleep(time.Second)
			e.Collect(t.Context())
		}
		_, after := l.Spent()
		if used := (after[0] - before[0]) / 60; used > 0.01 || used < 0.002 {
			t.Errorf("used %g of a core", used)
		}
		if _, toggles := l.sofar(); toggles-windows < 10 {
			t.Errorf("%d times attached or detached in a minute", toggles-windows)
		}
		_, samples := e.Collect(t.Context())
		events, _ := l.sofar()
		if got, se := value(t, samples, calls, "a"), value(t, samples, StandardError, "x"); math.Abs(got/events-1) > max(4*se, 0.25) { // the last window may be seconds ago
			t.Errorf("estimate %g of %g, standard error %g", got, events, se)
		}
	})
}
