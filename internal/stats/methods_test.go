package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestMDE: the table of minimum detectable effects at 80 % power and 5 %, in
// per cent, that docs/statistics.md prints.
func TestMDE(t *testing.T) {
	sizes := []int{6, 8, 10, 15, 20, 30, 50}
	for sd, row := range map[float64][]float64{
		1:  {1.5, 1.2, 1.0, 0.8, 0.7, 0.5, 0.4},
		2:  {3.0, 2.4, 2.1, 1.6, 1.4, 1.1, 0.8},
		5:  {7.6, 6.1, 5.2, 4.1, 3.4, 2.7, 2.1},
		10: {15.7, 12.5, 10.7, 8.3, 7.0, 5.6, 4.2},
		20: {33.9, 26.6, 22.6, 17.3, 14.5, 11.4, 8.6},
	} {
		for i, want := range row {
			if got := 100 * MDE(sd/100, sizes[i], 0.05, 0.8); !near(got, want, 0.0501) {
				t.Errorf("SD %g %%, n=%d: %.2f %%, want %g", sd, sizes[i], got, want)
			}
		}
	}
	for _, bad := range []float64{MDE(0.05, 1, 0.05, 0.8), MDE(math.NaN(), 10, 0.05, 0.8), MDE(-1, 10, 0.05, 0.8), MDE(0.05, 10, 1, 0.8), MDE(0.05, 10, 0.05, 0)} {
		if !math.IsNaN(bad) {
			t.Errorf("a senseless question has the answer %g", bad)
		}
	}
}

// TestPairsFor is the inverse of MDE.
func TestPairsFor(t *testing.T) {
	for _, sd := range []float64{0.003, 0.02, 0.05, 0.2} {
		for _, effect := range []float64{0.01, 0.03, 0.1} {
			n := PairsFor(sd, effect, 0.05, 0.8)
			if MDE(sd, n, 0.05, 0.8) > effect || n > MinPairs && MDE(sd, n-1, 0.05, 0.8) <= effect {
				t.Errorf("SD %g, effect %g: %d pairs is not the smallest number", sd, effect, n)
			}
		}
	}
	if n := PairsFor(0.003, 0.0013, 0.05, 0.8); n < 40 || n > 50 {
		t.Errorf("an effect of 0.13 %% at an SD of 0.3 %% needs %d pairs, want about 50", n)
	}
	if got := [3]int{PairsFor(0, 0.03, 0.05, 0.8), PairsFor(9, 1e-6, 0.05, 0.8), PairsFor(0.05, 0, 0.05, 0.8)}; got != [3]int{MinPairs, maxPairs, 0} {
		t.Errorf("edges: %v", got)
	}
}

func TestHolm(t *testing.T) {
	got := Holm([]float64{0.01, 0.04, 0.03, 0.005})
	for i, want := range []float64{0.03, 0.06, 0.06, 0.02} {
		if !near(got[i], want, 1e-12) {
			t.Errorf("adjusted P %d is %g, want %g", i, got[i], want)
		}
	}
	got = Holm([]float64{0.4, math.NaN(), 0.02})
	if !near(got[0], 0.8, 1e-12) || !math.IsNaN(got[1]) || !near(got[2], 0.06, 1e-12) {
		t.Errorf("with a missing value: %v", got)
	}
}

func TestMedianAndFlags(t *testing.T) {
	if m := Median([]float64{3, 1, 2}); m != 2 {
		t.Errorf("median %g", m)
	}
	if m := Median([]float64{4, 1, 2, 3}); m != 2.5 {
		t.Errorf("median %g", m)
	}
	if m := Median([]float64{math.MaxFloat64, math.MaxFloat64}); m != math.MaxFloat64 {
		t.Errorf("median %g overflows", m)
	}
	if !math.IsNaN(Median(nil)) || !math.IsNaN(Median([]float64{1, math.NaN()})) {
		t.Error("a median of nothing")
	}
	// Median 2.45, median absolute deviation 0.15.
	x := []float64{2.1, 2.6, 2.4, 2.5, 2.3, 2.1, 2.3, 2.6, 8.2, 8.3}
	for i, z := range Flags(x) {
		if want := 0.6745 * (x[i] - 2.45) / 0.15; !near(z, want, 1e-9) {
			t.Errorf("score of %g is %g, want %g", x[i], z, want)
		}
	}
	// The MAD is 0; the mean absolute deviation is 2/7.
	if z := Flags([]float64{5, 5, 5, 5, 5, 5, 7})[6]; !near(z, 2/(1.253314*2/7), 1e-9) {
		t.Errorf("score %g", z)
	}
	if z := Flags([]float64{5, 5, math.Inf(1), 5}); z[0] != 0 || !math.IsNaN(z[2]) {
		t.Errorf("scores %v", z)
	}
}

