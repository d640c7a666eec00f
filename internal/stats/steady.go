package stats

import (
	"fmt"
	"math"
)

// SteadyOptions define steady; a zero field takes the stated default.
type SteadyOptions struct {
	// MaxSlope is the largest rise or fall of the fitted line from end to end, as
	// a share of the mean, beyond what the noise around it explains: 0.01.
	MaxSlope float64
	// MaxDeviation is the largest distance of a window from the mean, as a share
	// of the mean: 0.10.
	MaxDeviation float64
	// MinWindows is the smallest number of windows that can be judged: 6.
	MinWindows int
	// MaxCut is the largest share of the run that may be dropped: 0.5.
	MaxCut float64
}

// Steadiness is where the steady state of a run begins.
type Steadiness struct {
	// Cut is the number of windows to drop from the start.
	Cut int
	OK  bool
	// Slope is the rise of the fitted line from end to end, Deviation the largest
	// distance from the mean, both as shares of the mean, of the accepted windows;
	// if none were, of the last half.
	Slope, Deviation float64
	// MSER is the truncation point of MSER-5, in windows; -1 with fewer than 50 windows, where it would needlessly
	// cut off a quarter.
	MSER int
	// Reason is why there is no steady state.
	Reason string
}

// Steady finds the end of the warm-up in equally long windows of one run. It
// accepts the first suffix, not before the truncation point of MSER-5 and within
// the first half, in which
//
//	|rise of the least-squares line| <= MaxSlope · mean + 2 standard errors
//	max |x-mean| <= MaxDeviation · mean
//
// (the two criteria of fio's steadystate option, here on a suffix instead of the
// last seconds, and with room for noise). A run that has none is not steady, and
// gives no ratio.
func Steady(windows []float64, o SteadyOptions) Steadiness {
	o = o.withDefaults()
	s := Steadiness{Slope: math.NaN(), Deviation: math.NaN(), MSER: -1}
	if len(windows) < o.MinWindows {
		s.Reason = fmt.Sprintf("%d windows are too few to judge: at least %d are needed", len(windows), o.MinWindows)
		return s
	}
	for i, x := range windows {
		if !usable(x) {
			s.Reason = fmt.Sprintf("window %d is %g: a rate or a time is positive", i+1, x)
			return s
		}
	}
	s.MSER = mser5(windows)
	last := int(o.MaxCut * float64(len(windows)))
	for s.Cut = max(0, s.MSER); s.Cut <= last; s.Cut++ {
		var unsure float64
		s.Slope, unsure, s.Deviation = trend(windows[s.Cut:])
		if math.Abs(s.Slope) <= o.MaxSlope+2*unsure && s.Deviation <= o.MaxDeviation {
			s.OK = true
			return s
		}
	}
	s.Cut = 0
	s.Slope, _, s.Deviation = trend(windows[len(windows)/2:])
	s.Reason = fmt.Sprintf("the last half still changes by %+.2g %% and strays up to %.2g %% from its mean",
		100*s.Slope, 100*s.Deviation)
	return s
}

func (o SteadyOptions) withDefaults() SteadyOptions {
	if o.MaxSlope <= 0 {
		o.MaxSlope = 0.01
	}
	if o.MaxDeviation <= 0 {
		o.MaxDeviation = 0.10
	}
	if o.MinWindows <= 0 {
		o.MinWindows = 6
	}
	if o.MaxCut <= 0 || o.MaxCut > 0.5 {
		o.MaxCut = 0.5
	}
	return o
}

// trend returns the rise of the least-squares line through x from end to end with its standard error, and the largest
// distance from the mean, as shares of the mean.
func trend(x []float64) (rise, unsure, deviation float64) {
	m, n := Mean(x), float64(len(x))
	var sxy, sxx, syy float64
	for i, v := range x {
		t, y := float64(i)-(n-1)/2, v/m-1
		sxy += t * y
		sxx += t * t
		syy += y * y
		deviation = max(deviation, math.Abs(y))
	}
	if n < 3 {
		return 0, 0, deviation
	}
	slope := sxy / sxx
	residual := max(0, syy-slope*sxy) / (n - 2)
	return slope * (n - 1), math.Sqrt(residual/sxx) * (n - 1), deviation
}

// mser5 is the truncation point, in windows, that minimizes the squared standard error
// of the remaining mean, searched in the first half over means of 5 windows: min over d
// of sum (z_j - mean)² / (k-d)² (White, Simulation 69, 1997; White, Cobb, Spratt,
// Winter Simulation Conference 2000).
func mser5(windows []float64) int {
	const batch, least = 5, 10
	k := len(windows) / batch
	if k < least {
		return -1
	}
	z := make([]float64, k)
	for i := range z {
		z[i] = Mean(windows[i*batch : (i+1)*batch])
	}
	best, at := math.Inf(1), 0
	for d := 0; d <= k/2; d++ {
		rest := z[d:]
		sd, n := Deviation(rest)/z[k-1], float64(len(rest))
		if e := sd * sd * (n - 1) / (n * n); e < best {
			best, at = e, d
		}
	}
	return at * batch
}
