package stats

import (
	"math"
	"slices"
)

// exactLimit is the largest sample whose null distribution is counted; above it the
// normal approximation is accurate to three digits.
const exactLimit = 50

// contrasts are the pairwise means of one sample (Walsh averages) or the
// pairwise differences of two, which a rank test orders around a value. They
// are counted and selected, never stored: there are n² of them.
type contrasts struct {
	unit     string // what is counted: pairs, or runs
	size     int
	min, max float64
	// atMost counts the contrasts not above v.
	atMost func(v float64) int
	null   null
}

// HodgesLehmann returns the estimate of the centre of d: the median of all means (d_i+d_j)/2, i <= j; NaN without
// values.
func HodgesLehmann(d []float64) float64 {
	if len(d) == 0 {
		return math.NaN()
	}
	return means(d).median()
}

// walsh returns the means of d with their order: as many of them are above v as the signed-rank statistic of d-v has
// (Tukey), so its null distribution orders them.
func walsh(d []float64) contrasts {
	c := means(d)
	c.null = signedRank(len(d))
	return c
}

// means returns the Walsh averages (d_i+d_j)/2, i <= j, of at least one value.
func means(d []float64) contrasts {
	d = slices.Sorted(slices.Values(d))
	n := len(d)
	return contrasts{
		unit: "pairs", size: n * (n + 1) / 2, min: d[0], max: d[n-1],
		atMost: func(v float64) int {
			count, j := 0, n-1
			for i := 0; i <= j; i++ {
				for j >= i && d[i]/2+d[j]/2 > v {
					j--
				}
				count += j - i + 1
			}
			return count
		},
	}
}

// shifts returns the differences y_j-x_i, ordered by the Mann-Whitney statistic.
func shifts(x, y []float64) contrasts {
	x, y = slices.Sorted(slices.Values(x)), slices.Sorted(slices.Values(y))
	n, m := len(x), len(y)
	return contrasts{
		unit: "runs per arm", size: n * m, min: y[0] - x[n-1], max: y[m-1] - x[0], null: mannWhitney(n, m),
		atMost: func(v float64) int {
			count, j := 0, 0
			for i := range x {
				for j < m && y[j]-x[i] <= v {
					j++
				}
				count += j
			}
			return count
		},
	}
}

// kth returns the k-th smallest contrast, k from 1: the least number that k of them do not exceed. It halves the
// range of representable numbers.
func (c contrasts) kth(k int) float64 {
	low, high := ordinal(c.min), ordinal(c.max)
	for low < high {
		mid := low + (high-low)/2
		if c.atMost(number(mid)) >= k {
			high = mid
		} else {
			low = mid + 1
		}
	}
	return number(low)
}

// ordinal numbers the finite floats in their order.
func ordinal(x float64) uint64 {
	b := math.Float64bits(x + 0) // -0 and 0 are one number
	if b>>63 != 0 {
		return ^b
	}
	return b | 1<<63
}

// number is the inverse of ordinal.
func number(o uint64) float64 {
	if o>>63 != 0 {
		return math.Float64frombits(o &^ (1 << 63))
	}
	return math.Float64frombits(^o)
}

// median returns the Hodges-Lehmann estimate.
func (c contrasts) median() float64 {
	return c.kth((c.size+1)/2)/2 + c.kth(c.size/2+1)/2
}

// interval returns the narrowest pair of order statistics with at least the given confidence, and the confidence it
// attains. ok is false if even the outermost two are too narrow. With k = 1 + max{t : 2 P(T <= t) <= alpha} the ends
// are the k-th smallest and the k-th largest.
func (c contrasts) interval(confidence float64) (low, high, attained float64, ok bool) {
	k := min(c.null.critical((1-confidence)/2)+1, (c.size+1)/2)
	if k < 1 {
		return math.NaN(), math.NaN(), math.NaN(), false
	}
	return c.kth(k), c.kth(c.size + 1 - k), 1 - 2*c.null.cdf(k-1), true
}

