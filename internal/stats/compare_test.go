package stats

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// arms returns n pairs with noise of sd and the given ratio.
func arms(seed uint64, n int, sd, ratio float64) (base, treat []float64) {
	rng := rand.New(rand.NewPCG(seed, 0))
	base, treat = make([]float64, n), make([]float64, n)
	for i := range n {
		base[i] = math.Exp(sd * rng.NormFloat64())
		treat[i] = ratio * math.Exp(sd*rng.NormFloat64())
	}
	return base, treat
}

func TestVerdicts(t *testing.T) {
	for _, c := range []struct {
		name     string
		n        int
		sd       float64
		ratio    float64
		o        Options
		want     Verdict
		material bool
		reason   string // part of a reason; "" if none is expected
	}{
		{"clear cost", 10, 0.01, 1.2, Options{Margin: 0.03, Better: -1}, Cost, true, ""},
		{"less throughput is a cost", 10, 0.01, 1 / 1.2, Options{Margin: 0.03, Better: 1}, Cost, true, ""},
		{"more throughput is a gain", 10, 0.01, 1.2, Options{Margin: 0.03, Better: 1}, Gain, true, ""},
		{"gain", 10, 0.01, 0.8, Options{Margin: 0.03, Better: -1}, Gain, true, ""},
		{"real but small", 20, 0.002, 1.01, Options{Margin: 0.03, Better: -1}, Cost, false, "within the margin"},
		{"equivalent", 20, 0.01, 1, Options{Margin: 0.03, Better: -1}, Equivalent, false, ""},
		{"nothing is equivalent without a margin", 20, 0.01, 1, Options{Better: -1}, Inconclusive, false, "contains 1"},
		{"too noisy", 10, 0.2, 1, Options{Margin: 0.03, Better: -1}, Inconclusive, false, "contains 1"},
		{"no direction", 10, 0.01, 1.2, Options{Margin: 0.03}, Inconclusive, false, "better"},
		{"five pairs", 5, 0.01, 2, Options{Margin: 0.03, Better: -1}, Inconclusive, false, "at least 6"},
		{"confidence out of reach", 6, 0.01, 2, Options{Margin: 0.03, Better: -1, Confidence: 0.99}, Inconclusive, false, "cannot reach"},
		{"noise floor above the effect", 20, 0.005, 1.05, Options{Margin: 0.03, Better: -1, NoiseFloor: 0.06}, Inconclusive, false, "identical arms"},
		{"noise floor below the effect", 20, 0.005, 1.5, Options{Margin: 0.03, Better: -1, NoiseFloor: 0.06}, Cost, true, "narrower"},
		{"margin finer than the floor", 20, 0.005, 1, Options{Margin: 0.03, Better: -1, NoiseFloor: 0.06}, Inconclusive, false, "identical arms"},
		{"senseless options", 20, 0.005, 1.2, Options{Margin: math.NaN(), Better: -1}, Inconclusive, false, "no sense"},
	} {
		t.Run(c.name, func(t *testing.T) {
			base, treat := arms(4, c.n, c.sd, c.ratio)
			for name, compare := range map[string]func(_, _ []float64, _ Options) Comparison{"paired": Paired, "unpaired": Unpaired} {
				got := compare(base, treat, c.o)
				if name == "unpaired" && c.name == "confidence out of reach" {
					continue // two samples of 6 can reach it
				}
				if got.Verdict != c.want || got.Material != c.material {
					t.Errorf("%s, %s: %s, material %v; want %s, %v (%+v)", c.name, name, got.Verdict, got.Material, c.want, c.material, got)
				}
				if all := strings.Join(got.Reasons, "; "); (c.reason == "") != (all == "") || !strings.Contains(all, c.reason) {
					t.Errorf("%s, %s: reasons %q, want one with %q", c.name, name, all, c.reason)
				}
				if settled := got.Verdict != Inconclusive; settled && got.Needed != 0 {
					t.Errorf("%s, %s: settled, but %d pairs needed", c.name, name, got.Needed)
				}
			}
		})
	}
}

// TestSecondOpinion: if half of the pairs show an effect and the centres of the arms do not, the two estimates
// disagree.
func TestSecondOpinion(t *testing.T) {
	// All but the two pairs in the middle are 10 % slower; pairs differ by a factor of four.
	base := []float64{1, 4, 1.1, 3.9, 1.2, 3.8, 0.9, 4.1, 1.05, 3.95, 2.5, 2.4}
	treat := make([]float64, len(base))
	for i := range base {
		treat[i] = base[i] * 1.1
	}
	treat[10], treat[11] = 2.45, 2.35
	got := Paired(base, treat, Options{Margin: 0.03, Better: -1})
	if got.Low <= 1 || got.Verdict != Inconclusive || !strings.Contains(strings.Join(got.Reasons, ";"), "bootstrap disagrees") {
		t.Errorf("%+v: want a rank interval above 1 that the bootstrap does not confirm", got)
	}
}

