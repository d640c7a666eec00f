package load

import (
	"slices"
	"testing"
)

func TestWarmUp(t *testing.T) {
	flat, rising := slices.Repeat([]float64{100}, 50), make([]float64, 50)
	for i := range rising {
		rising[i] = float64(1 + i)
	}
	step := slices.Concat(slices.Repeat([]float64{20}, 20), slices.Repeat([]float64{100}, 30))
	late := slices.Concat(slices.Repeat([]float64{80}, 37), slices.Repeat([]float64{100}, 13))
	for _, c := range []struct {
		name        string
		windows     []float64
		end         int
		warm, known bool
	}{
		{"none", nil, 0, false, false},
		{"few", flat[:19], 0, false, false},
		{"flat", flat, 0, true, true},
		{"a step", step, 18, true, true}, // from there on three of five are fast
		{"a late step", late, 35, false, true},
		{"a late step, prolonged", slices.Concat(late, flat), 35, true, true},
		{"rising", rising, 37, false, true},
		{"silent", make([]float64, 50), 0, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if end, warm, known := WarmUp(c.windows); end != c.end || warm != c.warm || known != c.known {
				t.Errorf("%s: window %d, warm %v, known %v; want %d, %v, %v", c.name, end, warm, known, c.end, c.warm, c.known)
			}
		})
	}
}
