package stats

import (
	"math"
	"sort"
)

// PercentileInterval returns the ranks, from 1, of the order statistics of n
// independent observations that enclose their q-quantile with at least the given
// confidence and at most half of the risk on either side. The number of observations
// below the quantile is binomial, so P(X_(lo) <= Q <= X_(hi)) is at least P(lo <= B <
// hi), whatever the distribution (David and Nagaraja, Order Statistics, 7.1). Not ok if
// n is too small for such a rank on each side.
func PercentileInterval(n int, q, confidence float64) (lo, hi int, ok bool) {
	if n < 1 || !(q > 0 && q < 1) || !(confidence > 0 && confidence < 1) {
		return 0, 0, false
	}
	tail := (1 - confidence) / 2
	lo = sort.Search(n, func(k int) bool { return binomialCDF(n, q, k) > tail }) // first k with P(B <= k) > tail
	hi = 1 + sort.Search(n, func(k int) bool { return binomialCDF(n, q, k) >= 1-tail })
	if lo < 1 || hi > n || math.IsNaN(binomialCDF(n, q, lo)) {
		return 0, 0, false
	}
	return lo, hi, true
}
