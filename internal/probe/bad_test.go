// clock: the tests of this file run in bubbles of testing/synctest.
package probe

import (
	"math"
	"testing"
	"time"
)

// TestBadBudgets: with a budget of 0 the first events switch a source off, one of ten cores holds nothing back.
func TestBadBudgets(t *testing.T) {
	for _, c := range []struct{ share, most, coverage float64 }{
		{0, 1e6 * 88e-9 / fullChecks * 1.01, 0}, {10, 1, 1},
	} {
		l := newLoad(88e-9, 1e6, 1e6)
		govern(t, c.share, []*load{l}, func(e *Engine) {
			time.Sleep(10 * time.Second)
			_, spent := l.Spent()
			e.Collect(t.Context())
			time.Sleep(10 * time.Second)
			_, samples := e.Collect(t.Context())
			if got := value(t, samples, Coverage, "x"); got != c.coverage {
				t.Errorf("budget %g: coverage %g, want %g", c.share, got, c.coverage)
			}
			if blind := value(t, samples, BlindDesc, budgetReason) == 1; blind != (c.share == 0) {
				t.Errorf("budget %g: blind by the budget: %v", c.share, blind)
			}
			if spent[0] > c.most {
				t.Errorf("budget %g: %.4f seconds of a core, want %.4f at most", c.share, spent[0], c.most)
			}
		})
	}
}

// TestChangedInWindow: the budget, the sampling rate and the level change while a window is open. The estimate stays right.
func TestChangedInWindow(t *testing.T) {
	l := newLoad(88e-9, 1e5, 1e5)
	l.cost = append(l.cost, 88e-9)
	govern(t, 0.01, []*load{l}, func(e *Engine) {
		half, all, latency, count := 0.5, 1.0, "latency", "count"
		open := func() { // waits until a window is open
			for !l.isAttached() {
				time.Sleep(time.Millisecond)
			}
		}
		for range 10 {
			for _, s := range []Setting{{Sample: &half}, {Level: &latency}, {Sample: &all}, {Level: &count}} {
				time.Sleep(time.Second)
				open()
				if err := e.Set("x", s); err != nil {
					t.Fatal(err)
				}
			}
			for _, share := range []float64{0.001, 0.01} {
				time.Sleep(time.Second)
				open()
				e.governor.SetBudget(budgetOf(share, []*load{l}))
			}
			e.Collect(t.Context())
		}
		time.Sleep(5 * time.Second)
		_, samples := e.Collect(t.Context())
		events, _ := l.sofar()
		if got := value(t, samples, calls, "a"); math.Abs(got/events-1) > 0.05 {
			t.Errorf("estimate %g of %g", got, events)
		}
	})
}
