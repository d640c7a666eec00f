package stats

import (
	"cmp"
	"math"
	"slices"
)

// Holm returns adjusted P values for a family of tests, in the order given: the
// i-th smallest of m becomes max over j <= i of (m-j+1) p_(j), at most 1. Rejecting
// those not above alpha keeps the chance of any false alarm at alpha (Holm,
// Scand. J. Statist. 6, 1979). A NaN belongs to the family and stays NaN.
func Holm(p []float64) []float64 {
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	key := func(i int) float64 {
		if math.IsNaN(p[i]) {
			return math.Inf(1)
		}
		return p[i]
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(key(i), key(j)) })
	out := make([]float64, len(p))
	highest := 0.0
	for rank, i := range order {
		highest = max(highest, min(1, float64(len(p)-rank)*p[i]))
		out[i] = highest
		if math.IsNaN(p[i]) {
			out[i] = p[i]
		}
	}
	return out
}