// TestQuantile: definition 7, as R's quantile() and NumPy have it by default.
func TestQuantile(t *testing.T) {
	x := []float64{1, 2, 4, 8}
	for p, want := range map[float64]float64{0: 1, 0.25: 1.75, 0.5: 3, 0.75: 5, 0.9: 6.8, 1: 8} {
		if got := Quantile(x, p); !near(got, want, 1e-12) {
			t.Errorf("quantile %g is %g, want %g", p, got, want)
		}
	}
	if got := Quantile([]float64{3}, 0.25); got != 3 {
		t.Errorf("quartile of one value %g", got)
	}
}

func TestRobustZ(t *testing.T) {
	history := slices.Repeat([]float64{1e6}, 30) // older than 64 values: forgotten
	for i := range 64 {
		history = append(history, float64(100+i%3)) // median 101, MAD 1
	}
	if z := RobustZ(history, 111); !near(z, 6.745, 1e-9) {
		t.Errorf("score %g", z)
	}
	if z := RobustZ(history[:5], 1); !math.IsNaN(z) {
		t.Errorf("score of five values: %g", z)
	}
	if z := RobustZ(slices.Repeat([]float64{2.0}, 9), 3); !math.IsInf(z, 1) {
		t.Errorf("score against a constant: %g", z)
	}
}

// TestPercentileInterval: the exact intervals for a median (n=6, 10, 20: any
// table of the sign test), and the smallest sample for the 99th percentile.
func TestPercentileInterval(t *testing.T) {
	for _, c := range []struct {
		n      int
		q      float64
		lo, hi int
		ok     bool
	}{
		{5, 0.5, 0, 0, false}, {6, 0.5, 1, 6, true}, {10, 0.5, 2, 9, true}, {20, 0.5, 6, 15, true},
		{367, 0.99, 0, 0, false}, {368, 0.99, 361, 368, true}, {0, 0.5, 0, 0, false}, {10, 1, 0, 0, false},
	} {
		lo, hi, ok := PercentileInterval(c.n, c.q, 0.95)
		if lo != c.lo && c.n != 368 || hi != c.hi || ok != c.ok {
			t.Errorf("n=%d q=%g: ranks %d to %d, %v; want %d to %d, %v", c.n, c.q, lo, hi, ok, c.lo, c.hi, c.ok)
		}
	}
	// Coverage, computed from the binomial distribution.
	for n := 6; n < 200; n += 7 {
		for _, q := range []float64{0.5, 0.9, 0.95} {
			lo, hi, ok := PercentileInterval(n, q, 0.95)
			if !ok {
				continue
			}
			covered := 0.0
			for k := lo; k < hi; k++ {
				a, _ := math.Lgamma(float64(n + 1))
				b, _ := math.Lgamma(float64(k + 1))
				c, _ := math.Lgamma(float64(n - k + 1))
				covered += math.Exp(a - b - c + float64(k)*math.Log(q) + float64(n-k)*math.Log1p(-q))
			}
			if covered < 0.95-1e-9 {
				t.Errorf("n=%d q=%g: ranks %d to %d cover %g", n, q, lo, hi, covered)
			}
		}
	}
}

func TestSteady(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	series := func(n int, f func(i int) float64) []float64 {
		x := make([]float64, n)
		for i := range x {
			x[i] = 100 * f(i) * (1 + 0.01*rng.NormFloat64())
		}
		return x
	}
	for _, c := range []struct {
		name     string
		x        []float64
		ok       bool
		from, to int // the cut
	}{
		{"steady from the start", series(12, func(int) float64 { return 1 }), true, 0, 0},
		{"warm-up", series(60, func(i int) float64 { return 1 - 0.6*math.Exp(-float64(i)/4) }), true, 6, 20},
		{"slower after the start", series(40, func(i int) float64 { return 1 + 0.5*float64(1-min(1, i/8)) }), true, 8, 10},
		{"slow ramp", series(60, func(i int) float64 { return 1 + 0.002*float64(i) }), false, 0, 0},
		{"weak warm-up", series(60, func(i int) float64 { return 1 + 0.06*float64(1-min(1, i/10)) }), true, 10, 15},
		{"ramp", series(60, func(i int) float64 { return 1 + 0.05*float64(i) }), false, 0, 0},
		{"warm-up longer than half", series(40, func(i int) float64 { return 1 + float64(1-min(1, i/30)) }), false, 0, 0},
		{"step near the end", series(40, func(i int) float64 { return 1 + 0.5*float64(i/35) }), false, 0, 0},
		{"too short", []float64{1, 1, 1}, false, 0, 0},
		{"a window without work", []float64{1, 1, 1, 0, 1, 1, 1}, false, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := Steady(c.x, SteadyOptions{})
			if s.OK != c.ok || s.Cut < c.from || s.Cut > c.to || s.OK != (s.Reason == "") {
				t.Errorf("%s: %+v; want %v with a cut of %d to %d", c.name, s, c.ok, c.from, c.to)
			}
		})
	}
	if s := Steady(series(12, func(int) float64 { return 1 }), SteadyOptions{}); s.MSER != -1 {
		t.Errorf("MSER-5 of 12 windows: %d", s.MSER)
	}
	if s := Steady(series(60, func(i int) float64 { return 1 + float64(1-min(1, i/10)) }), SteadyOptions{}); s.MSER < 10 {
		t.Errorf("MSER-5 cuts %d of ten bad windows", s.MSER)
	}
	loose := series(40, func(i int) float64 { return 1 + 0.2*float64(i%2) })
	if Steady(loose, SteadyOptions{MaxDeviation: 0.05}).OK || !Steady(loose, SteadyOptions{MaxDeviation: 0.2}).OK {
		t.Error("MaxDeviation has no effect")
	}
}

