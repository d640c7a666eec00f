package bpf

import (
	"encoding/binary"
	"testing"
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
		{"in a loop", price{calibrated: 40, dispatch: 21}, 0, 40},
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
			r.reprice(c, 7)
		}
		if events, seconds := r.spent(c); events != tt.counted || len(seconds) != 1 || seconds[0] != tt.seconds {
			t.Errorf("%g events have cost %v, want %g", events, seconds, tt.seconds)
		}
	}
}

// TestBelieves: where the loop has told a program's price, a few runs, as on an idle machine, do not replace it; older windows count half as
// much with each new one.
func TestBelieves(t *testing.T) {
	loop := price{calibrated: 40e-9, dispatch: 21e-9}
	idle := timing{100, 100 * 3e-6}
	load := timing{enough, enough * 30e-9}
	for _, tt := range []struct {
		what  string
		price price
		of    timing
		want  bool
	}{
		{"nothing ran", price{}, timing{}, false},
		{"the clock reads took longer", price{}, timing{100, -1e-6}, false},
		{"an idle machine", loop, idle, false},
		{"an idle machine, a hook without a loop", price{}, idle, true},
		{"a timer, whose way in is not known", price{calibrated: 18e-6}, idle, true},
		{"a load", loop, load, true},
		{"a window without runs after a load", loop, load.add(timing{}), false},
		{"half of it in each of two windows", loop, timing{enough, 1e-5}.add(timing{enough / 2, 1e-5}), true},
	} {
		if got := tt.price.believes(tt.of); got != tt.want {
			t.Errorf("%s: believed %t", tt.what, got)
		}
	}
	if got, want := idle.add(idle).add(load), (timing{enough + 75, load.seconds + idle.seconds*0.75}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
