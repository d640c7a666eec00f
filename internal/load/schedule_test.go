package load

import (
	"math"
	"slices"
	"testing"
)

// TestSchedule: the threads together keep the rate; equal gaps are equal, Poisson's are
// exponential.
func TestSchedule(t *testing.T) {
	const rate, n = 1000, 4
	for _, poisson := range []bool{false, true} {
		var all []int64
		for i := range n {
			for s := newSchedule(rate, poisson, 1, i, n); s.due() < 20e9; s.advance() {
				all = append(all, s.due())
			}
		}
		slices.Sort(all)
		if got := float64(len(all)) / 20; math.Abs(got-rate) > 0.05*rate {
			t.Errorf("poisson=%v: %v a second, want %v", poisson, got, rate)
		}
		sum, square := 0.0, 0.0
		for i := range len(all) - 1 {
			gap := float64(all[i+1] - all[i])
			sum += gap
			square += gap * gap
		}
		m := float64(len(all) - 1)
		// The coefficient of variation is 0 for equal gaps and 1 for exponential ones.
		variation := math.Sqrt(max(0, square/m-(sum/m)*(sum/m))) / (sum / m)
		if want := map[bool]float64{false: 0, true: 1}[poisson]; math.Abs(variation-want) > 0.05 {
			t.Errorf("poisson=%v: variation of the gaps %v, want %v", poisson, variation, want)
		}
	}
}

// TestLate: a request is sent late because of the client only if it could have been sent, not if
// it waited for a free connection.
func TestLate(t *testing.T) {
	r := newRecord()
	r.measure(stretch{from: 0, to: 1e9, width: 1e8})
	for _, c := range []struct {
		due, sent, ready int64
		late             uint64
	}{{0, 900_000, 0, 0}, {0, 1_100_000, 0, 1}, {0, 5_000_000, 4_500_000, 1}, {-5, 9_000_000, 0, 1}, {0, 9_000_000, 2_000_000, 2}} {
		if r.sending(request{due: c.due, sent: c.sent}, c.ready); r.late != c.late {
			t.Errorf("%+v: %d late", c, r.late)
		}
	}
}
