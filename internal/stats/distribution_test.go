package stats

import (
	"math"
	"testing"
)

// TestDistributions compares with tables: Student's t and the normal quantiles as NIST/SEMATECH's e-Handbook prints them (1.3.6.7.1,
// 1.3.6.7.2), the binomial sums in fractions.
func TestDistributions(t *testing.T) {
	for _, c := range []struct {
		name      string
		got, want float64
		within    float64
	}{
		{"t, 1 degree, 97.5 %", StudentT(1).Quantile(0.975), 12.706, 5e-4},
		{"t, 5 degrees, 97.5 %", StudentT(5).Quantile(0.975), 2.571, 5e-4},
		{"t, 5 degrees, 2.5 %", StudentT(5).Quantile(0.025), -2.571, 5e-4},
		{"t, 30 degrees, 99.9 %", StudentT(30).Quantile(0.999), 3.385, 5e-4},
		{"t, half a degree, one half", StudentT(0.5).Quantile(0.5), 0, 0},
		{"t, 1 degree, above 1", StudentT(1).Survival(1), 0.25, 1e-12}, // Cauchy
		{"t, 1 degree, above -1", StudentT(1).Survival(-1), 0.75, 1e-12},
		{"t, 2 degrees, above sqrt(2)", StudentT(2).Survival(math.Sqrt2), 0.5 - math.Sqrt2/4, 1e-12},
		{"t, 7 degrees, above 0", StudentT(7).Survival(0), 0.5, 0},
		{"t, 7 degrees, above infinity", StudentT(7).Survival(math.Inf(1)), 0, 0},
		{"normal, 97.5 %", normalQuantile(0.975), 1.959964, 5e-7},
		{"binomial, 2 of 4 at 1/2", binomialCDF(4, 0.5, 2), 11.0 / 16, 1e-12},
		{"binomial, 0 of 3 at 1/3", binomialCDF(3, 1.0/3, 0), 8.0 / 27, 1e-12},
		{"binomial, 3 of 3", binomialCDF(3, 0.1, 3), 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			if !(math.Abs(c.got-c.want) <= c.within) {
				t.Errorf("%s: %v, want %v", c.name, c.got, c.want)
			}
		})
	}
	for name, got := range map[string]float64{
		"no degree": StudentT(0).Quantile(0.9), "a probability above 1": StudentT(3).Quantile(1.1), "NaN": StudentT(3).Quantile(math.NaN()),
		"above NaN": StudentT(3).Survival(math.NaN()), "above 1 without a degree": StudentT(0).Survival(1),
	} {
		t.Run(name, func(t *testing.T) {
			if !math.IsNaN(got) {
				t.Errorf("%s: %v, want none", name, got)
			}
		})
	}
}
