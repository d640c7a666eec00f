// clock: the tests of this file run in bubbles of testing/synctest.
package probe

import (
	"context"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/probe/budget"
	"github.com/teescope/teescope/internal/tee"
)

// aside is when the tests of govern look, counted from the end of a period: never in the moment in which the
// governor acts, so the order of the two is known.
const aside = 333 * time.Microsecond

// TestBudgetIsKept: an adversary on all cores, from nothing to millions of calls a second, may cost more than the
// budget in the period in which it begins, and in no other. What is estimated stays within two stated errors. When
// the adversary has gone, everything is counted again. A reader that says itself what it has spent is never over.
func TestBudgetIsKept(t *testing.T) {
	for _, tells := range []bool{false, true} {
		t.Run(map[bool]string{false: "looked at", true: "says so"}[tells], func(t *testing.T) { budgetIsKept(t, tells) })
	}
}

func budgetIsKept(t *testing.T, tells bool) {
	const share, cost, seconds = 0.01, 88e-9, 60
	for _, c := range []struct {
		name  string
		rises int // how often its load rises from below the budget
		rate  func(time.Duration) float64
	}{
		{"steady", 1, func(time.Duration) float64 { return 4e6 }},
		{"growing", 0, func(d time.Duration) float64 { return min(5e6, 1e5*math.Exp2(d.Seconds()/6)) }},
		{"redis", 1, func(time.Duration) float64 { return 2e5 }},
		{"on, off", 4, func(d time.Duration) float64 { return 3e6 * float64(int(d.Seconds()/7)%2) }},
		{"drizzling", 1, func(d time.Duration) float64 { return 1e6 * (1 + math.Sin(d.Seconds()*50)) }},
		{"noisy", 1, func(d time.Duration) float64 {
			return 2e6 * rand.New(rand.NewPCG(1, uint64(d/(20*time.Millisecond)))).Float64()
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLoad(cost, 0, 0)
			l.tells = tells
			govern(t, share, []*load{l}, func(e *Engine) {
				time.Sleep(3 * time.Second)
				began := time.Now()
				l.set(func(now time.Time) []float64 {
					r := c.rate(now.Sub(began))
					return []float64{r, 0.7 * r}
				})
				over, was, adapted := 0, 0.0, 0.0
				for i := range seconds {
					if i%5 == 0 {
						e.Collect(t.Context())
					}
					time.Sleep(time.Second)
					_, spent := l.Spent()
					if spent[0]-was > share {
						over++
						t.Logf("second %d: %.4f of a core", i, spent[0]-was)
					}
					if was = spent[0]; i == 0 {
						adapted = was
					}
				}
				if over > c.rises || tells && over > 0 {
					t.Errorf("over the budget in %d of %d periods, want %d", over, seconds, c.rises)
				}
				if mean := (was - adapted) / (seconds - 1); mean > share {
					t.Errorf("%.4f of a core on average after the first second", mean)
				}
				_, samples := e.Collect(t.Context())
				got, seen := value(t, samples, calls, "a"), value(t, samples, Coverage, "x")
				if c.name == "redis" && !(seen > 0.35 && seen < 0.6) {
					t.Errorf("coverage %g; 8 of the 17.6 ms a second fit", seen)
				}
				events, toggles := l.sofar()
				if d, se := math.Abs(got/events-1), value(t, samples, StandardError, "x"); !(d <= 2*se || d <= 0.02) {
					t.Errorf("estimate %g of %g, standard error %g", got, events, se)
				}
				if toggles == 0 {
					t.Error("it was never detached")
				}
				l.set(func(time.Time) []float64 { return []float64{0, 0} })
				time.Sleep(10 * time.Second)
				e.Collect(t.Context())
				time.Sleep(time.Second)
				if _, samples := e.Collect(t.Context()); value(t, samples, Coverage, "x") != 1 {
					t.Errorf("coverage %g ten seconds after the end", value(t, samples, Coverage, "x"))
				}
			})
		})
	}
}

