package budget

import (
	"math"
	"testing"
)

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