// TestSecondOpinionOnEquivalence: the pairs are equal, except those in the middle of the arms, which decide the
// medians.
func TestSecondOpinionOnEquivalence(t *testing.T) {
	base := append(slices.Repeat([]float64{1, 4}, 12), 2.5, 2.4, 2.45)
	treat := append(slices.Repeat([]float64{1, 4}, 12), 2.2, 2.1, 2.3)
	got := Paired(base, treat, Options{Margin: 0.03, Better: -1})
	if got.EqLow < 1/1.03 || got.Verdict != Inconclusive || !strings.Contains(strings.Join(got.Reasons, ";"), "bootstrap disagrees about the margin") {
		t.Errorf("%+v: want a rank interval within the margin that the bootstrap does not confirm", got)
	}
}

// TestNoRatio: values without a logarithm give no ratio, and the reason names them.
func TestNoRatio(t *testing.T) {
	good := []float64{1, 2, 3, 4, 5, 6}
	for _, bad := range []float64{0, -1, math.NaN(), math.Inf(1), math.Inf(-1)} {
		x := slices.Clone(good)
		x[3] = bad
		for _, got := range []Comparison{Paired(good, x, Options{}), Paired(x, good, Options{}), Unpaired(good, x, Options{}), Unpaired(x, good, Options{})} {
			if !math.IsNaN(got.Ratio) || got.Verdict != Inconclusive || len(got.Reasons) != 1 || !strings.Contains(got.Reasons[0], "value no. 4 of the ") {
				t.Errorf("with %g: %+v", bad, got)
			}
		}
	}
	for _, got := range []Comparison{Paired(good, good[:5], Options{}), Paired(nil, nil, Options{}), Unpaired(nil, good, Options{})} {
		if !math.IsNaN(got.Ratio) || got.Verdict != Inconclusive || len(got.Reasons) != 1 {
			t.Errorf("%+v", got)
		}
	}
}

// TestSwapAndScale: swapped arms give the inverse ratio, another unit the same ratio.
func TestSwapAndScale(t *testing.T) {
	for seed := range uint64(50) {
		base, treat := arms(seed, 6+int(seed), 0.05, 1.07)
		o := Options{Margin: 0.03, Better: -1, Seed: seed}
		for name, compare := range map[string]func(_, _ []float64, _ Options) Comparison{"paired": Paired, "unpaired": Unpaired} {
			a, b := compare(base, treat, o), compare(treat, base, o)
			check := func(what string, got, want float64) {
				t.Helper()
				if !near(got, want, 1e-12*want) {
					t.Errorf("%s, seed %d: %s %g, want %g", name, seed, what, got, want)
				}
			}
			check("swapped ratio", b.Ratio, 1/a.Ratio)
			check("swapped low end", b.Low, 1/a.High)
			check("swapped P", b.P, a.P)
			if name == "paired" { // the arms draw from one stream, so unpaired resamples differ
				check("swapped bootstrap", b.BootLow, 1/a.BootHigh)
			}
			mirror := map[Verdict]Verdict{Cost: Gain, Gain: Cost, Equivalent: Equivalent, Inconclusive: Inconclusive}
			if name == "paired" && b.Verdict != mirror[a.Verdict] {
				t.Errorf("seed %d: %s turned into %s", seed, a.Verdict, b.Verdict)
			}
			scaled := func(x []float64) []float64 {
				out := slices.Clone(x)
				for i := range out {
					out[i] *= 1024 // exact
				}
				return out
			}
			c := compare(scaled(base), scaled(treat), o)
			check("scaled ratio", c.Ratio, a.Ratio)
			check("scaled high end", c.High, a.High)
			check("scaled bootstrap", c.BootHigh, a.BootHigh)
			if c.Verdict != a.Verdict {
				t.Errorf("%s, seed %d: another unit turned %s into %s", name, seed, a.Verdict, c.Verdict)
			}
			if again := compare(base, treat, o); !reflect.DeepEqual(a, again) {
				t.Errorf("%s, seed %d: not the same twice", name, seed)
			}
		}
	}
}

