// clock: the tests of this file run in bubbles of testing/synctest.
package probe

import (
	"context"
	"math"
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

// walker is a load that also works between readings.
type walker struct {
	*load
	slowed []int // as told, changes only
}

// Slow implements Unhurried.
func (w *walker) Slow(times int) {
	if n := len(w.slowed); n == 0 || w.slowed[n-1] != times {
		w.slowed = append(w.slowed, times)
	}
}

// TestWaitingWorkGoesFirst: user space that does not fit into the budget does what can wait less often, at most four times, until it fits.
// Half of the budget is user space's own; what the sources leave it may use as well.
func TestWaitingWorkGoesFirst(t *testing.T) {
	const share, cpus = 0.01, 2
	for _, c := range []struct {
		name        string
		user, waits float64 // of each core: what cannot wait, and what can, as usual
		events      float64 // a second on each core, at 100 ns
		want        []int
	}{
		{"it fits", 0.003, 0.001, 1e6, []int{1}},
		{"the sources need little", 0.006, 0.002, 1e4, []int{1}},
		{"the sources need all", 0.003, 0.003, 1e6, []int{1, 2}},
		{"more than the budget", 0.02, 0.001, 0, []int{1, 2, 4}},
		{"all of it can wait", 0.001, 0.016, 1e6, []int{1, 2, 4}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &walker{load: newLoad(100e-9, c.events, c.events)}
				w.at = time.Now()
				s := w.source("x")
				s.Open = func(*host.Host, []tee.Facts) (Reader, error) { return w, nil }
				e := Open(&host.Host{Now: time.Now}, nil, []*Source{s}, nil)
				var mu sync.Mutex
				used, at, user, waits := 0.0, time.Now(), c.user, c.waits
				spent := func() float64 {
					mu.Lock()
					defer mu.Unlock()
					now := time.Now()
					times := 1
					if n := len(w.slowed); n > 0 {
						times = w.slowed[n-1]
					}
					used += now.Sub(at).Seconds() * cpus * (user + waits/float64(times))
					at = now
					return used
				}
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan struct{})
				go func() { defer close(done); e.Govern(ctx, budget.Budget{Share: share, Userspace: spent, CPUs: cpus}) }()
				if e.Slowed() != 1 {
					t.Error("slowed before anything is known")
				}
				var samples []metric.Sample
				rounds := func(n int) {
					for range n {
						time.Sleep(5*time.Second + aside)
						_, samples = e.Collect(t.Context())
					}
				}
				rounds(10 * 60 / 5)
				if !slices.Equal(w.slowed, c.want) {
					t.Errorf("slowed %v, want %v", w.slowed, c.want)
				}
				if got := value(t, samples, SlowedDesc, ""); got != float64(c.want[len(c.want)-1]) {
					t.Errorf("%s is %g", SlowedDesc.Name, got)
				}
				spent()
				mu.Lock()
				user, waits = 0.001, 0
				mu.Unlock()
				rounds(20 * 60 / 5)
				if e.Slowed() != 1 {
					t.Errorf("slowed %v although all fits again", w.slowed)
				}
				cancel()
				<-done
				if err := e.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestSlowToAttach: on a kernel where attaching and detaching take 20 ms, and count from or until a moment in between that nobody
// knows, the budget is kept on average, and the estimate is right.
func TestSlowToAttach(t *testing.T) {
	const cost, rate, seconds = 88e-9, 2e5, 60
	for _, c := range []struct {
		name  string
		early bool
		share float64
	}{
		{"at the beginning, short windows", true, 0.0003}, {"at the end, short windows", false, 0.0003},
		{"at the beginning, long windows", true, 0.01}, {"at the end, long windows", false, 0.01},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLoad(cost, rate, rate)
				l.at, l.slow, l.early = time.Now(), 20*time.Millisecond, c.early
				e := openSeeded(t, []*Source{l.source("x")})
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan struct{})
				go func() {
					defer close(done)
					e.Govern(ctx, budget.Budget{Share: c.share, Userspace: func() float64 { return 0 }, CPUs: 2})
				}()
				// No reading while it is governed: a goroutine that waits for a lock stops the clock of the bubble.
				time.Sleep(10*time.Second + aside)
				_, before := l.Spent()
				time.Sleep(seconds * time.Second)
				_, after := l.Spent()
				if mean := (after[0] - before[0]) / seconds; mean > c.share || mean < c.share/4 {
					t.Errorf("%.4f of a core on average", mean)
				}
				cancel()
				<-done
				_, samples := e.Collect(t.Context())
				events, toggles := l.sofar()
				if got := value(t, samples, calls, "a"); math.Abs(got/events-1) > 0.03 {
					t.Errorf("estimate %g of %g, with %d changes", got, events, toggles)
				}
				if toggles < 10 {
					t.Errorf("attached and detached %d times", toggles)
				}
				if err := e.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