func TestModes(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	mix := func(n int, apart float64) []float64 {
		x := make([]float64, n)
		for i := range x {
			x[i] = 10 + rng.NormFloat64() + apart*float64(i%2)
		}
		return x
	}
	if b := Modes(mix(10, 12)); !b.Two || !near(b.Low, 10, 2) || !near(b.High, 22, 2) || !strings.Contains(b.Reason, "gap") {
		t.Errorf("two groups far apart: %+v", b)
	}
	if b := Modes(mix(200, 5)); !b.Two || !near(b.Low, 10, 1) || !near(b.High, 15, 1) || !strings.Contains(b.Reason, "dip") {
		t.Errorf("two groups that touch: %+v", b)
	}
	if b := Modes(slices.Repeat([]float64{1, 1, 1, 2}, 5)); !b.Two || b.Low != 1 || b.High != 2 {
		t.Errorf("two values: %+v", b)
	}
	for name, x := range map[string][]float64{"few": {1, 2, 3}, "constant": slices.Repeat([]float64{1}, 20), "not finite": {1, 2, 3, 4, 5, 6, 7, math.NaN()}} {
		t.Run(name, func(t *testing.T) {
			if b := Modes(x); b.Two || !math.IsNaN(b.Low) || name != "constant" && b.Reason == "" {
				t.Errorf("%s: %+v", name, b)
			}
		})
	}
	for _, n := range []int{8, 10, 20, 50} { // one group: at most 2 % of false alarms of the two tests together
		alarms := 0
		for range 1000 {
			alarms += count(Modes(mix(n, 0)).Two)
		}
		if p := share(alarms, 1000); p > 0.02+slack(0.02, 1000) {
			t.Errorf("n=%d: two groups seen in %g of samples of one", n, p)
		}
	}
}

// TestDip: the statistic of simple samples, and its null distribution at the
// 99 % point.
func TestDip(t *testing.T) {
	if d := dip([]float64{1, 2, 3, 4, 5}); !near(d, 0.1, 1e-12) { // evenly spaced: the minimum, 1/(2n)
		t.Errorf("dip of even spacing %g", d)
	}
	if d := dip([]float64{0, 0, 0, 0, 1, 1, 1, 1}); !near(d, 0.25, 1e-12) { // two atoms: the most
		t.Errorf("dip of two atoms %g", d)
	}
	rng := rand.New(rand.NewPCG(8, 8))
	for _, n := range []int{8, 12, 20, 40} {
		const repetitions = 3000
		above := 0
		x := make([]float64, n)
		for range repetitions {
			for i := range x {
				x[i] = rng.Float64()
			}
			slices.Sort(x)
			above += count(dip(x) > dipLimit(n))
		}
		if p := share(above, repetitions); !near(p, 0.01, slack(0.01, repetitions)+0.001) {
			t.Errorf("n=%d: %g of uniform samples are above the 99 %% point", n, p)
		}
	}
}

// nile is the annual discharge of the Nile at Aswan, 1871-1970, in 10^8 m³ (Cobb,
// Biometrika 65, 1978): it falls after 1898.
var nile = []float64{1120, 1160, 963, 1210, 1160, 1160, 813, 1230, 1370, 1140, 995, 935, 1110, 994, 1020, 960, 1180, 799, 958, 1140,
	1100, 1210, 1150, 1250, 1260, 1220, 1030, 1100, 774, 840, 874, 694, 940, 833, 701, 916, 692, 1020, 1050, 969,
	831, 726, 456, 824, 702, 1120, 1100, 832, 764, 821, 768, 845, 864, 862, 698, 845, 744, 796, 1040, 759,
	781, 865, 845, 944, 984, 897, 822, 1010, 771, 676, 649, 846, 812, 742, 801, 1040, 860, 874, 848, 890,
	744, 749, 838, 1050, 918, 986, 797, 923, 975, 815, 1020, 906, 901, 1170, 912, 746, 919, 718, 714, 740}

