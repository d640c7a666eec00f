package stats

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Setting is a value of a parameter and its measurement: Y from Pairs pairs of runs.
type Setting struct {
	X, Y  float64
	Pairs int
}

// Prediction is the value of a curve through measured settings at another setting.
type Prediction struct {
	// Curve is the chosen curve: "y = a + b x" or "y = a x^b".
	Curve string
	// Value and its prediction interval.
	Value, Low, High, Confidence float64
	// Error is the curve's error at a setting left out of its fit: the root mean square
	// of the logarithms of the ratios, as a ratio minus 1.
	Error float64
	// Beyond: the setting lies outside the measured ones.
	Beyond bool
}

// minSettings is the smallest number of settings that can show a curve: two determine
// the curve, and two show how well it fits.
const minSettings = 4

// beyond is how far outside the measured settings a prediction may be, as a share of
// their span.
const beyond = 0.5

// curve is a straight line of transformed values.
type curve struct {
	name    string
	in, out func(float64) float64
	back    func(float64) float64
	// relative: the transformed values scatter in proportion to their size; otherwise
	// equally everywhere.
	relative bool
}

// curves are for values whose scatter is proportional to their size, as for ratios:
// around a line that rises from 1 to 4, the scatter is four times as wide at the end,
// and one width for all would cover seven of ten further measurements there.
var curves = []curve{
	{"y = a + b x", identity, identity, identity, true},
	{"y = a x^b", math.Log, math.Log, math.Exp, false},
}

func identity(x float64) float64 { return x }

// Predict predicts the value at a setting that was not measured, with an interval that
// contains a further measurement there with the given confidence (Student's t; Draper
// and Smith, Applied Regression Analysis, 1.4). The curve is a line or a power law,
// weighted by the pairs behind each setting: the one that better predicts the measured
// settings, each left out in turn. The interval covers the scatter around the curve,
// which is proportional to the value. It cannot know whether the curve bends elsewhere,
// so settings more than half the measured span outside it are refused, and so are fewer
// than 4 settings.
func Predict(settings []Setting, x, confidence float64) (Prediction, error) {
	settings = slices.SortedFunc(slices.Values(settings), func(a, b Setting) int { return cmp.Compare(a.X, b.X) })
	for i, s := range settings {
		if math.IsNaN(s.X) || math.IsInf(s.X, 0) || !usable(s.Y) || s.Pairs < 1 {
			return Prediction{}, fmt.Errorf("setting %v with %v from %d pairs: want a number, a value above 0, and at least one pair", s.X, s.Y, s.Pairs)
		}
		if i > 0 && s.X == settings[i-1].X {
			return Prediction{}, fmt.Errorf("setting %v is there twice", s.X)
		}
	}
	if len(settings) < minSettings {
		return Prediction{}, fmt.Errorf("%d settings: a curve needs at least %d", len(settings), minSettings)
	}
	low, high := settings[0].X, settings[len(settings)-1].X
	if room := beyond * (high - low); !isNearSettings(x, low, high) {
		return Prediction{}, fmt.Errorf("setting %v is too far outside the measured range, %v to %v: want %v to %v", x, low, high, low-room, high+room)
	}
	best := Prediction{Error: math.Inf(1)}
	for _, c := range curves {
		if !isNearSettings(c.in(x), c.in(low), c.in(high)) {
			continue // a power law needs settings above 0, and not too close to it
		}
		p := c.predict(settings, x, confidence)
		if !usable(p.Value) {
			continue // the line falls below 0 there
		}
		if p.Error = c.leftOut(settings); p.Error < best.Error {
			best = p
		}
	}
	if math.IsInf(best.Error, 1) {
		return best, fmt.Errorf("no curve fits: each falls to 0 or below within the measured range or at %v", x)
	}
	best.Error = math.Expm1(best.Error)
	best.Beyond = x < low || x > high
	return best, nil
}

// isNearSettings reports whether x is not too far outside the settings from low to high.
func isNearSettings(x, low, high float64) bool {
	room := beyond * (high - low)
	return x >= low-room && x <= high+room
}

// line is out(y) = a + b in(x), by least squares with the pairs as weights.
type line struct {
	a, b         float64
	x, sxx, sum  float64 // weighted mean and squares of in(x), and the sum of weights
	spread, mean float64 // residual standard deviation of a setting of weight 1; the mean number of pairs
}

