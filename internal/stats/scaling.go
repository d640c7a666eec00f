package stats

import (
	"fmt"
	"math"
	"slices"
)

// Point is a throughput, in work per second, at a number of workers (threads,
// processes, nodes).
type Point struct{ Workers, Throughput float64 }

// Strong turns the times of one fixed job at rising numbers of workers into
// points: 1/seconds jobs per second.
func Strong(workers, seconds []float64) []Point {
	return points(workers, seconds, func(_, s float64) float64 { return 1 / s })
}

// Weak turns the times of jobs that grow with the number of workers into points:
// n/seconds unit jobs per second (Gustafson, CACM 31, 1988).
func Weak(workers, seconds []float64) []Point {
	return points(workers, seconds, func(n, s float64) float64 { return n / s })
}

func points(workers, seconds []float64, throughput func(n, s float64) float64) []Point {
	out := make([]Point, min(len(workers), len(seconds)))
	for i := range out {
		out[i] = Point{workers[i], throughput(workers[i], seconds[i])}
	}
	return out
}

// Speedup is the throughput of each point divided by that at the fewest workers.
// NaN where a value is not positive and finite.
func Speedup(p []Point) []float64 {
	return each(p, func(first, at Point) float64 { return at.Throughput / first.Throughput })
}

// Efficiency is the speed-up per worker, 1 when n times the workers do n times
// the work.
func Efficiency(p []Point) []float64 {
	return each(p, func(first, at Point) float64 {
		return at.Throughput / first.Throughput * first.Workers / at.Workers
	})
}

