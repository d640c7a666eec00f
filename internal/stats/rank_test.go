package stats

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"
)

// near reports whether two numbers differ by at most the tolerance.
func near(got, want, tolerance float64) bool { return math.Abs(got-want) <= tolerance }

// TestSignedRankTable: the largest T that is significant at 5 % and 1 %,
// two-sided, as in Wilcoxon's tables (Wilcoxon, Katti, Wilcox 1963); -1 where no
// T is.
func TestSignedRankTable(t *testing.T) {
	five := map[int]int{5: -1, 6: 0, 7: 2, 8: 3, 9: 5, 10: 8, 11: 10, 12: 13, 13: 17, 14: 21, 15: 25, 16: 29, 17: 34, 18: 40, 19: 46, 20: 52, 25: 89}
	one := map[int]int{7: -1, 8: 0, 9: 1, 10: 3, 11: 5, 12: 7, 13: 9, 14: 12, 15: 15, 16: 19, 17: 23, 18: 27, 19: 32, 20: 37, 25: 68}
	for n, want := range five {
		if got := signedRank(n).critical(0.025); got != want {
			t.Errorf("n=%d: critical value at 5 %% is %d, the table has %d", n, got, want)
		}
	}
	for n, want := range one {
		if got := signedRank(n).critical(0.005); got != want {
			t.Errorf("n=%d: critical value at 1 %% is %d, the table has %d", n, got, want)
		}
	}
	for n, want := range map[int]float64{5: 0.0625, 6: 0.03125, 8: 0.0078125} {
		if got := 2 * signedRank(n).cdf(0); got != want {
			t.Errorf("n=%d: smallest two-sided level %g, want %g", n, got, want)
		}
	}
}

// TestMannWhitneyTable: the largest U significant at 5 %, two-sided (Mann and
// Whitney's statistic; Auble 1953 and any textbook).
func TestMannWhitneyTable(t *testing.T) {
	for size, want := range map[[2]int]int{{3, 3}: -1, {4, 4}: 0, {5, 5}: 2, {6, 6}: 5, {7, 7}: 8, {8, 8}: 13, {9, 9}: 17,
		{10, 10}: 23, {5, 10}: 8, {10, 5}: 8, {6, 8}: 8, {10, 15}: 39, {20, 20}: 127} {
		if got := mannWhitney(size[0], size[1]).critical(0.025); got != want {
			t.Errorf("%v: critical value %d, the table has %d", size, got, want)
		}
	}
}

// TestNullDistributions counts every outcome of small samples.
func TestNullDistributions(t *testing.T) {
	for n := 1; n <= 12; n++ {
		null := signedRank(n)
		tally := make([]int, n*(n+1)/2+1)
		for signs := range 1 << n {
			sum := 0
			for i := range n {
				if signs>>i&1 == 1 {
					sum += i + 1
				}
			}
			tally[sum]++
		}
		seen := 0
		for at, k := range tally {
			seen += k
			if want := float64(seen) / float64(int(1)<<n); !near(null.cdf(at), want, 1e-12) {
				t.Fatalf("signed rank n=%d: P(T<=%d) = %g, counted %g", n, at, null.cdf(at), want)
			}
		}
	}
	for n := 1; n <= 6; n++ {
		for m := 1; m <= 6; m++ {
			null := mannWhitney(n, m)
			tally, ways := make([]int, n*m+1), 0
			for set := range 1 << (n + m) { // the places of the y
				if bits.OnesCount(uint(set)) != m {
					continue
				}
				u, below := 0, 0
				for i := range n + m {
					if set>>i&1 == 1 {
						u += below
					} else {
						below++
					}
				}
				tally[u]++
				ways++
			}
			seen := 0
			for at, k := range tally {
				seen += k
				if want := float64(seen) / float64(ways); !near(null.cdf(at), want, 1e-12) {
					t.Fatalf("Mann-Whitney %d, %d: P(U<=%d) = %g, counted %g", n, m, at, null.cdf(at), want)
				}
			}
		}
	}
}

