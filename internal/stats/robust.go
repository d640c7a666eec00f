package stats

import (
	"math"
	"slices"
)

// Median returns the median of x, the mean of the middle two for an even number of values; NaN without values or if
// one is NaN.
func Median(x []float64) float64 {
	if len(x) == 0 || slices.ContainsFunc(x, math.IsNaN) {
		return math.NaN()
	}
	return middle(slices.Sorted(slices.Values(x)))
}

// middle returns the median of sorted values.
func middle(x []float64) float64 {
	n := len(x)
	if n%2 == 1 {
		return x[n/2]
	}
	return x[n/2-1]/2 + x[n/2]/2
}

// Quantile returns the quantile p, from 0 to 1, of one or more sorted values, with linear interpolation (definition 7
// of Hyndman and Fan, The American Statistician 50, 1996). At 0.5 it is the median.
func Quantile(x []float64, p float64) float64 {
	at := p * float64(len(x)-1)
	i := int(at)
	if i+1 >= len(x) {
		return x[len(x)-1]
	}
	return x[i] + (at-float64(i))*(x[i+1]-x[i])
}

// The modified z-scores that justify a note and a warning. Neither is a reason to
// delete a value.
const (
	NoteScore = 3.5
	WarnScore = 10
)

// Flags returns the modified z-score of each value: its distance from the centre of Robust, in scales. Values that
// are not finite get NaN and do not count.
func Flags(x []float64) []float64 {
	finite := slices.DeleteFunc(slices.Clone(x), func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) })
	centre, scale := Robust(finite)
	out := make([]float64, len(x))
	for i, v := range x {
		switch {
		case math.IsNaN(v) || math.IsInf(v, 0):
			out[i] = math.NaN()
		case v != centre:
			out[i] = (v - centre) / scale
		}
	}
	return out
}

// recent is the number of values that RobustZ looks back.
const recent = 64

// RobustZ returns the distance of x from the median of the last 64 values of history, in the standard deviations of
// Robust. NaN with fewer than 6 values; infinite if the history is constant and x differs.
func RobustZ(history []float64, x float64) float64 {
	history = history[max(0, len(history)-recent):]
	if len(history) < MinPairs {
		return math.NaN()
	}
	centre, scale := Robust(history)
	if x == centre {
		return 0
	}
	return (x - centre) / scale
}

// Robust estimates the centre of finite values as their median, and their standard deviation
// as MAD/0.6745, where MAD is the median absolute deviation. If more than half of the values
// are equal (MAD 0), it uses 1.2533 times the mean absolute deviation (Iglewicz and Hoaglin,
// How to Detect and Handle Outliers, 1993).
func Robust(x []float64) (centre, scale float64) {
	centre = Median(x)
	away := make([]float64, len(x))
	sum := 0.0
	for i, v := range x {
		away[i] = math.Abs(v - centre)
		sum += away[i] / float64(len(x))
	}
	if mad := Median(away); mad > 0 {
		return centre, mad / 0.6745
	}
	return centre, 1.253314 * sum
}

// Deviation returns the sample standard deviation; NaN with fewer than two values.
func Deviation(x []float64) float64 { return math.Sqrt(Variance(x)) }

// Variance returns the sample variance; NaN with fewer than two values.
func Variance(x []float64) float64 {
	if len(x) < 2 {
		return math.NaN()
	}
	m, ss := Mean(x), 0.0
	for _, v := range x {
		ss += (v - m) * (v - m)
	}
	return ss / float64(len(x)-1)
}

// Mean returns the arithmetic mean; 0 of no values.
func Mean(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v / float64(len(x))
	}
	return sum
}
