package stats

import (
	"fmt"
	"math"
	"slices"
)

// Bimodality is whether the runs of one arm fall into two groups.
type Bimodality struct {
	Two bool
	// Low and High are the medians of the two groups; NaN if there is one group.
	Low, High float64
	// Reason names the test that found two groups, or why no test was possible.
	Reason string
}

// minModes is the smallest sample in which two groups can be distinguished from chance,
// and minGroup the smallest group.
const (
	minModes = 8
	minGroup = 3
)

// gapLimit is the width of the widest gap, in pooled standard deviations of the groups
// next to it, that makes two groups. By simulation, normal samples of 8 values stay
// below it in 99.4 of 100 cases, larger ones more often.
const gapLimit = 5

// Modes looks for two groups of runs, by two tests. A gap that is wide relative to the
// spread within the groups next to it (each of at least 3 runs and a fifth of all)
// finds few runs far apart. The dip test at 1 % (Hartigan and Hartigan, Ann. Statist.
// 13, 1985) finds many runs that overlap. The mean of two modes describes no run.
func Modes(x []float64) Bimodality {
	b := Bimodality{Low: math.NaN(), High: math.NaN()}
	if slices.ContainsFunc(x, func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) }) {
		b.Reason = "a value is not finite"
		return b
	}
	if len(x) < minModes {
		b.Reason = fmt.Sprintf("%d values are too few to distinguish one group from two: at least %d are needed", len(x), minModes)
		return b
	}
	x = slices.Sorted(slices.Values(x))
	at, width := gap(x)
	d, limit := dip(x), dipLimit(len(x))
	switch {
	case width > gapLimit:
		b.Reason = fmt.Sprintf("a gap of %.2g standard deviations between two groups of %d and %d runs", width, at, len(x)-at)
	case d > limit:
		b.Reason = fmt.Sprintf("dip test: %.3f, of one group at most %.3f", d, limit)
	default:
		return b
	}
	b.Two, b.Low, b.High = true, middle(x[:at]), middle(x[at:])
	return b
}

// gap returns the position and the relative width of the widest gap between two groups of sorted values.
func gap(x []float64) (at int, width float64) {
	least := max(minGroup, len(x)/5)
	at = least
	for i := least; i <= len(x)-least; i++ {
		if x[i]-x[i-1] > x[at]-x[at-1] {
			at = i
		}
	}
	a, b := Deviation(x[:at]), Deviation(x[at:])
	n, m := float64(at), float64(len(x)-at)
	within := math.Sqrt(((n-1)*a*a + (m-1)*b*b) / (n + m - 2))
	if wide := x[at] - x[at-1]; wide > 0 {
		return at, wide / within
	}
	return at, 0
}

// dip is the largest distance between the empirical distribution of the sorted x and
// the nearest unimodal one. The modal interval lies between the greatest convex
// minorant from the left and the least concave majorant from the right. It shrinks to
// where the two are farthest apart, until that distance is no larger than the one
// outside it (the algorithm of the paper, in steps of 1/n).
func dip(x []float64) float64 {
	low, high, found := 0, len(x)-1, 1.0
	for {
		below, touchBelow := hull(x[low:high+1], low, 1)
		above, touchAbove := hull(x[low:high+1], low+1, -1)
		at, apart := 0, 0.0
		for i := range below {
			if d := above[i] - below[i]; d > apart {
				at, apart = i, d
			}
		}
		if apart <= found {
			break
		}
		left, right := at, at
		for !touchBelow[left] {
			left--
		}
		for !touchAbove[right] {
			right++
		}
		for i := range left + 1 {
			found = max(found, float64(low+i+1)-below[i])
		}
		for i := right; i < len(above); i++ {
			found = max(found, above[i]-float64(low+i))
		}
		if left == 0 && right == len(below)-1 {
			break
		}
		low, high = low+left, low+right
	}
	return found / float64(2*len(x))
}

// hull is the greatest convex minorant (sign 1) or least concave majorant (sign
// -1) of the points (x[i], first+i), as its values at each x and whether it
// touches the point.
func hull(x []float64, first int, sign float64) (value []float64, touch []bool) {
	corner := []int{0}
	for i := 1; i < len(x); i++ {
		for len(corner) > 1 {
			a, b := corner[len(corner)-2], corner[len(corner)-1]
			// b stays a corner if the slope up to it is smaller than the slope after
			// it.
			if sign*(float64(b-a)*(x[i]-x[b])-float64(i-b)*(x[b]-x[a])) < 0 {
				break
			}
			corner = corner[:len(corner)-1]
		}
		corner = append(corner, i)
	}
	value, touch = make([]float64, len(x)), make([]bool, len(x))
	for k, b := range corner {
		value[b], touch[b] = float64(first+b), true
		if k == 0 {
			continue
		}
		a := corner[k-1]
		for i := a + 1; i < b; i++ {
			value[i] = float64(first + a)
			if x[b] > x[a] {
				value[i] += float64(b-a) * (x[i] - x[a]) / (x[b] - x[a])
			}
		}
	}
	return value, touch
}

// dipLimits are the 99 % points of dip·sqrt(n) for uniform values, the unimodal
// distribution that is hardest to distinguish from two modes, by simulation; they agree
// with the table of R's diptest (Maechler).
var dipLimits = []struct{ n, limit float64 }{
	{8, 0.489}, {10, 0.505}, {15, 0.527}, {20, 0.539}, {30, 0.556}, {50, 0.574}, {100, 0.590}, {200, 0.604}, {1000, 0.620},
}

// dipLimit interpolates dipLimits in log n.
func dipLimit(n int) float64 {
	x, last := float64(n), len(dipLimits)-1
	root := math.Sqrt(x)
	if x >= dipLimits[last].n {
		return dipLimits[last].limit / root
	}
	i := 0
	for dipLimits[i+1].n <= x {
		i++
	}
	a, b := dipLimits[i], dipLimits[i+1]
	return (a.limit + (b.limit-a.limit)*math.Log(x/a.n)/math.Log(b.n/a.n)) / root
}
