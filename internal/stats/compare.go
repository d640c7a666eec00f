package stats

import (
	"fmt"
	"math"
)

// MinPairs is the smallest number of pairs (or of runs in either arm) that may give a
// verdict: with 5 pairs the signed-rank test cannot go below 1/16 = 6.25 % two-sided;
// with 6 it reaches 1/32 = 3.1 %.
const MinPairs = 6

// Options of a comparison.
type Options struct {
	// Margin is the smallest cost that matters, as a ratio minus 1 (0.03 is 3 %).
	// It reaches from 1/(1+Margin) to 1+Margin.
	Margin float64
	// Confidence of the interval; 0 stands for 0.95.
	Confidence float64
	// Better is -1 if lower values are better, +1 if higher ones are, and 0 if the
	// metric is only descriptive (then there is neither cost nor gain).
	Better int8
	// Seed of the bootstrap. The same seed and values give the same answer.
	Seed uint64
	// NoiseFloor is the largest difference, as a ratio minus 1, that identical arms
	// have shown on this host; 0 without an A/A run.
	NoiseFloor float64
}

// Comparison is a treatment against a baseline. NaN means unavailable; Reasons then
// says why.
type Comparison struct {
	// Ratio is treatment divided by baseline, of the values as measured: the
	// exponential of the Hodges-Lehmann estimate on logarithms.
	Ratio float64
	// Low and High are the ends of the rank interval of Ratio. Confidence is what the
	// interval attains, at least the requested one.
	Low, High, Confidence float64
	// BootLow and BootHigh are the bootstrap interval of the ratio of medians, the
	// second opinion.
	BootLow, BootHigh float64
	// EqLow and EqHigh are the 90 % rank interval, equivalent to two one-sided tests at
	// 5 %.
	EqLow, EqHigh           float64
	BaseMedian, TreatMedian float64
	// SDLog is the standard deviation of the log ratio of a pair; of unpaired
	// arms, of the difference of one run of each.
	SDLog float64
	// MDE is the smallest effect, as a ratio minus 1, that this many pairs would detect
	// with 80 % power.
	MDE float64
	// P is the two-sided P value of "the ratio is 1"; PMargin that of "the ratio
	// lies within the margin", twice the one-sided value at the nearer edge.
	P, PMargin float64
	// Pairs that were compared; of unpaired arms, the runs of the smaller one.
	Pairs int
	// Needed is the number of pairs that would probably decide an inconclusive comparison: that
	// find a difference as large as the margin with 80 % power, or the least that can have a
	// verdict. 0 if nothing is open, no margin is given, or the noise floor is what blocks.
	Needed  int
	Verdict Verdict
	// Material: the whole interval of a cost or gain lies beyond the margin.
	Material  bool
	Estimator string
	Reasons   []string
}

// Cost inverts the ratio and its interval if needed so that above 1 is worse, with
// Better as in Options: 1.25 takes 25 % more time, or does the same work in 1.25 times
// the time. All are NaN if better is 0.
func (c Comparison) Cost(better int8) (point, low, high float64) {
	switch {
	case better < 0:
		return c.Ratio, c.Low, c.High
	case better > 0:
		return 1 / c.Ratio, 1 / c.High, 1 / c.Low
	}
	return math.NaN(), math.NaN(), math.NaN()
}

// Paired compares arms that ran in pairs: base[i] and treat[i] ran next to each other
// in random order, so slow drift is the same in both and leaves d_i =
// ln(treat_i/base_i). The estimate is the median of all (d_i+d_j)/2, i <= j (Hodges and
// Lehmann, Ann. Math. Stat. 34, 1963). The interval consists of order statistics of the
// same means, by the exact signed-rank distribution up to 50 pairs (Hollander, Wolfe,
// Chicken, Nonparametric Statistical Methods, 3.1-3.3). It assumes that the d_i are
// independent and symmetric about one centre. Equal values and ties need no correction:
// they can only widen the interval.
func Paired(base, treat []float64, o Options) Comparison {
	c := blank(base, treat)
	if len(base) != len(treat) {
		c.Pairs = 0
		return c.refuse(fmt.Sprintf("%d baseline and %d treatment values do not make pairs", len(base), len(treat)))
	}
	if why := invalid(base, treat); why != "" {
		return c.refuse(why)
	}
	d := make([]float64, len(base))
	for i := range d {
		d[i] = math.Log(treat[i]) - math.Log(base[i])
	}
	c.SDLog = Deviation(d)
	c.Estimator = "hodges-lehmann-signed-rank"
	return c.conclude(walsh(d), pairBoot(base, treat, o.Seed), o)
}

// Unpaired compares arms whose runs do not belong together: separate results, or
// separate hosts. The estimate is the median of all differences of logarithms
// ln(treat_j)-ln(base_i); the interval inverts the Mann-Whitney test, exact up to 50
// runs per arm (Hollander, Wolfe, Chicken, 4.1-4.3). It assumes that nothing drifts
// between the arms, which cannot be checked afterwards: such a ratio is a platform
// difference, not overhead.
func Unpaired(base, treat []float64, o Options) Comparison {
	c := blank(base, treat)
	if why := invalid(base, treat); why != "" {
		return c.refuse(why)
	}
	lb, lt := logs(base), logs(treat)
	c.SDLog = math.Hypot(Deviation(lb), Deviation(lt))
	c.Estimator = "hodges-lehmann-mann-whitney"
	return c.conclude(shifts(lb, lt), armBoot(base, treat, o.Seed), o)
}

// blank returns a comparison with only the medians known.
func blank(base, treat []float64) Comparison {
	nan := math.NaN()
	return Comparison{Ratio: nan, Low: nan, High: nan, Confidence: nan, BootLow: nan, BootHigh: nan,
		EqLow: nan, EqHigh: nan, BaseMedian: Median(base), TreatMedian: Median(treat), SDLog: nan, MDE: nan,
		P: nan, PMargin: nan, Pairs: min(len(base), len(treat)), Verdict: Inconclusive}
}

// refuse returns the comparison without a ratio.
func (c Comparison) refuse(why string) Comparison {
	c.Reasons = append(c.Reasons, why)
	return c
}

// invalid says why values have no log ratio; "" if they have one.
func invalid(base, treat []float64) string {
	if len(base) == 0 || len(treat) == 0 {
		return "there are no values to compare"
	}
	for i, x := range base {
		if !usable(x) {
			return fmt.Sprintf("value no. %d of the baseline is %g: a ratio needs finite values above 0", i+1, x)
		}
	}
	for i, x := range treat {
		if !usable(x) {
			return fmt.Sprintf("value no. %d of the other arm is %g: a ratio needs finite values above 0", i+1, x)
		}
	}
	return ""
}

// usable reports whether x has a logarithm.
func usable(x float64) bool { return x > 0 && !math.IsInf(x, 1) }

func logs(x []float64) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = math.Log(v)
	}
	return out
}