func TestChangePoints(t *testing.T) {
	got := ChangePoints(nile, ChangeOptions{})
	if len(got) != 1 || got[0].Index != 28 || !near(got[0].Before, 1110, 20) || !near(got[0].After, 845, 20) {
		t.Errorf("the Nile: %+v, want one change in 1899", got)
	}
	rng := rand.New(rand.NewPCG(10, 10))
	history := func(n int, f func(i int) float64) []float64 {
		x := make([]float64, n)
		for i := range x {
			x[i] = f(i) * math.Exp(0.02*rng.NormFloat64())
		}
		return x
	}
	at := func(x []float64, o ChangeOptions) (out []int) {
		for _, c := range ChangePoints(x, o) {
			out = append(out, c.Index)
		}
		return out
	}
	step := history(60, func(i int) float64 { return 1 + 0.1*float64(i/40) })
	if got := at(step, ChangeOptions{}); !slices.Equal(got, []int{40}) {
		t.Errorf("step at 40: %v", got)
	}
	if got := at(step, ChangeOptions{MinRatio: 0.2}); got != nil {
		t.Errorf("a step of 10 %% counts as 20 %%: %v", got)
	}
	hill := history(60, func(i int) float64 { return 1 + 0.1*float64(i/25) - 0.1*float64(min(1, i/35)) - 0.2*float64(i/50) })
	if got := at(hill, ChangeOptions{}); !slices.Equal(got, []int{25, 35, 50}) {
		t.Errorf("three steps: %v", got)
	}
	gaps := slices.Insert(slices.Clone(step), 10, math.NaN(), 0) // missing values keep their places
	if got := at(gaps, ChangeOptions{}); !slices.Equal(got, []int{42}) {
		t.Errorf("step at 42 with missing values: %v", got)
	}
	found := 0
	for range 100 { // a bulge in noise of 3 %
		x := history(100, func(i int) float64 { return 1 + 0.15*float64(min(1, i/40)-min(1, i/50)) })
		found += count(len(at(x, ChangeOptions{})) == 2)
	}
	if found < 95 {
		t.Errorf("a bulge of 15 %% is found in %d of 100 histories", found)
	}
	outlier := history(60, func(i int) float64 { return 1 })
	outlier[30], outlier[31] = 3, 4
	if got := at(outlier, ChangeOptions{}); got != nil {
		t.Errorf("two outliers are a change: %v", got)
	}
	if got := ChangePoints(slices.Repeat([]float64{7}, 30), ChangeOptions{}); got != nil {
		t.Errorf("a constant changes: %+v", got)
	}
	if got := ChangePoints(append(slices.Repeat([]float64{7}, 10), slices.Repeat([]float64{8}, 10)...), ChangeOptions{}); len(got) != 1 || got[0].Index != 10 || got[0].P > 1e-9 {
		t.Errorf("from one constant to another: %+v", got)
	}
}

// TestChangeAlarms: histories without a change raise few alarms.
func TestChangeAlarms(t *testing.T) {
	s := &noise{rng: rand.New(rand.NewPCG(11, 11))}
	const repetitions = 400
	alarms := 0
	for range repetitions {
		x := make([]float64, 100)
		for i := range x {
			x[i] = s.run()
		}
		alarms += count(len(ChangePoints(x, ChangeOptions{})) > 0)
	}
	t.Logf("%d of %d histories of 100 runs without a change raise an alarm", alarms, repetitions)
	if p := share(alarms, repetitions); p > 0.05 {
		t.Errorf("alarms in %g of histories", p)
	}
}

func TestScaling(t *testing.T) {
	p := Strong([]float64{1, 2, 4}, []float64{8, 4, 4})
	if got := Speedup(p); !slices.Equal(got, []float64{1, 2, 2}) {
		t.Errorf("speed-up %v", got)
	}
	if got := Efficiency(p); !slices.Equal(got, []float64{1, 1, 0.5}) {
		t.Errorf("efficiency %v", got)
	}
	// The base of an arm measured at 2 workers and more is the one at 2.
	if got := Efficiency(p[1:]); !slices.Equal(got, []float64{1, 0.5}) {
		t.Errorf("efficiency from 2 workers %v", got)
	}
	if got := Speedup([]Point{{1, 0}, {2, 5}, {4, math.NaN()}}); !math.IsNaN(got[0]) || got[1] != 1 || !math.IsNaN(got[2]) {
		t.Errorf("speed-up with missing values %v", got)
	}
}