// TestFirstSecond: a load that begins from nothing costs the budget at most in the second in which it begins, and what one
// look later is noticed; what was seen then tells its number.
func TestFirstSecond(t *testing.T) {
	for _, tells := range []bool{false, true} {
		t.Run(map[bool]string{false: "looked at", true: "says so"}[tells], func(t *testing.T) { firstSecond(t, tells) })
	}
}

func firstSecond(t *testing.T, tells bool) {
	l := newLoad(88e-9, 0, 0)
	l.tells = tells
	govern(t, 0.01, []*load{l}, func(e *Engine) {
		time.Sleep(3*time.Second + 300*time.Millisecond)
		l.set(func(time.Time) []float64 { return []float64{2e6, 1e6} })
		time.Sleep(700 * time.Millisecond)
		_, spent := l.Spent()
		most := 0.01 + 2e6*88e-9/8 // it is looked at eight times a second
		if tells {
			most = 0.01
		}
		if spent[0] > most {
			t.Errorf("the first second cost %.4f s of a core, want %.4f at most", spent[0], most)
		}
		time.Sleep(time.Second)
		_, samples := e.Collect(t.Context())
		if c := value(t, samples, Coverage, "x"); c > 0.5 {
			t.Errorf("coverage %g", c)
		}
	})
}

// TestOpenedUnderLoad: a source that is opened while there is a load is held to the budget as one is in which a load
// begins; the CPU time of opening does not count as what the sources cost.
func TestOpenedUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLoad(88e-9, 2e6, 1e6)
		l.at = time.Now()
		if err := l.turn(false); err != nil {
			t.Fatal(err)
		}
		source, began := l.source("x"), time.Now()
		open := source.Open
		source.Open = func(h *host.Host, facts []tee.Facts) (Reader, error) {
			time.Sleep(2500 * time.Millisecond) // with all of a core, see below
			if err := l.turn(true); err != nil {
				return nil, err
			}
			return open(h, facts)
		}
		e := New(&host.Host{Now: time.Now}, nil, []*Source{source}, nil)
		ctx, cancel := context.WithCancel(t.Context())
		var governed sync.WaitGroup
		governed.Go(func() {
			e.Govern(ctx, budget.Budget{Share: 0.01, Userspace: func() float64 { return min(time.Since(began), 2800*time.Millisecond).Seconds() }, CPUs: 2})
		})
		time.Sleep(300 * time.Millisecond)
		if err := e.Start(func(*Source) bool { return true }); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		_, spent := l.Spent()
		if most := 0.01 + 2e6*88e-9/8; spent[0] > most || spent[0] == 0 {
			t.Errorf("the first second cost %.4f s of a core, want %.4f at most", spent[0], most)
		}
		time.Sleep(20 * time.Second)
		_, late := l.Spent()
		if got := (late[0] - spent[0]) / 20; got < 0.004 || got > 0.01 {
			t.Errorf("then %.4f of a core, want what the budget leaves when nothing else uses it", got)
		}
		cancel()
		governed.Wait()
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestUnthrottled: what fits is never touched, and its counters are as measured.
func TestUnthrottled(t *testing.T) {
	l := newLoad(88e-9, 1000, 50000)
	govern(t, 0.01, []*load{l}, func(e *Engine) {
		for range 30 {
			time.Sleep(time.Second)
			_, samples := e.Collect(t.Context())
			if got := value(t, samples, Coverage, "x"); got != 1 {
				t.Fatalf("coverage %g", got)
			}
		}
		_, samples := e.Collect(t.Context())
		events, toggles := l.sofar()
		if toggles != 0 {
			t.Errorf("attached or detached %d times", toggles)
		}
		if got := value(t, samples, calls, "a"); math.Abs(got-events) > 1e-6*got {
			t.Errorf("counted %g of %g", got, events)
		}
		if used := value(t, samples, BudgetUsed, ""); !math.IsNaN(used) && (used < 0.003 || used > 0.006) {
			t.Errorf("used %g of a core, want 0.0044", used)
		}
		if s := e.Status()[0]; s.State != Available || s.Error != nil {
			t.Errorf("status %+v", s)
		}
	})
}

