package report

import (
	"math"

	"github.com/teescope/teescope/internal/metric"
)

// An axis maps values to pixels, linearly or by their logarithm.
type axis struct {
	lo, hi   float64 // of the values
	from, to float64 // of the pixels
	log      bool
}

// most is the largest value on an axis: beyond it sums and ratios overflow.
const most = 1e100

// newAxis returns an axis over all finite values, with a little space at both ends. It is logarithmic if all values
// are positive and the largest is at least ten times the smallest, so every arm stays readable.
func newAxis(values []float64, from, to float64) axis {
	a := axis{lo: math.Inf(1), hi: math.Inf(-1), from: from, to: to}
	for _, v := range values {
		if math.Abs(v) <= most { // false for NaN
			a.lo, a.hi = min(a.lo, v), max(a.hi, v)
		}
	}
	if !finite(a.lo, a.hi) {
		a.lo, a.hi = 0, 1
	}
	if a.lo == a.hi {
		d := math.Abs(a.lo) * 0.05
		if d == 0 {
			d = 1
		}
		a.lo, a.hi = a.lo-d, a.hi+d
	}
	a.log = a.lo > 0 && a.hi/a.lo >= 10
	if a.log {
		room := math.Pow(a.hi/a.lo, 0.06)
		a.lo, a.hi = a.lo/room, a.hi*room
		return a
	}
	room := (a.hi - a.lo) * 0.06
	if a.lo >= 0 && a.lo-room < 0 {
		a.lo, a.hi = 0, a.hi+room
		return a
	}
	a.lo, a.hi = a.lo-room, a.hi+room
	return a
}

// ratioAxis returns a logarithmic axis around 1, over all values and the margin.
func ratioAxis(values []float64, margin, from, to float64) axis {
	a := axis{lo: 1 / (1 + margin), hi: 1 + margin, from: from, to: to, log: true}
	for _, v := range values {
		if v >= 1/most && v <= most {
			a.lo, a.hi = min(a.lo, v), max(a.hi, v)
		}
	}
	room := math.Pow(max(a.hi/a.lo, 1.04), 0.08)
	a.lo, a.hi = a.lo/room, a.hi*room
	return a
}

// at returns the pixel of a value.
func (a axis) at(v float64) float64 {
	lo, hi := a.lo, a.hi
	if a.log {
		lo, hi, v = math.Log(lo), math.Log(hi), math.Log(v)
	}
	return a.from + (v-lo)/(hi-lo)*(a.to-a.from)
}

// in returns the pixel of a value, moved to the end of the axis if it is off.
func (a axis) in(v float64) (px float64, off bool) {
	switch {
	case v < a.lo:
		return a.from, true
	case v > a.hi:
		return a.to, true
	}
	return a.at(v), false
}

// ticks returns at most about n round values.
func (a axis) ticks(n int) []float64 {
	if a.log && a.hi/a.lo >= 3 {
		return a.decades(n)
	}
	step := roundStep((a.hi - a.lo) / float64(max(n, 1)))
	var out []float64
	for i := math.Ceil(a.lo/step - 1e-9); i*step <= a.hi*(1+1e-12)+step*1e-9; i++ {
		out = append(out, i*step)
	}
	return out
}

// ticksOf returns round values of a unit: of bytes, powers of two or round numbers of an IEC prefix.
func (a axis) ticksOf(unit string, n int) []float64 {
	if unit != "bytes" && unit != "bytes_per_second" || a.hi < 1 {
		return a.ticks(n)
	}
	if a.log {
		first, last := max(0, math.Ceil(math.Log2(a.lo))), math.Floor(math.Log2(a.hi))
		step := max(1, math.Ceil((last-first+1)/float64(max(n, 1))))
		var out []float64
		for i := first; i <= last; i += step {
			out = append(out, math.Exp2(i))
		}
		return out
	}
	prefix := math.Pow(1024, math.Floor(math.Log2(a.hi)/10))
	out := axis{lo: a.lo / prefix, hi: a.hi / prefix}.ticks(n)
	for i := range out {
		out[i] *= prefix
	}
	return out
}

func (a axis) decades(n int) []float64 {
	for _, digits := range [][]float64{{1, 1.5, 2, 3, 5, 7}, {1, 2, 5}, {1, 3}, {1}} {
		var out []float64
		for d := math.Floor(math.Log10(a.lo)); d <= math.Log10(a.hi); d++ {
			for _, m := range digits {
				if v := m * math.Pow(10, d); v >= a.lo && v <= a.hi {
					out = append(out, v)
				}
			}
		}
		if len(out) <= n || len(digits) == 1 {
			return every(out, (len(out)+n-1)/max(n, 1))
		}
	}
	return nil
}

func every(v []float64, k int) []float64 {
	var out []float64
	for i := 0; i < len(v); i += max(k, 1) {
		out = append(out, v[i])
	}
	return out
}

// roundStep returns the next of 1, 2, 2.5 and 5 times a power of ten.
func roundStep(v float64) float64 {
	p := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 2.5, 5} {
		if v <= m*p*(1+1e-9) {
			return m * p
		}
	}
	return 10 * p
}

// gridX draws an axis below an area: lines, labels and title.
func (s *scene) gridX(a axis, top, bottom float64, ticks []float64, label func(float64) string, title string) {
	last := math.Inf(-1)
	for _, v := range ticks {
		x := a.at(v)
		s.line(x, top, x, bottom, 1, line)
		t := label(v)
		w := width(t, small)
		c := min(max(x, w/2), s.w-w/2)
		if c-w/2 < last+8 {
			continue
		}
		s.words(c, bottom+15, middle, small, dim, t)
		last = c + w/2
	}
	s.line(min(a.from, a.to), bottom, max(a.from, a.to), bottom, 1, lineBold)
	if title != "" {
		s.words((a.from+a.to)/2, bottom+32, middle, small, dim, fit(title, small, s.w))
	}
}

// gridY draws an axis at the left of an area.
func (s *scene) gridY(a axis, left, right float64, ticks []float64, label func(float64) string) {
	for _, v := range ticks {
		y := a.at(v)
		s.line(left, y, right, y, 1, line)
		s.words(left-6, y+4, end, small, dim, label(v))
	}
}

// valueLabels prints ticks of a unit; words of a unit are left to the title.
func valueLabels(unit string) func(float64) string {
	if metric.UnitWords(unit) != "" {
		unit = ""
	}
	return func(v float64) string { return metric.Value(v, unit) }
}

// titled returns an axis' title, with the unit that its ticks leave out.
func titled(label, unit string) string {
	if w := metric.UnitWords(unit); w != "" {
		return label + " (" + w + ")"
	}
	return label
}

// ratioLabels prints ticks of a ratio: near 1 as a change, otherwise as a factor.
func ratioLabels(a axis) func(float64) string {
	if a.lo > 0.6 && a.hi < 1.6 {
		return func(v float64) string {
			if math.Abs(v-1) < 1e-9 {
				return "same"
			}
			return metric.Change(v)
		}
	}
	return factor
}
