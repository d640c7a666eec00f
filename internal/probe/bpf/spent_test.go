package bpf

import (
	"encoding/binary"
	"math"
	"testing"
	"time"
)

// TestPerEvent: an event costs what its program times beside the load that there is, and the way into it two and a half times what it takes in a loop, in which it stays in
// the caches. Where a trap or a timer leads to it, the whole was measured.
func TestPerEvent(t *testing.T) {
	for _, tt := range []struct {
		what           string
		price          price
		body, dispatch float64
	}{
		{"nothing is known", price{}, 0, assumed},
		{"in a loop", price{calibrated: 40, loop: 10}, 10, 75},
		{"beside a load", price{calibrated: 40, loop: 10, mean: timing{2, 26}}, 13, 75},
		{"no loop", price{mean: timing{2, 26}}, 13, 10},
		{"a trap", price{calibrated: 900}, 0, 900},
		{"a trap, and a program that was timed", price{calibrated: 900, mean: timing{2, 26}}, 13, 887},
		{"such a program that takes longer than in the loop", price{calibrated: 9, mean: timing{2, 26}}, 13, 0},
	} {
		t.Run(tt.what, func(t *testing.T) {
			c := &Counters{}
			c.guarded.price = tt.price
			body, dispatch := (&registry{dispatch: 4}).perEvent(c)
			if body != tt.body || dispatch != tt.dispatch {
				t.Errorf("%s: body %g and dispatch %g, want %g and %g", tt.what, body, dispatch, tt.body, tt.dispatch)
			}
		})
	}
}

// TestSpentOfUser: when the map of a user's program loses keys, as one that keeps the latest does, what was spent stays; it
// grows again when more is counted than at the last change of the price.
func TestSpentOfUser(t *testing.T) {
	r := &registry{dispatch: 2}
	c := &Counters{program: &Program{layout: layout{row: 1}}}
	for _, tt := range []struct{ counted, seconds float64 }{{100, 1000}, {40, 1000}, {100, 1000}, {110, 1120}} {
		r.ledgerOf(c).polled = binary.NativeEndian.AppendUint64(nil, uint64(tt.counted))
		if tt.counted == 100 && r.ledgerOf(c).mean.runs == 0 {
			r.ledgerOf(c).mean = timing{1, 5}
			r.reprice(c, price{mean: timing{1, 7}})
		}
		if events, seconds := r.spent(c); events != tt.counted || len(seconds) != 1 || seconds[0] != tt.seconds {
			t.Errorf("%g events have cost %v, want %g", events, seconds, tt.seconds)
		}
	}
}

// TestTake: where the loop has told a program's price, a few runs, as on an idle machine, do not replace it; older runs count half as
// much with each look.
func TestTake(t *testing.T) {
	loop := price{calibrated: 40e-9, loop: 10e-9}
	idle := timing{enough - 1, (enough - 1) * 3e-6}
	load := timing{enough, enough * 30e-9}
	measured := loop
	measured.mean = load
	seldom := price{mean: timing{2, 10e-6}}
	for _, tt := range []struct {
		what   string
		price  price
		of     timing
		within time.Duration
		looked bool
		body   float64
	}{
		{"nothing ran", price{}, timing{}, time.Second, false, 0},
		{"nothing ran for long", price{}, timing{}, patience, true, 0},
		{"reading the clock took longer", price{}, timing{enough, -1e-6}, time.Second, true, 0},
		{"an idle machine", loop, idle, time.Second, false, 0},
		{"an idle machine for long", loop, idle, patience, true, 0},
		{"the first run at a hook without a loop", price{}, timing{1, 3e-6}, 0, true, 3e-6},
		{"seldom at such a hook", seldom, timing{3, 9e-6}, time.Second, false, 5e-6},
		{"seldom at such a hook for long", seldom, timing{3, 9e-6}, patience, true, 3.5e-6},
		{"a timer", price{calibrated: 18e-6}, idle, 0, true, 3e-6},
		{"a load", loop, load, time.Second, true, 30e-9},
		{"a load without a loop", price{}, load, time.Second, true, 30e-9},
		{"another load", measured, timing{enough, enough * 15e-9}, time.Second, true, 20e-9},
		{"idle after a load", measured, idle, patience, true, 30e-9},
	} {
		t.Run(tt.what, func(t *testing.T) {
			p := tt.price
			if got, body := p.addRuns(tt.of, tt.within), p.mean.each(); got != tt.looked || math.Abs(body-tt.body) > 1e-12 {
				t.Errorf("%s: looked at %t, body %g, want %t and %g", tt.what, got, body, tt.looked, tt.body)
			}
		})
	}
}
