// clock: the tests of this file run in bubbles of testing/synctest.
package probe

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/tee"
)

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

// aside is when the tests of govern look, counted from the end of a period: never in the moment in which the
// governor acts, so the order of the two is known.
const aside = 333 * time.Microsecond

// govern runs the engine in a bubble of fake time, with the given share of each
// of two cores. Its windows begin at the same moments in every run.
func govern(t *testing.T, share float64, loads []*load, do func(e *Engine)) {
	synctest.Test(t, func(t *testing.T) {
		var sources []*Source
		for i, l := range loads {
			l.at, l.process = time.Now(), []string{"a", "b", "c"}[i]
			sources = append(sources, l.source([]string{"x", "y", "z"}[i]))
		}
		e := Open(&host.Host{Now: time.Now}, nil, sources, nil)
		e.governor.books.Lock().random = rand.New(rand.NewPCG(1, 2))
		e.governor.books.Unlock()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			began := time.Now()
			idle := func() []float64 { // of cores that only a load that never waits uses
				s := time.Since(began).Seconds()
				if loads[0].hard {
					s = 0
				}
				return []float64{s, s}
			}
			e.Govern(ctx, Budget{Share: share, Userspace: func() float64 { return 0 }, CPUs: 2, Idle: idle})
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
			e.Govern(ctx, Budget{Share: 0.01, Userspace: func() float64 { return min(time.Since(began), 2800*time.Millisecond).Seconds() }, CPUs: 2})
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
		if n := len(moments); n < fullLooks || n > fullLooks+2 {
			t.Errorf("checked in %d moments of a second, want %d and the end of a period", n, fullLooks)
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

// steadyLoad is a load that the budget sets aside.
type steadyLoad struct{ *load }

// Steady implements Steady.
func (steadyLoad) Steady() {}

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

// TestSampleRises: a source that the user samples and whose load rises is seen
// in every period as long as it fits into the budget.
func TestSampleRises(t *testing.T) {
	l := newLoad(88e-9, 1000, 1000)
	govern(t, 0.01, []*load{l}, func(e *Engine) {
		tenth := 0.1
		if err := e.Set("x", Setting{Sample: &tenth}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Second)
		l.set(func(time.Time) []float64 { return []float64{30e3, 30e3} })
		for i := range 20 {
			time.Sleep(time.Second)
			if _, samples := e.Collect(t.Context()); i > 0 {
				if c := value(t, samples, Coverage, "x"); !(c > 0.08 && c < 0.12) {
					t.Errorf("second %d: coverage %g", i, c)
				}
			}
		}
	})
}

// TestSampleLimit: a user's sampling rate holds without any pressure.
func TestSampleLimit(t *testing.T) {
	l := newLoad(88e-9, 1000, 1000)
	govern(t, 0.01, []*load{l}, func(e *Engine) {
		tenth := 0.1
		if err := e.Set("x", Setting{Sample: &tenth}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		e.Collect(t.Context())
		before, _ := l.sofar()
		_, samples := e.Collect(t.Context())
		was := value(t, samples, calls, "a")
		time.Sleep(50 * time.Second)
		_, samples = e.Collect(t.Context())
		if c := value(t, samples, Coverage, "x"); c < 0.08 || c > 0.12 {
			t.Errorf("coverage %g", c)
		}
		after, _ := l.sofar()
		if got, want := value(t, samples, calls, "a")-was, after-before; math.Abs(got/want-1) > 0.02 {
			t.Errorf("estimates %g of %g steady events", got, want)
		}
		for _, bad := range []float64{0, -1, 1.1, math.NaN()} {
			if err := e.Set("x", Setting{Sample: &bad}); err == nil {
				t.Errorf("a sample of %g is taken", bad)
			}
		}
	})
}

func TestBadSettings(t *testing.T) {
	f := &fake{}
	e := Open(clock(), nil, []*Source{f.source("x")}, nil)
	half, bad, none := 0.5, "(", "no-such"
	many := make([]int, MaxPIDs+1)
	for name, s := range map[string]Setting{
		"sampling of files": {Sample: &half}, "bad cgroup": {Cgroup: &bad}, "bad container": {Container: &bad},
		"unknown level": {Level: &none}, "too many processes": {PIDs: &many}, "process 0": {PIDs: &[]int{0}},
	} {
		if err := e.Set("x", s); err == nil {
			t.Errorf("%s is taken", name)
		}
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
				e.Govern(ctx, Budget{Share: 0.01, Userspace: func() float64 { return 0 }, CPUs: 2})
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
	defer e.sources.Unlock()
	return (*e.sources.Lock())[0].estimate.series[keyOf(metric.Sample{Desc: calls, Labels: []string{v.process}})].total
}

func (v *vanishing) realNow() float64 { n, _ := v.sofar(); return n }

// TestRefusesToAttach: a reader that cannot be put back says so in its readings,
// and the governor goes on.
func TestRefusesToAttach(t *testing.T) {
	th := &throttle{reader: refusing{}, attached: true}
	th.set(false, time.Now)
	if !th.attached {
		t.Error("counted as detached although it refused")
	}
}

type refusing struct{}

func (refusing) Attach() error                { return errors.New("no") }
func (refusing) Detach() error                { return errors.New("no") }
func (refusing) Limit([]float64, func()) bool { return false }
func (refusing) Spent() (float64, []float64)  { return 0, nil }

func TestMaxMin(t *testing.T) {
	for _, c := range []struct {
		allowance  float64
		full, want []float64
	}{
		{1, nil, []float64{}},
		{1, []float64{0.2, 0.3}, []float64{0.2, 0.3}},
		{1, []float64{9, 0.2}, []float64{0.8, 0.2}},
		{1, []float64{9, 0.2, 0.5}, []float64{0.4, 0.2, 0.4}},
		{1, []float64{0, 0}, []float64{0, 0}},
	} {
		got := maxMin(c.allowance, c.full)
		for i := range c.want {
			if math.Abs(got[i]-c.want[i]) > 1e-12 {
				t.Errorf("%g among %v: %v, want %v", c.allowance, c.full, got, c.want)
			}
		}
	}
}

// TestRelativeError against a simulation: windows of a Poisson process with a
// rate that itself varies.
func TestRelativeError(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	const periods, f, trials = 60, 0.05, 400
	var ratio []float64
	var claimed float64
	for range trials {
		var windows []window
		var total, seen float64
		for range periods {
			in, out := 0.0, 0.0
			level := 1000 * math.Exp(r.NormFloat64()*0.5)
			for i := range 20 {
				n := level * (0.5 + r.Float64())
				if i == 0 {
					in = n
				}
				out += n
			}
			total += out
			seen += in
			windows = append(windows, window{in / f, 1, f, 0})
		}
		ratio = append(ratio, seen*20/total-1)
		claimed += relativeError(windows) / trials
	}
	var ss float64
	for _, x := range ratio {
		ss += x * x
	}
	if real := math.Sqrt(ss / trials); claimed < 0.9*real || claimed > 3*real {
		t.Errorf("claimed a relative standard error of %g, it was %g", claimed, real)
	}
	// By hand: the differences give a variance of 4/2 * 0.5 twice, times 3/2; the doubt is a mean over the events.
	for _, c := range []struct {
		windows []window
		want    float64
	}{
		{[]window{{1, 1, 0.5, 0}, {3, 1, 0.5, 0}, {1, 1, 0.5, 0}}, math.Sqrt(3) / 5},
		{[]window{{1, 1, 0.5, 0.1}, {3, 1, 0.5, 0.2}, {1, 1, 0.5, 0.3}}, math.Sqrt(3)/5 + 0.2},
		{[]window{{1, 1, 1, 0}, {3, 1, 1, 0}, {1, 1, 1, 0}}, 0},
	} {
		if e := relativeError(c.windows); math.Abs(e-c.want) > 1e-12 {
			t.Errorf("%v: error %g, want %g", c.windows, e, c.want)
		}
	}
	for _, none := range [][]window{nil, {{1, 1, f, 0}, {2, 1, f, 0}}, {{0, 1, f, 0}, {0, 1, f, 0}, {0, 1, f, 0}}} {
		if e := relativeError(none); !math.IsNaN(e) {
			t.Errorf("%v: error %g from too little", none, e)
		}
	}
}

func TestEstimator(t *testing.T) {
	h := &metric.Desc{Name: "h_seconds", Kind: metric.Histogram, Help: "H."}
	var e estimator
	take := func(n, scale float64) float64 {
		return e.take(metric.Sample{Desc: calls, Labels: []string{"a"}, Value: n}, scale).Value
	}
	for i, c := range []struct{ n, scale, want float64 }{
		{10, 1, 10}, {20, 2, 30}, {20, 5, 30}, {30, 1, 40}, {5, 1, 45}, {9, 0, 45},
	} {
		if got := take(c.n, c.scale); got != c.want {
			t.Errorf("step %d: %g, want %g", i, got, c.want)
		}
	}
	if s := e.take(metric.Sample{Desc: level, Value: 3}, 9); s.Value != 3 {
		t.Errorf("a gauge was scaled to %g", s.Value)
	}
	for range 3 * forgotten {
		e.end()
	}
	if len(e.series) != 0 {
		t.Errorf("%d ended series are kept", len(e.series))
	}
	hist := func(scale float64, sum float64, counts ...uint64) metric.Sample {
		return e.take(metric.Sample{Desc: h, Hist: &metric.Hist{Bounds: []float64{1}, Counts: counts, Sum: sum}}, scale)
	}
	hist(1, 3, 2, 1)
	s := hist(1.5, 6, 3, 2)
	if s.Trust != metric.Estimated || s.Hist.Sum != 7.5 || s.Hist.Counts[0] != 3 || s.Hist.Counts[1] != 2 {
		t.Errorf("histogram %+v, %v", s.Hist, s.Trust)
	}
	if s = hist(hold, 9, 4, 9); s.Hist.Counts[0] != 3 || s.Hist.Sum != 7.5 {
		t.Errorf("what was held shows already: %+v", s.Hist)
	}
	if s = hist(1.5, 6, 4, 2); s.Hist.Counts[0] != 5 || s.Hist.Counts[1] != 2 {
		t.Errorf("half events are lost: %+v", s.Hist)
	}
	take(9, 1)
	if got := take(99, hold); got != 9 {
		t.Errorf("what was held shows already: %g", got)
	}
	if got := take(99, 2); got != 9+180 {
		t.Errorf("what was held is lost: %g", got)
	}
}

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

// TestManyLabels: a series is scaled however many labels it has.
func TestManyLabels(t *testing.T) {
	d := &metric.Desc{Name: "tee_many_total", Help: "Many.", Labels: []string{"a", "b", "c", "d", "e", "f"}}
	var e estimator
	take := func(f string, n, scale float64) metric.Sample {
		return e.take(metric.Sample{Desc: d, Labels: []string{"a", "b", "c", "d", "e", f}, Value: n}, scale)
	}
	take("x", 10, 1)
	take("y", 1, 1)
	if s := take("x", 20, 4); s.Value != 50 || s.Trust != metric.Estimated {
		t.Errorf("%g, %v; want 10 and 4 times 10, estimated", s.Value, s.Trust)
	}
	if s := take("y", 2, 4); s.Value != 5 {
		t.Errorf("%g; want 1 and 4 times 1", s.Value)
	}
}
