package stats

import (
	"math"
	"slices"
)

// Median of x: for an even number of values the mean of the middle two; NaN without
// values or if one is NaN.
func Median(x []float64) float64 {
	if len(x) == 0 || slices.ContainsFunc(x, math.IsNaN) {
		return math.NaN()
	}
	return middle(slices.Sorted(slices.Values(x)))
}

// middle is the median of sorted values.
func middle(x []float64) float64 {
	n := len(x)
	if n%2 == 1 {
		return x[n/2]
	}
	return x[n/2-1]/2 + x[n/2]/2
}

// The modified z-scores that justify a note and a warning. Neither is a reason to
// delete a value.
const (
	NoteScore = 3.5
	WarnScore = 10
)

// Flags returns the modified z-score of each value, 0.6745 (x-median)/MAD, where MAD is
// the median absolute deviation. If more than half of the values are equal (MAD 0), it
// uses the mean absolute deviation: (x-median)/(1.2533 MeanAD) (Iglewicz and Hoaglin,
// How to Detect and Handle Outliers, 1993). Values that are not finite get NaN and do
// not count.
func Flags(x []float64) []float64 {
	finite := slices.DeleteFunc(slices.Clone(x), func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) })
	centre, scale := robust(finite)
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

// recent is how many values RobustZ looks back.
const recent = 64

// RobustZ is the distance of x from the median of the last 64 values of history, in
// standard deviations estimated as in Flags. NaN with fewer than 6 values; infinite if
// the history is constant and x differs.
func RobustZ(history []float64, x float64) float64 {
	history = history[max(0, len(history)-recent):]
	if len(history) < MinPairs {
		return math.NaN()
	}
	centre, scale := robust(history)
	if x == centre {
		return 0
	}
	return (x - centre) / scale
}

// robust estimates the centre and the standard deviation of finite values.
func robust(x []float64) (centre, scale float64) {
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

// deviation is the sample standard deviation; NaN of fewer than two values.
func deviation(x []float64) float64 {
	if len(x) < 2 {
		return math.NaN()
	}
	m, ss := mean(x), 0.0
	for _, v := range x {
		ss += (v - m) * (v - m)
	}
	return math.Sqrt(ss / float64(len(x)-1))
}

func mean(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v / float64(len(x))
	}
	return sum
}
