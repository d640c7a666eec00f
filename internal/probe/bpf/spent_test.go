package bpf

import (
	"encoding/binary"
	"math"
	"testing"
	"time"
)

// TestPerEvent: an event costs what its program takes beside the load that there is, and the way into it as measured at its
// hook and as much more as the program takes more. What a loop measured, in which both stay in the caches, is the least.
func TestPerEvent(t *testing.T) {
	for _, tt := range []struct {
		what           string
		price          price
		body, dispatch float64
	}{
		{"nothing is known", price{}, 0, assumed},
		{"in a loop", price{calibrated: 40, dispatch: 21}, 19, 21},
		{"in a loop, without a program that does nothing", price{calibrated: 40}, 0, 40},
		{"beside a load", price{calibrated: 40, dispatch: 21, body: 38}, 38, 40},
		{"the loop cost more", price{calibrated: 40, dispatch: 21, body: 9}, 9, 31},
		{"without a program that does nothing", price{calibrated: 40, body: 9}, 9, 31},
		{"more beside a load, without one", price{calibrated: 40, body: 50}, 50, 0},
		{"no trigger", price{body: 9}, 9, 5},
	} {
		c := &Counters{}
		c.guarded.price = tt.price
		body, dispatch := (&registry{dispatch: 5}).perEvent(c)
		if body != tt.body || dispatch != tt.dispatch {
			t.Errorf("%s: body %g and dispatch %g, want %g and %g", tt.what, body, dispatch, tt.body, tt.dispatch)
		}
	}
}

// TestSpentOfUser: when the map of a user's program loses keys, as one that keeps the latest does, what was spent stays; it
// grows again when more is counted than at the last change of the price.
func TestSpentOfUser(t *testing.T) {
	r := &registry{dispatch: 5}
	c := &Counters{program: &Program{layout: layout{row: 1}}}
	for _, tt := range []struct{ counted, seconds float64 }{{100, 1000}, {40, 1000}, {100, 1000}, {110, 1120}} {
		r.of(c).polled = binary.NativeEndian.AppendUint64(nil, uint64(tt.counted))
		if tt.counted == 100 && r.of(c).body == 0 {
			r.of(c).body = 5
			r.reprice(c, price{body: 7})
		}
		if events, seconds := r.spent(c); events != tt.counted || len(seconds) != 1 || seconds[0] != tt.seconds {
			t.Errorf("%g events have cost %v, want %g", events, seconds, tt.seconds)
		}
	}
}

// TestSound: the way into a program does not take what the program was seen to take, nor the program more than twice that.
func TestSound(t *testing.T) {
	for _, tt := range []struct{ measured, want price }{
		{price{calibrated: 40, dispatch: 25, loop: 10}, price{calibrated: 40, dispatch: 25, loop: 10}},
		{price{calibrated: 40, dispatch: 39, loop: 10}, price{calibrated: 40, dispatch: 30, loop: 10}},
		{price{calibrated: 40, dispatch: 1, loop: 10}, price{calibrated: 40, dispatch: 20, loop: 10}},
		{price{calibrated: 8, dispatch: 9, loop: 10}, price{calibrated: 8, loop: 8}},
		{price{calibrated: 40, loop: 10}, price{calibrated: 40, loop: 10}},
		{price{calibrated: 40}, price{calibrated: 40}},
	} {
		if got := tt.measured.sound(); got != tt.want {
			t.Errorf("%+v became %+v, want %+v", tt.measured, got, tt.want)
		}
	}
}

// TestTake: where the loop has told a program's price, a few runs, as on an idle machine, do not replace it; older runs count half as
// much with each look.
func TestTake(t *testing.T) {
	loop := price{calibrated: 40e-9, dispatch: 21e-9, loop: 10e-9}
	idle := timing{enough - 1, (enough - 1) * 3e-6}
	load := timing{enough, enough * 30e-9}
	measured := loop
	measured.body, measured.mean = 57e-9, load
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
		{"seldom at such a hook", price{body: 5e-6, mean: timing{2, 10e-6}}, timing{3, 9e-6}, time.Second, false, 5e-6},
		{"seldom at such a hook for long", price{body: 5e-6, mean: timing{2, 10e-6}}, timing{3, 9e-6}, patience, true, 3.5e-6},
		{"a timer, whose way in is not known", price{calibrated: 18e-6}, idle, 0, true, 3e-6},
		{"a load, where a part is not timed", loop, load, time.Second, true, 57e-9},
		{"a load without a loop", price{}, load, time.Second, true, 30e-9},
		{"another load", measured, timing{enough, enough * 15e-9}, time.Second, true, 38e-9},
		{"idle after a load", measured, idle, patience, true, 57e-9},
	} {
		p := tt.price
		if got := p.take(tt.of, tt.within); got != tt.looked || math.Abs(p.body-tt.body) > 1e-12 {
			t.Errorf("%s: looked at %t, body %g, want %t and %g", tt.what, got, p.body, tt.looked, tt.body)
		}
	}
}
