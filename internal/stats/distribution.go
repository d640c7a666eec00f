package stats

import (
	"math"

	"gonum.org/v1/gonum/mathext"
)

// The distributions stand here and not gonum's package distuv: with that one come all of LAPACK and BLAS, 2 MiB of the binary. The
// special functions are gonum's.

// StudentT is Student's t distribution of that many degrees of freedom.
type StudentT float64

// Quantile returns the t that is exceeded with probability 1-p; NaN unless 0 <= p <= 1 and there is a degree of freedom.
//
//	p = 1 - I_x(nu/2, 1/2)/2 with x = nu/(nu + t²), for t > 0 (NIST Handbook of Mathematical Functions, 8.17)
func (nu StudentT) Quantile(p float64) float64 {
	switch {
	case !(p >= 0 && p <= 1) || !(nu > 0):
		return math.NaN()
	case p == 0.5:
		return 0
	case p < 0.5:
		return -nu.upper(p)
	}
	return nu.upper(1 - p)
}

// upper returns the t > 0 that is exceeded with probability tail, below one half.
func (nu StudentT) upper(tail float64) float64 {
	x := mathext.InvRegIncBeta(float64(nu)/2, 0.5, 2*tail)
	return math.Sqrt(float64(nu) * (1 - x) / x)
}

// Survival returns the probability of a value above t; NaN without a degree of freedom.
func (nu StudentT) Survival(t float64) float64 {
	if !(nu > 0) || math.IsNaN(t) {
		return math.NaN()
	}
	if t == 0 {
		return 0.5
	}
	tail := 0.5 * mathext.RegIncBeta(float64(nu)/2, 0.5, float64(nu)/(t*t+float64(nu)))
	if t < 0 {
		return 1 - tail
	}
	return tail
}

// normalQuantile returns the z that a standard normal value exceeds with probability 1-p, 0 <= p <= 1.
func normalQuantile(p float64) float64 { return mathext.NormalQuantile(p) }

// binomialCDF returns the probability of at most k successes, 0 <= k, in n trials of probability p each.
func binomialCDF(n int, p float64, k int) float64 {
	if k >= n {
		return 1
	}
	return mathext.RegIncBeta(float64(n-k), float64(k+1), 1-p)
}