func TestCost(t *testing.T) {
	c := Comparison{Ratio: 0.8, Low: 0.5, High: 1.25}
	for better, want := range map[int8][3]float64{-1: {0.8, 0.5, 1.25}, 1: {1.25, 0.8, 2}} {
		if p, l, h := c.Cost(better); [3]float64{p, l, h} != want {
			t.Errorf("better %d: %g (%g, %g), want %v", better, p, l, h, want)
		}
	}
	if p, _, _ := c.Cost(0); !math.IsNaN(p) {
		t.Errorf("a metric without direction costs %g", p)
	}
}

// TestPMargin: the P value at the margin agrees with the interval beyond it.
func TestPMargin(t *testing.T) {
	for seed := range uint64(100) {
		base, treat := arms(seed, 12, 0.02, 1.06)
		c := Paired(base, treat, Options{Margin: 0.03, Better: -1})
		if beyond := c.Low > 1.03; beyond != (c.PMargin <= 1-c.Confidence+1e-12) {
			t.Errorf("seed %d: low end %g, P at the margin %g", seed, c.Low, c.PMargin)
		}
	}
}

// floats turns bytes into numbers: mostly positive ones, sometimes extreme values or arbitrary bits.
func floats(data []byte) (out []float64) {
	edges := []float64{0, -1, math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64, 5e-324, math.Copysign(0, -1)}
	for len(data) >= 3 && len(out) < 120 {
		kind, bits := data[0], data[1:]
		switch {
		case kind < 8:
			out, data = append(out, edges[kind]), bits
		case kind >= 250 && len(bits) >= 8:
			out, data = append(out, math.Float64frombits(binary.LittleEndian.Uint64(bits))), bits[8:]
		default:
			out, data = append(out, float64(1+int(binary.LittleEndian.Uint16(bits)))/float64(kind)), bits[2:]
		}
	}
	return out
}

// FuzzAll: for any numbers, nothing panics, a verdict is one of the four, and a verdict with a claim has all its
// numbers.
func FuzzAll(f *testing.F) {
	rng := rand.New(rand.NewPCG(9, 9))
	for n := range 40 {
		data := make([]byte, 12*n)
		for i := range data {
			data[i] = byte(rng.Uint32())
			if n%2 == 0 && i%3 == 0 {
				data[i] = 100 + data[i]%8 // positive numbers that are near one another
			}
		}
		f.Add(data, 0.01*float64(n), 0.5+0.012*float64(n), 0.01*float64(n%3), int8(n%3-1))
	}
	f.Add([]byte{}, math.NaN(), -1.0, math.Inf(1), int8(0))
	f.Fuzz(func(t *testing.T, data []byte, margin, confidence, floor float64, better int8) {
		x := floats(data)
		half := len(x) / 2
		o := Options{Margin: margin, Confidence: confidence, NoiseFloor: floor, Better: better, Seed: 1}
		for _, c := range []Comparison{Paired(x[:half], x[half:half*2], o), Unpaired(x[:half], x[half:], o)} {
			switch c.Verdict {
			case Cost, Gain, Equivalent:
				for _, v := range []float64{c.Ratio, c.Low, c.High, c.BootLow, c.BootHigh, c.EqLow, c.EqHigh, c.P, c.SDLog, c.MDE} {
					if math.IsNaN(v) {
						t.Errorf("%s without a number: %+v", c.Verdict, c)
					}
				}
				if !(c.Low <= c.Ratio && c.Ratio <= c.High) {
					t.Errorf("the interval does not hold the ratio: %+v", c)
				}
			case Inconclusive:
				if len(c.Reasons) == 0 {
					t.Errorf("inconclusive without a reason: %+v", c)
				}
			default:
				t.Errorf("verdict %q", c.Verdict)
			}
		}
		if flags := Flags(x); len(flags) != len(x) {
			t.Errorf("%d flags for %d values", len(flags), len(x))
		}
		if s := Steady(x, SteadyOptions{}); s.OK && (math.IsNaN(s.Slope) || s.Cut > len(x)/2) || !s.OK && s.Reason == "" {
			t.Errorf("%+v", s)
		}
		if b := Modes(x); b.Two && (b.Reason == "" || !(b.Low <= b.High)) {
			t.Errorf("%+v", b)
		}
		for _, c := range ChangePoints(x, ChangeOptions{}) {
			if math.IsNaN(c.Ratio) || c.Index <= 0 || c.Index >= len(x) {
				t.Errorf("%+v", c)
			}
		}
		Holm(x)
		RobustZ(x, margin)
		points := Strong(x[:half], x[half:])
		Speedup(points)
		Efficiency(points)
		PercentileInterval(len(x), margin, confidence)
		MDE(margin, half, confidence, floor)
		PairsFor(margin, floor, confidence, 0.8)
	})
}
