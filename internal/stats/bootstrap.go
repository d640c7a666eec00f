package stats

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// resamples is the number of resamples of a bootstrap: with 2000 the level of a 95 % interval is known to about half
// a point.
const resamples = 2000

// pairBoot draws pairs with replacement and returns the sorted logarithms of the ratio
// of medians (percentile bootstrap: Efron and Tibshirani, An Introduction to the
// Bootstrap, 1993, chapter 13). It compares the centres of the arms, the Hodges-Lehmann
// estimate the centre of the pairs' differences, so it doubts an effect that only one
// of the two shows.
func pairBoot(base, treat []float64, seed uint64) []float64 {
	rng := rand.New(rand.NewPCG(seed, 0))
	b, t := rank(base), rank(treat)
	return replicate(func() float64 {
		drawn := draw(rng, b.drawn)
		return t.logMedian(drawn) - b.logMedian(drawn)
	})
}

// armBoot draws the runs of each arm separately.
func armBoot(base, treat []float64, seed uint64) []float64 {
	rng := rand.New(rand.NewPCG(seed, 0))
	b, t := rank(base), rank(treat)
	return replicate(func() float64 { return t.logMedian(draw(rng, t.drawn)) - b.logMedian(draw(rng, b.drawn)) })
}

func replicate(statistic func() float64) []float64 {
	out := make([]float64, resamples)
	for i := range out {
		out[i] = statistic()
	}
	slices.Sort(out)
	return out
}

// draw makes len(times) draws with replacement and leaves in times how often each index
// was drawn.
func draw(rng *rand.Rand, times []int) []int {
	clear(times)
	for range times {
		times[rng.IntN(len(times))]++
	}
	return times
}

// ranked is a sample prepared for computing medians of many resamples without sorting.
type ranked struct {
	value []float64 // sorted
	index []int     // the place of value[i] in the sample
	drawn []int     // scratch for draw
}

func rank(x []float64) ranked {
	r := ranked{make([]float64, len(x)), make([]int, len(x)), make([]int, len(x))}
	for i := range x {
		r.index[i] = i
	}
	slices.SortFunc(r.index, func(i, j int) int { return cmp.Compare(x[i], x[j]) })
	for i, at := range r.index {
		r.value[i] = x[at]
	}
	return r
}

// logMedian returns the logarithm of the median of the sample drawn times[i] times at index i.
func (r ranked) logMedian(times []int) float64 {
	n, seen := len(r.value), 0
	low := math.NaN()
	for i, at := range r.index {
		before := seen
		seen += times[at]
		if before <= (n-1)/2 && (n-1)/2 < seen {
			low = r.value[i]
		}
		if n/2 < seen {
			return math.Log(low/2 + r.value[i]/2)
		}
	}
	return math.NaN()
}