// Absolute is the throughput of each point divided by the reference's at as many
// workers; NaN where the reference has none. Efficiency alone flatters an arm
// whose single worker is slow: its own baseline is the bad one.
func Absolute(p, reference []Point) []float64 {
	out := make([]float64, len(p))
	for i, at := range p {
		out[i] = math.NaN()
		k := slices.IndexFunc(reference, func(r Point) bool { return r.Workers == at.Workers })
		if at.usable() && k >= 0 && reference[k].usable() {
			out[i] = at.Throughput / reference[k].Throughput
		}
	}
	return out
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

// MaxEfficiency is the efficiency above which the baseline is at fault rather
// than the scaling good.
const MaxEfficiency = 1.05

// Fit is a scaling law fitted to points by least squares of the throughput,
//
//	X(n) = One n / (1 + Serial (n-1) + Coherency n (n-1))
//
// with no parameter below 0.
type Fit struct {
	// One is the throughput of one worker that the law supposes; Serial is the
	// share of work that waits for others (contention), Coherency the cost of
	// keeping each pair of workers in agreement, 0 in Amdahl's law.
	One, Serial, Coherency float64
	// Peak is the number of workers beyond which throughput falls, +Inf if it
	// never does; Limit is the throughput there, or that of infinitely many
	// workers (+Inf where nothing is serial).
	Peak, Limit float64
	// Error is the root mean square of the relative residuals.
	Error float64
	// Reasons say why there is no fit (the numbers are then NaN), or what is to
	// be doubted about it: an efficiency above 105 %, say.
	Reasons []string
}

// Amdahl fits S(n) = 1/(s + (1-s)/n), the speed-up of work of which the share s
// cannot be divided (Amdahl, AFIPS 1967).
func Amdahl(p []Point) Fit { return fit(p, 2) }

// USL fits the Universal Scalability Law, which adds the cost of coherency
// (Gunther, Guerrilla Capacity Planning, 2007, chapters 4-6). Where Coherency is
// above 0 throughput peaks at sqrt((1-Serial)/Coherency) workers.
func USL(p []Point) Fit { return fit(p, 3) }

// fit finds the law with 2 or 3 parameters. With D = n/X = a + b(n-1) + c n(n-1)
// the law is linear; that gives the start, and Gauss-Newton steps, each again a
// linear problem in a, b and c, lead to the least squares of X itself.
func fit(p []Point, terms int) Fit {
	nan := math.NaN()
	f := Fit{One: nan, Serial: nan, Coherency: nan, Peak: nan, Limit: nan, Error: nan}
	kept := slices.DeleteFunc(slices.Clone(p), func(at Point) bool { return !at.usable() })
	workers := map[float64]bool{}
	top := 0.0
	for _, at := range kept {
		workers[at.Workers] = true
		top = max(top, at.Throughput)
	}
	if len(workers) <= terms {
		f.Reasons = append(f.Reasons, fmt.Sprintf("%d numbers of workers are too few for a law with %d parameters: at least %d are needed", len(workers), terms, terms+1))
		return f
	}
	// Relative residuals for the start: (n/X) D - 1 in units of the largest throughput.
	law, ok := nonNegative(kept, terms, func(at Point) (weight, target float64) {
		return at.Throughput / top / at.Workers, 1
	})
	if !ok {
		f.Reasons = append(f.Reasons, "the points do not determine a law")
		return f
	}
	for range 50 {
		// X(D) ~ X0 - (X0²/n)(D - D0), so X0²/n D is to be 2 X0 - X.
		next, ok := nonNegative(kept, terms, func(at Point) (weight, target float64) {
			x0 := law.throughput(at.Workers)
			return x0 * x0 / at.Workers, 2*x0 - at.Throughput/top
		})
		if !ok || next.squares(kept, top) >= law.squares(kept, top) {
			break
		}
		law = next
	}
	return law.describe(f, kept, top)
}

// law is D(n) = a + b(n-1) + c n(n-1) with throughput in units of the largest.
type law [3]float64

// basis are the factors of a, b and c.
func basis(n float64) [3]float64 { return [3]float64{1, n - 1, n * (n - 1)} }

func (l law) throughput(n float64) float64 {
	t := basis(n)
	return n / (l[0]*t[0] + l[1]*t[1] + l[2]*t[2])
}

func (l law) squares(p []Point, top float64) float64 {
	sum := 0.0
	for _, at := range p {
		r := at.Throughput/top - l.throughput(at.Workers)
		sum += r * r
	}
	return sum
}

// describe turns the law into the parameters that people know.
func (l law) describe(f Fit, p []Point, top float64) Fit {
	f.One, f.Serial, f.Coherency = top/l[0], l[1]/l[0], l[2]/l[0]
	f.Peak, f.Limit = math.Inf(1), f.One/f.Serial
	switch {
	case f.Coherency > 0:
		f.Peak = math.Sqrt(max(0, 1-f.Serial) / f.Coherency)
		f.Limit = top * l.throughput(max(1, f.Peak))
	case f.Serial == 0:
		f.Limit = math.Inf(1)
	}
	sum := 0.0
	for _, at := range p {
		r := top*l.throughput(at.Workers)/at.Throughput - 1
		sum += r * r / float64(len(p))
	}
	f.Error = math.Sqrt(sum)
	for i, e := range Efficiency(p) {
		if e > MaxEfficiency {
			f.Reasons = append(f.Reasons, fmt.Sprintf("efficiency of %.0f %% at %g workers: the baseline is at fault", 100*e, p[i].Workers))
		}
	}
	return f
}

// nonNegative minimises the sum of (weight D(n) - target)² over a > 0 and b, c
// >= 0: of all sets of parameters that may be zero, the best whose others are not
// negative. Only the first terms parameters are used.
func nonNegative(p []Point, terms int, row func(Point) (weight, target float64)) (law, bool) {
	best, least := law{}, math.Inf(1)
	for _, set := range [][]int{{0}, {0, 1}, {0, 2}, {0, 1, 2}} {
		if set[len(set)-1] >= terms {
			continue
		}
		l, ok := solve(p, set, row)
		if !ok {
			continue
		}
		sum := 0.0
		for _, at := range p {
			w, y := row(at)
			t := basis(at.Workers)
			r := w*(l[0]*t[0]+l[1]*t[1]+l[2]*t[2]) - y
			sum += r * r
		}
		if sum < least {
			best, least = l, sum
		}
	}
	return best, !math.IsInf(least, 1)
}

// solve is the least-squares solution in the parameters of set, by the normal
// equations; not ok where they are singular or a parameter comes out negative.
func solve(p []Point, set []int, row func(Point) (weight, target float64)) (law, bool) {
	k := len(set)
	var m [3][4]float64
	for _, at := range p {
		w, y := row(at)
		t := basis(at.Workers)
		for i, a := range set {
			for j, b := range set {
				m[i][j] += w * t[a] * w * t[b]
			}
			m[i][k] += w * t[a] * y
		}
	}
	for i := range k {
		pivot := m[i][i]
		if !(math.Abs(pivot) > 1e-300) {
			return law{}, false
		}
		for j := range k {
			if j == i {
				continue
			}
			f := m[j][i] / pivot
			for c := i; c <= k; c++ {
				m[j][c] -= f * m[i][c]
			}
		}
	}
	var l law
	for i, a := range set {
		l[a] = m[i][k] / m[i][i]
		if !(l[a] >= 0) || math.IsInf(l[a], 1) {
			return law{}, false
		}
	}
	return l, l[0] > 0
}
