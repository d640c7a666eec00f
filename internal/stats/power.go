package stats

import (
	"math"
)

// hlEfficiency is the efficiency of the Hodges-Lehmann estimate relative to the mean
// for normal values (Hodges and Lehmann, Ann. Math. Stat. 27, 1956); it is at least
// 0.864 for any symmetric distribution and above 1 for heavy tails.
const hlEfficiency = 3 / math.Pi

// maxPairs bounds PairsFor: no experiment has more.
const maxPairs = 1_000_000

// MDE is the minimum detectable effect, as a ratio minus 1: what a two-sided test
// at level alpha finds with the given power from n pairs whose log ratios have
// the standard deviation sdLog,
//
//	exp((t(1-alpha/2) + t(power)) sdLog / sqrt(n 3/pi)) - 1
//
// with quantiles of Student's t of n-1 degrees of freedom. NaN where n < 2 or an
// argument makes no sense.
func MDE(sdLog float64, n int, alpha, power float64) float64 {
	if n < 2 || !(sdLog >= 0) || !(alpha > 0 && alpha < 1) || !(power > 0 && power < 1) {
		return math.NaN()
	}
	if sdLog == 0 {
		return 0
	}
	t := StudentT(n - 1)
	return math.Expm1((t.Quantile(1-alpha/2) + t.Quantile(power)) * sdLog / math.Sqrt(float64(n)*hlEfficiency))
}

// PairsFor returns the smallest number of pairs, at least MinPairs, whose MDE is at most effect (a ratio minus 1).
// One million means that or more; 0 means an invalid argument.
func PairsFor(sdLog, effect, alpha, power float64) int {
	if !(effect > 0) || math.IsNaN(MDE(sdLog, MinPairs, alpha, power)) {
		return 0
	}
	// Normal quantiles are below those of t, so the search starts there.
	z := normalQuantile(1-alpha/2) + normalQuantile(power)
	root := z * sdLog / math.Log1p(effect)
	least := root * root / hlEfficiency
	if !(least < maxPairs) {
		return maxPairs
	}
	n := max(MinPairs, int(least))
	for n < maxPairs && MDE(sdLog, n, alpha, power) > effect {
		n++
	}
	return n
}
