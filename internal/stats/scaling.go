package stats

import "math"

// Point is a throughput, in work per second, at a number of workers (threads,
// processes, nodes).
type Point struct{ Workers, Throughput float64 }

// Strong turns the times of one fixed job at increasing numbers of workers into points: 1/seconds jobs per second.
func Strong(workers, seconds []float64) []Point {
	out := make([]Point, min(len(workers), len(seconds)))
	for i := range out {
		out[i] = Point{workers[i], 1 / seconds[i]}
	}
	return out
}

// Speedup returns the throughput of each point divided by that at the fewest workers. NaN if a value is not positive
// and finite.
func Speedup(p []Point) []float64 {
	return each(p, func(first, at Point) float64 { return at.Throughput / first.Throughput })
}

// Efficiency returns the speed-up per worker: 1 if n times the workers do n times the work.
func Efficiency(p []Point) []float64 {
	return each(p, func(first, at Point) float64 {
		return at.Throughput / first.Throughput * first.Workers / at.Workers
	})
}

func (p Point) usable() bool { return usable(p.Workers) && usable(p.Throughput) }

// each applies f to every usable point and the one with the fewest workers.
func each(p []Point, f func(first, at Point) float64) []float64 {
	first := -1
	for i := range p {
		if p[i].usable() && (first < 0 || p[i].Workers < p[first].Workers) {
			first = i
		}
	}
	out := make([]float64, len(p))
	for i, at := range p {
		out[i] = math.NaN()
		if at.usable() {
			out[i] = f(p[first], at)
		}
	}
	return out
}

// MaxEfficiency is the efficiency above which the baseline is wrong rather than the scaling good.
const MaxEfficiency = 1.05
