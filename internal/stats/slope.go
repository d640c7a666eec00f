package stats

import (
	"errors"
	"fmt"
	"math"
)

// Slope is how much y grows per unit of x.
type Slope struct {
	Value, Low, High float64
	Windows          int
}

// The limits of RegressionSlope.
const (
	// leastFreedom is the smallest number of windows beyond the fitted parameters.
	leastFreedom = 8
	// leastVariation is the smallest standard deviation of x, relative to its mean.
	leastVariation = 0.1
	// mostInflation is the largest variance inflation factor: how much the correlation of x with the other columns
	// may multiply the variance of its slope (O'Brien, Quality & Quantity 41, 2007).
	mostInflation = 5
	// rest is the remainder, relative to its length, below which a column counts as a combination of others.
	rest = 1e-6
)

// RegressionSlope returns the slope of y on x, given the others, by least squares over windows. The interval is
// Student's, widened if neighbouring values of both x and the residuals are correlated (Bartlett's effective number
// of observations). It fails if there are too few windows, if x hardly varies or varies with the others, and if the
// interval contains 0.
func RegressionSlope(y, x []float64, others [][]float64, confidence float64) (Slope, error) {
	n := len(y)
	basis := [][]float64{ones(n)}
	for _, o := range others {
		// A column that is a sum of earlier ones adds nothing.
		if left := orthogonal(o, basis); length(left) > rest*length(o) {
			basis = append(basis, left)
		}
	}
	freedom := float64(n - len(basis) - 1)
	if len(x) != n || freedom < leastFreedom {
		return Slope{}, fmt.Errorf("%d windows are too few, at least %d are needed", n, leastFreedom+len(basis)+1)
	}
	alone := orthogonal(x, basis[:1])
	if variation := length(alone) / math.Sqrt(float64(n-1)) / math.Abs(Mean(x)); !(variation >= leastVariation) {
		return Slope{}, errors.New("their number hardly varies")
	}
	dx, dy := orthogonal(x, basis), orthogonal(y, basis)
	if square(length(alone)) > mostInflation*square(length(dx)) {
		return Slope{}, errors.New("their rate rises and falls with that of other events (collinear)")
	}
	s := Slope{Value: dot(dx, dy) / square(length(dx)), Windows: n}
	residuals := make([]float64, n)
	for i := range residuals {
		residuals[i] = dy[i] - s.Value*dx[i]
	}
	alike := max(0, serial(dx)*serial(residuals))
	widen := (1 + alike) / (1 - alike)
	freedom = max(1, (freedom+1)/widen-1)
	t := StudentT(freedom).Quantile((1 + confidence) / 2)
	half := t * math.Sqrt(square(length(residuals))/float64(n-len(basis)-1)*widen) / length(dx)
	s.Low, s.High = s.Value-half, s.Value+half
	if !(s.Low > 0) {
		return Slope{}, errors.New("the cost of one cannot be distinguished from 0")
	}
	return s, nil
}

func ones(n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = 1
	}
	return out
}

// orthogonal returns the part of x that is orthogonal to the vectors of an orthogonal basis (modified Gram-Schmidt).
func orthogonal(x []float64, basis [][]float64) []float64 {
	out := append([]float64(nil), x...)
	for _, b := range basis {
		part := dot(out, b) / dot(b, b)
		for i := range out {
			out[i] -= part * b[i]
		}
	}
	return out
}

func dot(x, y []float64) (sum float64) {
	for i := range x {
		sum += x[i] * y[i]
	}
	return sum
}

func length(x []float64) float64 { return math.Sqrt(dot(x, x)) }

func square(v float64) float64 { return v * v }

// serial returns the correlation of neighbours in a series with mean 0.
func serial(x []float64) float64 {
	if all := dot(x, x); all > 0 {
		return dot(x[1:], x[:len(x)-1]) / all
	}
	return 0
}