func (c curve) fit(settings []Setting) line {
	weights := make([]float64, len(settings))
	mean := 0.0
	for i, s := range settings {
		weights[i] = float64(s.Pairs)
		mean += weights[i] / float64(len(settings))
	}
	l := c.weighted(settings, weights)
	if c.relative {
		for range reweighted {
			for i, s := range settings {
				size := max(l.a+l.b*c.in(s.X), c.out(s.Y)/10) // a fit may fall to 0
				weights[i] = float64(s.Pairs) / (size * size)
			}
			l = c.weighted(settings, weights)
		}
	}
	l.mean = mean
	return l
}

// reweighted is how often the sizes behind the weights are recomputed from the fit
// (iteratively reweighted least squares; a third time changes almost nothing).
const reweighted = 3

func (c curve) weighted(settings []Setting, weights []float64) line {
	var l line
	var y float64
	for _, w := range weights {
		l.sum += w
	}
	for i, s := range settings {
		w := weights[i] / l.sum
		l.x += w * c.in(s.X)
		y += w * c.out(s.Y)
	}
	var sxy, squares float64
	for i, s := range settings {
		d := c.in(s.X) - l.x
		l.sxx += weights[i] * d * d
		sxy += weights[i] * d * (c.out(s.Y) - y)
	}
	l.b = sxy / l.sxx
	l.a = y - l.b*l.x
	for i, s := range settings {
		r := c.out(s.Y) - l.a - l.b*c.in(s.X)
		squares += weights[i] * r * r
	}
	l.spread = math.Sqrt(squares / float64(len(settings)-2))
	return l
}

// predict assumes that the further setting is measured with the mean number of pairs of
// the others.
func (c curve) predict(settings []Setting, x, confidence float64) Prediction {
	l := c.fit(settings)
	at := l.a + l.b*c.in(x)
	d := c.in(x) - l.x
	t := StudentT(len(settings) - 2).Quantile((1 + confidence) / 2)
	size := 1.0
	if c.relative {
		size = at
	}
	half := t * l.spread * math.Sqrt(size*size/l.mean+1/l.sum+d*d/l.sxx)
	return Prediction{Curve: c.name, Value: c.back(at), Low: c.back(at - half), High: c.back(at + half), Confidence: confidence}
}

// leftOut returns the root mean square of the logarithms of prediction over measurement for each setting, predicted
// from the others; infinite if a prediction is not above 0.
func (c curve) leftOut(settings []Setting) float64 {
	squares := 0.0
	for i, s := range settings {
		l := c.fit(slices.Concat(settings[:i], settings[i+1:]))
		v := c.back(l.a + l.b*c.in(s.X))
		if !usable(v) {
			return math.Inf(1)
		}
		r := math.Log(v / s.Y)
		squares += r * r / float64(len(settings))
	}
	return math.Sqrt(squares)
}

// RankCorrelation is Spearman's rho of two series of equal length, with mean ranks for
// ties, and its two-sided P value: exact from all orders for up to 8 values, from
// Student's t beyond (Kendall and Gibbons, Rank Correlation Methods, 1990). NaN with
// fewer than 4 values, or if one series is constant.
func RankCorrelation(x, y []float64) (rho, p float64) {
	if len(x) != len(y) || len(x) < minSettings {
		return math.NaN(), math.NaN()
	}
	a, b := ranks(x), ranks(y)
	rho = correlation(a, b)
	if math.IsNaN(rho) {
		return rho, rho
	}
	n := len(x)
	if n > 8 {
		t := math.Abs(rho) * math.Sqrt(float64(n-2)/max(1-rho*rho, 1e-12))
		return rho, 2 * StudentT(n-2).Survival(t)
	}
	all, extreme := 0, 0
	permute(b, 0, func(order []float64) {
		all++
		if math.Abs(correlation(a, order)) >= math.Abs(rho)-1e-12 {
			extreme++
		}
	})
	return rho, float64(extreme) / float64(all)
}

// ranks returns ranks from 1; ties share their mean.
func ranks(x []float64) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		below, equal := 0, 0
		for _, u := range x {
			if u < v {
				below++
			}
			if u == v {
				equal++
			}
		}
		out[i] = float64(below) + float64(equal+1)/2
	}
	return out
}

// correlation returns Pearson's correlation.
func correlation(x, y []float64) float64 {
	mx, my := Mean(x), Mean(y)
	var xx, yy, xy float64
	for i := range x {
		dx, dy := x[i]-mx, y[i]-my
		xx, yy, xy = xx+dx*dx, yy+dy*dy, xy+dx*dy
	}
	return xy / math.Sqrt(xx*yy)
}

// permute calls f with every permutation of x.
func permute(x []float64, from int, f func([]float64)) {
	if from == len(x) {
		f(x)
		return
	}
	for i := from; i < len(x); i++ {
		x[from], x[i] = x[i], x[from]
		permute(x, from+1, f)
		x[from], x[i] = x[i], x[from]
	}
}
