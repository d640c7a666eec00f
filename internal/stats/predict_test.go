package stats

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

func settings(f func(x float64) float64, xs ...float64) []Setting {
	var out []Setting
	for _, x := range xs {
		out = append(out, Setting{x, f(x), 10})
	}
	return out
}

func TestPredict(t *testing.T) {
	line := func(x float64) float64 { return 1 + 0.02*x }
	power := func(x float64) float64 { return 1.1 * math.Pow(x, 0.3) }
	for name, tt := range map[string]struct {
		settings []Setting
		x        float64
		curve    string
		value    float64
		beyond   bool
		err      string
	}{
		"line":             {settings(line, 1, 10, 20, 50, 100), 70, "y = a + b x", 2.4, false, ""},
		"line from 0":      {settings(line, 0, 10, 20, 50), 30, "y = a + b x", 1.6, false, ""},
		"power":            {settings(power, 1, 4, 16, 64, 256), 100, "y = a x^b", power(100), false, ""},
		"in any order":     {settings(power, 256, 1, 64, 4, 16), 100, "y = a x^b", power(100), false, ""},
		"somewhat beyond":  {settings(line, 0, 10, 20, 40), 60, "y = a + b x", 2.2, true, ""},
		"a line below 0":   {[]Setting{{10, 4, 5}, {20, 3, 5}, {30, 2, 5}, {40, 1, 5}}, 50, "y = a x^b", math.NaN(), true, ""},
		"near 0":           {settings(power, 4, 16, 64, 256), 0.1, "y = a + b x", math.NaN(), true, ""},
		"too far beyond":   {settings(line, 0, 10, 20, 40), 61, "", 0, false, "want -20 to 60"},
		"not a number":     {settings(line, 0, 10, 20, 40), math.NaN(), "", 0, false, "too far"},
		"three settings":   {settings(line, 0, 10, 20), 15, "", 0, false, "at least 4"},
		"a setting twice":  {settings(line, 0, 10, 10, 20, 30), 15, "", 0, false, "twice"},
		"a value of 0":     {append(settings(line, 0, 10, 20), Setting{40, 0, 10}), 15, "", 0, false, "above 0"},
		"no pairs":         {append(settings(line, 0, 10, 20), Setting{40, 2, 0}), 15, "", 0, false, "at least one pair"},
		"an infinite one":  {append(settings(line, 0, 10, 20), Setting{math.Inf(1), 2, 1}), 15, "", 0, false, "want a number"},
		"none of them fit": {[]Setting{{0, 1e6, 1}, {1, 1e-6, 1}, {2, 1e-6, 1}, {3, 1e-6, 1}}, 2.5, "", 0, false, "no curve"},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := Predict(tt.settings, tt.x, 0.95)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("%v, want %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if p.Curve != tt.curve || math.Abs(p.Value-tt.value) > 1e-9 || p.Beyond != tt.beyond || p.Error > 1e-9 && !math.IsNaN(tt.value) {
				t.Errorf("got %+v", p)
			}
			if !(p.Low <= p.Value && p.Value <= p.High && (p.High-p.Low < 1e-6 || math.IsNaN(tt.value))) {
				t.Errorf("points on a curve leave doubt: %v to %v", p.Low, p.High)
			}
		})
	}
}

// TestPredictCovers: the interval contains a further measurement as often as stated, among the settings, at their far
// end and beyond it.
func TestPredictCovers(t *testing.T) {
	const runs = 2000
	for name, curve := range map[string]func(x float64) float64{
		"line":  func(x float64) float64 { return 1 + 0.03*x },
		"power": func(x float64) float64 { return 1.2 * math.Pow(x, 0.4) },
	} {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(5, 6))
			f := func(x float64) float64 { return curve(x) * math.Exp(0.05*r.NormFloat64()) }
			for _, x := range []float64{20, 60, 110} {
				held := 0
				for range runs {
					p, err := Predict(settings(f, 1, 5, 10, 20, 40, 80), x, 0.95)
					if err != nil {
						t.Fatal(err)
					}
					if y := f(x); y >= p.Low && y <= p.High {
						held++
					}
				}
				// Choosing the better of two curves costs a little coverage.
				if share := float64(held) / runs; share < 0.92 || share > 0.98 {
					t.Errorf("%s at %g: %.1f %% of the intervals hold the value, want about 95 %%", name, x, 100*share)
				}
			}
		})
	}
}

func TestRankCorrelation(t *testing.T) {
	for name, tt := range map[string]struct {
		x, y   []float64
		rho, p float64
	}{
		"together":       {[]float64{1, 2, 3, 4}, []float64{1, 10, 11, 1000}, 1, 2. / 24},
		"opposite":       {[]float64{1, 2, 3, 4, 5}, []float64{9, 8, 7, 6, 5}, -1, 2. / 120},
		"none":           {[]float64{1, 2, 3, 4}, []float64{2, 4, 1, 3}, 0, 1},
		"ties":           {[]float64{1, 1, 2, 2}, []float64{1, 1, 2, 2}, 1, 8. / 24},
		"too few":        {[]float64{1, 2, 3}, []float64{1, 2, 3}, math.NaN(), math.NaN()},
		"unequal length": {[]float64{1, 2, 3, 4}, []float64{1, 2, 3}, math.NaN(), math.NaN()},
		"constant":       {[]float64{1, 1, 1, 1}, []float64{1, 2, 3, 4}, math.NaN(), math.NaN()},
		// rho = 1 - 6*10/990, t = 7.75 with 8 degrees of freedom.
		"ten": {[]float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, []float64{2, 1, 4, 3, 6, 5, 8, 7, 10, 9}, 0.9393939, 5.484e-05},
	} {
		t.Run(name, func(t *testing.T) {
			rho, p := RankCorrelation(tt.x, tt.y)
			same := func(a, b float64) bool { return math.IsNaN(a) && math.IsNaN(b) || math.Abs(a-b) < 1e-6 }
			if !same(rho, tt.rho) || !same(p, tt.p) {
				t.Errorf("%s: rho %v, p %v, want %v and %v", name, rho, p, tt.rho, tt.p)
			}
		})
	}
}
