package bpf

import "testing"

// TestPerEvent: an event costs what its program takes beside the load that there is, and the way into it as measured at its
// hook. What a loop measured, in which both stay in the caches, is the least.
func TestPerEvent(t *testing.T) {
	for _, tt := range []struct {
		what           string
		price          price
		body, dispatch float64
	}{
		{"nothing is known", price{}, 0, assumed},
		{"in a loop", price{calibrated: 40, dispatch: 21}, 0, 40},
		{"beside a load", price{calibrated: 40, dispatch: 21, body: 38}, 38, 21},
		{"the loop was dearer", price{calibrated: 40, dispatch: 21, body: 9}, 9, 31},
		{"without a program that does nothing", price{calibrated: 40, body: 9}, 9, 31},
		{"dearer beside a load, without one", price{calibrated: 40, body: 50}, 50, 0},
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