// upper returns the one-sided P value against "the centre is at most v": the probability of a statistic as large as
// the number of contrasts above v. Contrasts equal to v (zeros and ties) count against a difference, so P is the
// largest over all ways of breaking the ties, and agrees with the interval.
func (c contrasts) upper(v float64) float64 { return c.null.cdf(c.atMost(v)) }

// lower is the mirror of upper.
func (c contrasts) lower(v float64) float64 {
	return c.null.cdf(c.size - c.atMost(math.Nextafter(v, math.Inf(-1))))
}

// twoSided returns the P value of "the centre is v".
func (c contrasts) twoSided(v float64) float64 { return min(1, 2*min(c.upper(v), c.lower(v))) }

// null is the distribution, symmetric on 0..max, of a rank statistic when there
// is no difference.
type null struct {
	max int
	cdf func(t int) float64
}

// critical returns the largest t with P(T <= t) <= p; -1 if there is none.
func (n null) critical(p float64) int {
	// A little slack lets floating point reach a level that is attained exactly.
	p *= 1 + 1e-12
	low, high := -1, n.max
	for low < high {
		mid := (low + high + 1) / 2
		if n.cdf(mid) <= p {
			low = mid
		} else {
			high = mid - 1
		}
	}
	return low
}

// signedRank is the null distribution of the sum of the ranks 1..n whose sign is
// positive, each with chance 1/2: the coefficients of the product of (1+x^i)/2.
func signedRank(n int) null {
	total := n * (n + 1) / 2
	if n > exactLimit {
		return normal(total, float64(total)/2, math.Sqrt(float64(total)*float64(2*n+1)/12))
	}
	p := make([]float64, total+1)
	p[0] = 1
	for i, top := 1, 0; i <= n; i++ {
		top += i
		for t := top; t >= 0; t-- {
			p[t] /= 2
			if t >= i {
				p[t] += p[t-i] / 2
			}
		}
	}
	return counted(p)
}

// mannWhitney is the null distribution of the number of pairs (i, j) with
// x_i < y_j. The largest of all values is a y with chance m/(n+m), and then
// exceeds all n: p(n,m,u) = m/(n+m) p(n,m-1,u-n) + n/(n+m) p(n-1,m,u)
// (Mann and Whitney, Ann. Math. Stat. 18, 1947).
func mannWhitney(n, m int) null {
	if n > exactLimit || m > exactLimit {
		nm := float64(n) * float64(m)
		return normal(n*m, nm/2, math.Sqrt(nm*float64(n+m+1)/12))
	}
	row := make([][]float64, m+1) // row[j] is p(i, j, ·)
	for j := range row {
		row[j] = []float64{1}
	}
	for i := 1; i <= n; i++ {
		for j := 1; j <= m; j++ {
			next := make([]float64, i*j+1)
			y := float64(j) / float64(i+j)
			for u, p := range row[j-1] {
				next[u+i] += y * p
			}
			for u, p := range row[j] {
				next[u] += (1 - y) * p
			}
			row[j] = next
		}
	}
	return counted(row[m])
}

// counted is a distribution given by its probabilities.
func counted(p []float64) null {
	sum := make([]float64, len(p))
	total := 0.0
	for t := range p {
		total += p[t]
		sum[t] = min(1, total)
	}
	return null{len(p) - 1, func(t int) float64 {
		if t < 0 {
			return 0
		}
		return sum[min(t, len(sum)-1)]
	}}
}

// normal approximates a distribution on 0..max, with continuity correction.
func normal(max int, mean, sd float64) null {
	return null{max, func(t int) float64 {
		switch {
		case t < 0:
			return 0
		case t >= max:
			return 1
		}
		return math.Erfc((mean-0.5-float64(t))/(sd*math.Sqrt2)) / 2
	}}
}