// TestCheckedTogether: sources that count everything are checked in the same moments, whenever they were opened, so
// that several cost no more wake-ups than one.
func TestCheckedTogether(t *testing.T) {
	loads := []*load{newLoad(88e-9, 1000), newLoad(88e-9, 1000), newLoad(88e-9, 1000)}
	govern(t, 0.01, loads, func(e *Engine) {
		for i, name := range []string{"y", "z"} {
			if err := e.Set(name, Setting{On: new(bool)}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Duration(41+i) * time.Millisecond)
			on := true
			if err := e.Set(name, Setting{On: &on}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(2 * time.Second)
		began, moments := time.Now(), map[time.Time]bool{}
		time.Sleep(time.Second)
		for _, l := range loads {
			l.mu.Lock()
			for _, at := range l.asked {
				if !at.Before(began) {
					moments[at] = true
				}
			}
			l.mu.Unlock()
		}
		if n := len(moments); n < fullChecks || n > fullChecks+2 {
			t.Errorf("checked in %d moments of a second, want %d and the end of a period", n, fullChecks)
		}
	})
}

// TestSaysSo: a source that says when it has spent what it may is asked only at the ends of periods, and after it has said so.
func TestSaysSo(t *testing.T) {
	l := newLoad(88e-9, 0, 0)
	l.tells = true
	govern(t, 0.01, []*load{l}, func(*Engine) {
		for _, c := range []struct {
			rate float64
			told int
		}{{0, 0}, {1000, 0}, {5e6, 1}} {
			time.Sleep(5 * time.Second)
			l.set(func(time.Time) []float64 { return []float64{c.rate, c.rate} })
			l.mu.Lock()
			l.asked, l.told = nil, 0
			l.mu.Unlock()
			time.Sleep(time.Second)
			moments := map[time.Time]bool{}
			l.mu.Lock()
			for _, at := range l.asked {
				moments[at] = true
			}
			if l.told != c.told || len(moments) > 1+c.told {
				t.Errorf("%g events a second: it said so %d times and was asked in %d moments, want %d and %d at most", c.rate, l.told, len(moments), c.told, 1+c.told)
			}
			l.mu.Unlock()
		}
	})
}

// TestAllOfACore: with a budget of 100 % nothing is held back, also where the clocks
// of a starved machine say that more than there is was used.
func TestAllOfACore(t *testing.T) {
	a, b := newLoad(300e-9, 3e6, 3e6), newLoad(300e-9, 1e6, 3e6)
	govern(t, 1, []*load{a, b}, func(e *Engine) {
		for range 20 {
			time.Sleep(time.Second)
			_, samples := e.Collect(t.Context())
			for _, source := range []string{"x", "y"} {
				if c := value(t, samples, Coverage, source); c != 1 {
					t.Fatalf("coverage of %s is %g", source, c)
				}
			}
		}
	})
}

// TestCheapKeepFullCoverage: max-min fairness.
func TestCheapKeepFullCoverage(t *testing.T) {
	storm, few := newLoad(88e-9, 3e6, 3e6), newLoad(100e-9, 2e4, 2e4)
	govern(t, 0.01, []*load{storm, few}, func(e *Engine) {
		time.Sleep(30 * time.Second)
		e.Collect(t.Context())
		time.Sleep(5 * time.Second)
		_, samples := e.Collect(t.Context())
		if s := value(t, samples, Coverage, "x"); s > 0.05 {
			t.Errorf("the storm is covered to %g", s)
		}
		if s := value(t, samples, Coverage, "y"); s != 1 {
			t.Errorf("what costs a fifth of the budget is covered to %g", s)
		}
	})
}

// TestSteadyIsSetAside: what others rest on counts everything, whatever it costs,
// and is taken off what the others may use, who keep a quarter of the budget.
func TestSteadyIsSetAside(t *testing.T) {
	for cost, most := range map[float64]float64{10e-6: 0.007, 100e-6: 0.002} {
		storm, base := newLoad(88e-9, 3e6, 3e6), newLoad(cost, 97, 97)
		base.steady = true
		govern(t, 0.01, []*load{storm, base}, func(e *Engine) {
			time.Sleep(30 * time.Second)
			e.Collect(t.Context())
			time.Sleep(5 * time.Second)
			_, samples := e.Collect(t.Context())
			if c := value(t, samples, Coverage, "y"); c != 1 {
				t.Errorf("at %g s an event it is covered to %g", cost, c)
			}
			used := value(t, samples, Coverage, "x") * 88e-9 * 3e6
			if used < most/3 || used > most {
				t.Errorf("at %g s an event the storm is given %g of a core, want up to %g", cost, used, most)
			}
		})
	}
}

// TestDetailGoesFirst, and comes back when there is room again.
func TestDetailGoesFirst(t *testing.T) {
	l := newLoad(50e-9, 0, 0)
	l.cost = append(l.cost, 300e-9)
	govern(t, 0.01, []*load{l}, func(e *Engine) {
		wanted := "latency"
		if err := e.Set("x", Setting{Level: &wanted}); err != nil {
			t.Fatal(err)
		}
		steady := func(r float64) { l.set(func(time.Time) []float64 { return []float64{r, r} }) }
		steady(1e5)
		time.Sleep(60 * time.Second)
		_, samples := e.Collect(t.Context())
		if l.level != 0 || value(t, samples, LevelDesc, "count") != 1 {
			t.Errorf("level %d with 0.03 of a core for detail", l.level)
		}
		if s := e.Status()[0]; s.Level != "count" || s.Wanted != "latency" || s.State != Degraded {
			t.Errorf("status %+v", s)
		}
		e.Collect(t.Context())
		steady(100)
		time.Sleep(3 * time.Minute)
		e.Collect(t.Context())
		time.Sleep(5 * time.Second)
		_, samples = e.Collect(t.Context())
		if l.level != 1 || value(t, samples, Coverage, "x") != 1 {
			t.Errorf("level %d and coverage %g when the load has gone", l.level, value(t, samples, Coverage, "x"))
		}
	})
}

// TestOffAndBack: where not even one short window in twenty seconds fits the source is off and blind,
// says so, and comes back by itself.
func TestOffAndBack(t *testing.T) {
	l := newLoad(1e-6, 5e6, 5e6)
	govern(t, 0.0001, []*load{l}, func(e *Engine) {
		time.Sleep(10 * time.Second)
		e.Collect(t.Context())
		time.Sleep(5 * time.Second)
		_, samples := e.Collect(t.Context())
		if v := value(t, samples, BlindDesc, "budget"); v != 1 {
			t.Error("not blind by the budget")
		}
		if v := value(t, samples, calls, "a"); !math.IsNaN(v) {
			t.Errorf("emits %g while it sees nothing", v)
		}
		if v := value(t, samples, Up, "x"); v != 0 {
			t.Errorf("up %g", v)
		}
		l.set(func(time.Time) []float64 { return []float64{10, 10} })
		time.Sleep(3 * time.Minute)
		e.Collect(t.Context())
		time.Sleep(5 * time.Second)
		_, samples = e.Collect(t.Context())
		if v := value(t, samples, Coverage, "x"); v != 1 {
			t.Errorf("coverage %g when the load has gone", v)
		}
	})
}

// TestPeekTakesNothing: what is read between two rounds leaves the figure of the
// budget to the next round.
func TestPeekTakesNothing(t *testing.T) {
	l := newLoad(88e-9, 1000, 50000)
	govern(t, 0.01, []*load{l}, func(e *Engine) {
		time.Sleep(10500 * time.Millisecond)
		for range 2 {
			if _, samples := e.Peek(t.Context()); math.IsNaN(value(t, samples, BudgetUsed, "")) {
				t.Error("a look has no figure of its own")
			}
		}
		if _, samples := e.Collect(t.Context()); math.IsNaN(value(t, samples, BudgetUsed, "")) {
			t.Error("the round has no figure: the look before it took it")
		}
		if _, samples := e.Collect(t.Context()); !math.IsNaN(value(t, samples, BudgetUsed, "")) {
			t.Error("a round has the figure of the round before it")
		}
	})
}