// TestNormalApproximation: at the size where it takes over, it differs little from the exact distribution, and less
// in the tails.
func TestNormalApproximation(t *testing.T) {
	const n = exactLimit
	check := func(name string, exact, approx null) {
		t.Helper()
		for at := range exact.max {
			p, q := exact.cdf(at), approx.cdf(at)
			if !near(p, q, 2e-3) || p < 0.03 && !near(p, q, 5e-4) {
				t.Fatalf("%s: P(T<=%d) = %g, approximately %g", name, at, p, q)
			}
		}
	}
	exact := signedRank(n)
	check("signed rank", exact, normal(exact.max, n*(n+1)/4., math.Sqrt(n*(n+1)*(2*n+1)/24.)))
	exact = mannWhitney(n, n)
	check("Mann-Whitney", exact, normal(exact.max, n*n/2., math.Sqrt(n*n*(2*n+1)/12.)))
}

// TestHollanderWolfe: the examples of Nonparametric Statistical Methods, 3.1-3.3
// (Hamilton depression scale) and 4.1-4.3 (permeability of membranes).
func TestHollanderWolfe(t *testing.T) {
	before := []float64{1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30}
	after := []float64{0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29}
	d := make([]float64, len(before))
	for i := range d {
		d[i] = after[i] - before[i]
	}
	check := func(name string, c contrasts, median, low, high, attained, p float64) {
		t.Helper()
		l, h, a, ok := c.interval(0.95)
		if !ok || !near(c.median(), median, 5e-4) || !near(l, low, 5e-4) || !near(h, high, 5e-4) || !near(a, attained, 5e-4) || !near(c.lower(0), p, 5e-4) {
			t.Errorf("%s: %.4f in (%.4f, %.4f) at %.4f, P %.4f; the book has %g in (%g, %g) at %g, P %g",
				name, c.median(), l, h, a, c.lower(0), median, low, high, attained, p)
		}
	}
	check("signed rank", walsh(d), -0.46, -0.786, -0.010, 0.961, 0.0195)
	term := []float64{0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46}
	early := []float64{1.15, 0.88, 0.90, 0.74, 1.21}
	check("Mann-Whitney", shifts(term, early), -0.305, -0.76, 0.15, 0.960, 0.1272)
}

// TestSelection: kth finds the same as sorting all contrasts, ties included.
func TestSelection(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		x, y := make([]float64, 1+rng.IntN(9)), make([]float64, 1+rng.IntN(9))
		for i := range x {
			x[i] = float64(rng.IntN(7)-3) / 4
		}
		for i := range y {
			y[i] = rng.NormFloat64()
		}
		var means, differences []float64
		for i := range x {
			for j := i; j < len(x); j++ {
				means = append(means, x[i]/2+x[j]/2)
			}
			for _, v := range y {
				differences = append(differences, v-x[i])
			}
		}
		for _, c := range []struct {
			got  contrasts
			want []float64
		}{{walsh(x), means}, {shifts(x, y), differences}} {
			slices.Sort(c.want)
			if c.got.size != len(c.want) {
				t.Fatalf("%d contrasts, want %d", c.got.size, len(c.want))
			}
			for k, want := range c.want {
				if got := c.got.kth(k + 1); got != want {
					t.Fatalf("contrast %d of %v, %v is %g, want %g", k+1, x, y, got, want)
				}
			}
		}
	}
}

// TestTiesCountAgainst: P is the largest over all ways of breaking the ties and zeros.
func TestTiesCountAgainst(t *testing.T) {
	d := []float64{0, 0, 1, 1, 1, -1, 2, 3}
	worst := 0.0
	for way := range 1 << len(d) {
		broken := make([]float64, len(d))
		for i := range d {
			broken[i] = d[i] + 1e-6*float64(i+1)*float64(2*(way>>i&1)-1)
		}
		worst = max(worst, walsh(broken).twoSided(0))
	}
	if got := walsh(d).twoSided(0); got < worst {
		t.Errorf("P with ties is %g, breaking them gives up to %g", got, worst)
	}
	mirror := walsh([]float64{0, 0, -1, -1, -1, 1, -2, -3})
	if c := walsh(d); c.twoSided(0) != mirror.twoSided(0) || c.upper(0) != mirror.lower(0) || c.lower(0) != mirror.upper(0) {
		t.Error("the mirror image has other P values")
	}
	rng := rand.New(rand.NewPCG(7, 7))
	for range 100 { // and P agrees with the interval
		for i := range d {
			d[i] = float64(rng.IntN(9) - 2)
		}
		c := walsh(d)
		low, high, attained, _ := c.interval(0.95)
		if outside := low > 0 || high < 0; outside != (c.twoSided(0) <= 1-attained+1e-12) {
			t.Fatalf("%v: interval (%g, %g), P %g", d, low, high, c.twoSided(0))
		}
	}
}
