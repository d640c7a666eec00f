package stats

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestSlopeCoverage: the interval contains the true slope as often as stated, with independent windows and with
// drifting load. An interval that contains 0 is refused, which would bias the count, so the slope is far from 0 here.
func TestSlopeCoverage(t *testing.T) {
	const runs, slope = 2000, 2.0
	for name, c := range map[string]struct {
		n             int
		drift, shared float64 // correlation of neighbours; weight of the other in x
		least         float64
	}{
		"20 windows":            {20, 0, 0, 0.93},
		"40 windows":            {40, 0, 0, 0.93},
		"drift":                 {40, 0.6, 0, 0.90},
		"beside another":        {30, 0, 0.7, 0.93},
		"drift, beside another": {60, 0.6, 0.7, 0.90},
	} {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(7, 7))
			series := func() []float64 {
				out := make([]float64, c.n)
				v := rng.NormFloat64()
				for i := range out {
					v = c.drift*v + math.Sqrt(1-c.drift*c.drift)*rng.NormFloat64()
					out[i] = v
				}
				return out
			}
			inside, told := 0, 0
			for range runs {
				x, other, y := series(), series(), series()
				for i := range x {
					x[i] = 10 + 3*x[i] + 3*c.shared*other[i]
					y[i] = 5 + slope*x[i] + 4*other[i] + 2*y[i]
				}
				s, err := RegressionSlope(y, x, [][]float64{other}, 0.95)
				if err != nil {
					continue
				}
				told++
				if s.Low <= slope && slope <= s.High {
					inside++
				}
			}
			if told < 0.9*runs {
				t.Fatalf("%d of %d told", told, runs)
			}
			if got := float64(inside) / float64(told); got < c.least || got > 0.99 {
				t.Errorf("%.3f of the intervals hold the slope, want %v to 0.99", got, c.least)
			} else {
				t.Logf("%.3f of %d intervals hold the slope", got, told)
			}
		})
	}
}

// TestSlopeRefuses: no slope, no price. For an event without cost, a price is given in at most one of forty trials,
// as the 95 % interval promises.
func TestSlopeRefuses(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const n = 24
	series := func(mean, sd float64) []float64 {
		out := make([]float64, n)
		for i := range out {
			out[i] = mean + sd*rng.NormFloat64()
		}
		return out
	}
	x, noise := series(100, 30), series(0, 1)
	line := func(slope float64, of []float64) []float64 {
		out := make([]float64, n)
		for i := range out {
			out[i] = slope*of[i] + noise[i]
		}
		return out
	}
	twin := line(1, x)
	f := func(what string, y, x []float64, others [][]float64, want string) {
		t.Helper()
		if s, err := RegressionSlope(y, x, others, 0.95); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, %v; want %q", what, s, err, want)
		}
	}
	f("few", line(2, x)[:9], x[:9], nil, "9 windows are too few, at least 10")
	f("few beside others", line(2, x)[:11], x[:11], [][]float64{series(1, 1)[:11], series(1, 1)[:11]}, "11 windows are too few, at least 12")
	f("none", nil, nil, nil, "0 windows are too few")
	f("constant", line(2, x), series(100, 0), nil, "hardly varies")
	f("almost constant", line(2, x), series(100, 5), nil, "hardly varies")
	f("collinear", line(2, x), x, [][]float64{twin}, "rises and falls with that of other events (collinear)")
	f("the same", line(2, x), x, [][]float64{x}, "rises and falls with that of other events (collinear)")
	f("nothing", noise, x, nil, "cannot be distinguished from 0")
	f("a gain", line(-2, x), x, nil, "cannot be distinguished from 0")
	if s, err := RegressionSlope(line(2, x), x, [][]float64{twin, series(3, 1)}[1:], 0.95); err != nil || math.Abs(s.Value-2) > 0.1 || s.Windows != n {
		t.Errorf("a slope of 2: %+v, %v", s, err)
	}
	// A duplicate column, or a sum of others, has no effect.
	other := series(3, 1)
	a, errA := RegressionSlope(line(2, x), x, [][]float64{other}, 0.95)
	b, errB := RegressionSlope(line(2, x), x, [][]float64{other, other, ones(n)}, 0.95)
	if errA != nil || errB != nil || a != b {
		t.Errorf("%+v %v, with columns twice %+v %v", a, errA, b, errB)
	}
	const runs = 2000
	found := 0
	for range runs {
		if _, err := RegressionSlope(series(10, 1), series(100, 30), nil, 0.95); err == nil {
			found++
		}
	}
	if rate := float64(found) / runs; rate < 0.01 || rate > 0.04 {
		t.Errorf("nothing is found to cost something in %.3f of the runs, want 0.025", rate)
	}
}
