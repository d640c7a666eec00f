package stats_test

import (
	"fmt"

	"github.com/teescope/teescope/internal/stats"
)

// Ten pairs of the seconds that one job took without and with a TEE.
func ExamplePaired() {
	base := []float64{2.01, 1.98, 2.03, 2.00, 1.99, 2.02, 2.04, 1.97, 2.00, 2.01}
	treat := []float64{2.21, 2.20, 2.19, 2.24, 2.17, 2.25, 2.22, 2.18, 2.23, 2.20}
	c := stats.Paired(base, treat, stats.Options{Margin: 0.03, Better: -1, Seed: 1})
	point, low, high := c.Cost(-1)
	fmt.Printf("%s: %.3f (%.3f to %.3f at %.1f %%)\n", c.Verdict, point, low, high, 100*c.Confidence)
	fmt.Printf("material: %v; an effect of %.1f %% would have been found\n", c.Material, 100*c.MDE)
	// Output:
	// cost: 1.102 (1.091 to 1.113 at 95.1 %)
	// material: true; an effect of 1.3 % would have been found
}
