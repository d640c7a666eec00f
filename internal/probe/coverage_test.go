package probe

import "testing"

// TestCoverageJudged: a source that counts what it was set to, about, is not short, and less than half a percent is not
// an estimate.
func TestCoverageJudged(t *testing.T) {
	for _, c := range []struct {
		coverage, sample float64
		estimate, short  bool
	}{
		{1, 1, false, false},
		{1, 0, false, false}, // it cannot be sampled
		{0.996, 1, false, false},
		{0.99, 1, true, true},
		{0.99, 0, true, true},
		{0.24, 0.25, true, false}, // about as set
		{0.1, 0.25, true, true},
		{0, 1, true, true},
	} {
		if e, s := IsEstimate(c.coverage), IsShort(c.coverage, c.sample); e != c.estimate || s != c.short {
			t.Errorf("coverage %g of %g: estimate %t, short %t, want %t, %t", c.coverage, c.sample, e, s, c.estimate, c.short)
		}
	}
}
