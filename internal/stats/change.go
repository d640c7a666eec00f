package stats

import (
	"math"
)

// ChangeOptions of the search for change points; a zero field has the default named.
type ChangeOptions struct {
	// MaxP is the maximum P value of a change; default 0.001.
	MaxP float64
	// MinRatio is the smallest change that counts, as a ratio minus 1; default 0, any.
	MinRatio float64
	// MinZ is the smallest robust z-score (see Change.Z) that confirms a change;
	// default 3.5. Negative turns this second rule off.
	MinZ float64
}

// Change is a point at which the level of a history changes.
type Change struct {
	// Index is that of the first value after the change.
	Index int
	// Before and After are the medians of the values between the neighbouring
	// changes; Ratio is After divided by Before.
	Before, After, Ratio float64
	// P is the t-test's. Z is the second rule's score: RobustZ of After against
	// the 64 values before the change, in standard errors of a median of as many
	// values as follow it (at most 64). No outlier can make it large. NaN with
	// fewer than 6 values before the change, when this rule has no say.
	P, Z float64
}

// minSegment is the number of values that a change needs before and after it, and
// weakening is the factor on MaxP for proposed splits. Chosen by simulation: two bad
// runs in a row are not a change, and a bulge of ten runs in a hundred is found.
const (
	minSegment = 5
	weakening  = 50
)

// ChangePoints finds where the level of a metric's history changes, in the logarithms
// of its values. E-Divisive (Matteson and James, JASA 109, 2014) splits where the
// energy distance between the two sides is largest, then again within the parts.
// Student's t-test decides instead of random permutations, so the answer is
// deterministic (Fleming et al., "Hunter", ICPE 2023, arXiv 2301.03034). As there,
// splits are first made at a weaker level, 50 times MaxP, to find changes hidden behind
// others; then the weakest are merged until all hold. A change needs 5 values on either
// side. Values that are not positive and finite are left out.
func ChangePoints(x []float64, o ChangeOptions) []Change {
	if o.MaxP <= 0 {
		o.MaxP = 0.001
	}
	if o.MinZ == 0 {
		o.MinZ = 3.5
	}
	var place []int
	var kept []float64
	for i, v := range x {
		if usable(v) {
			place, kept = append(place, i), append(kept, v)
		}
	}
	h := logs(kept)
	cuts := append([]int{0}, split(h, 0, weakening*o.MaxP)...)
	cuts = append(cuts, len(h))
	for {
		worst, all := -1, []Change(nil)
		for i := 1; i < len(cuts)-1; i++ {
			all = append(all, change(kept, h, cuts[i-1], cuts[i], cuts[i+1]))
			if c := all[i-1]; !c.isConfirmed(o) && (worst < 0 || c.P > all[worst].P) {
				worst = i - 1
			}
		}
		if worst < 0 {
			for i := range all {
				all[i].Index = place[all[i].Index]
			}
			return all
		}
		cuts = append(cuts[:worst+1], cuts[worst+2:]...)
	}
}

// isConfirmed reports whether both rules agree and the change is large enough.
func (c Change) isConfirmed(o ChangeOptions) bool {
	return c.P <= o.MaxP && !(math.Abs(c.Z) < o.MinZ) &&
		math.Abs(math.Log(c.Ratio)) >= math.Log1p(max(0, o.MinRatio))
}

// change describes the change at mid of the values x[low:high] with logarithms h.
func change(x, h []float64, low, mid, high int) Change {
	before, after := Median(x[low:mid]), Median(x[mid:high])
	return Change{
		Index: mid, Before: before, After: after, Ratio: after / before,
		P: tTest(h[low:mid], h[mid:high]),
		Z: RobustZ(h[low:mid], Median(h[mid:high])) * math.Sqrt(2/math.Pi*float64(min(recent, high-mid))),
	}
}

// split returns the positions, counted from first, at which h splits into parts that
// differ with a P value of at most maxP.
func split(h []float64, first int, maxP float64) []int {
	at := divide(h)
	if at < 0 || tTest(h[:at], h[at:]) > maxP {
		return nil
	}
	out := append(split(h[:at], first, maxP), first+at)
	return append(out, split(h[at:], first+at, maxP)...)
}

// divide returns the position at which the scaled energy distance between h[:at] and h[at:],
//
//	Q = nm/(n+m) (2 E|X-Y| - E|X-X'| - E|Y-Y'|),
//
// is largest; -1 if h is too short.
func divide(h []float64) int {
	var within, left, across float64 // sums of |x-y| in the right part, the left part and between them
	for i := range h {
		for _, v := range h[i+1:] {
			within += math.Abs(h[i] - v)
		}
	}
	at, best := -1, math.Inf(-1)
	for k := range h {
		if n, m := float64(k), float64(len(h)-k); k >= minSegment && len(h)-k >= minSegment {
			q := n * m / (n + m) * (2*across/(n*m) - 2*left/(n*(n-1)) - 2*within/(m*(m-1)))
			if q > best {
				at, best = k, q
			}
		}
		// h[k] moves from the right part to the left one.
		var toLeft, toRight float64
		for _, v := range h[:k] {
			toLeft += math.Abs(h[k] - v)
		}
		for _, v := range h[k+1:] {
			toRight += math.Abs(h[k] - v)
		}
		left, within, across = left+toLeft, within-toRight, across+toRight-toLeft
	}
	return at
}

// tTest returns the two-sided P value of Student's t-test with pooled variance.
func tTest(x, y []float64) float64 {
	n, m := float64(len(x)), float64(len(y))
	a, b := Deviation(x), Deviation(y)
	pooled := ((n-1)*a*a + (m-1)*b*b) / (n + m - 2)
	difference := math.Abs(Mean(x) - Mean(y))
	if difference == 0 {
		return 1
	}
	t := difference / math.Sqrt(pooled*(1/n+1/m))
	return 2 * StudentT(n+m-2).Survival(t)
}
