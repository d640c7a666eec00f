package report

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/result"
)

// leastBoxed is how many runs have quartiles that say more than the runs do.
const leastBoxed = 5

// box is what a box plot draws of sorted values: the quartiles, and as whiskers the
// farthest values within 1.5 interquartile ranges of them (J. W. Tukey, Exploratory
// Data Analysis, 1977).
type box struct{ low, first, median, third, high float64 }

func boxOf(sorted []float64) box {
	quantile := func(p float64) float64 { return stat.Quantile(p, stat.LinInterp, sorted, nil) }
	b := box{first: quantile(0.25), median: quantile(0.5), third: quantile(0.75)}
	reach := 1.5 * (b.third - b.first)
	b.low, b.high = b.first, b.third
	for _, v := range sorted {
		if v >= b.first-reach {
			b.low = min(b.low, v)
		}
		if v <= b.third+reach {
			b.high = max(b.high, v)
		}
	}
	return b
}

// drawBox draws the box of an arm's runs around y.
func (s *scene) drawBox(good []reading, a axis, y float64) {
	if len(good) < leastBoxed {
		return
	}
	v := values(good)
	slices.Sort(v)
	b := boxOf(v)
	const half = 11
	left, right := a.at(b.first), a.at(b.third)
	s.path([]point{{left, y - half}, {right, y - half}, {right, y + half}, {left, y + half}, {left, y - half}}, 1, dim)
	s.line(a.at(b.low), y, left, y, 1, dim)
	s.line(right, y, a.at(b.high), y, 1, dim)
	for _, end := range []float64{b.low, b.high} {
		s.line(a.at(end), y-half/2, a.at(end), y+half/2, 1, dim)
	}
}

// spreadTable says in numbers how the runs of each arm are spread, for the metric
// and the cases that are drawn.
func spreadTable(e *result.Experiment) *Table {
	name := primary(e)
	unit := unitOf(e, name)
	caption := "Spread of " + label(name, unit)
	if u := squared(unit); u != "" { // said once, as the column is narrow
		caption += ", variance in " + u
	}
	t := newTable(caption, "case", "environment", "runs", "median", "quartiles", "range", "standard deviation", "variance")
	for _, kase := range plottedCases(e) {
		for i := range e.Environments {
			id := e.Environments[i].ID
			good, _ := readings(e, id, kase, name)
			if len(good) < leastBoxed {
				continue
			}
			v := values(good)
			slices.Sort(v)
			b, variance := boxOf(v), stat.Variance(v, nil)
			deviation := math.Sqrt(variance)
			between := func(low, high float64) Cell {
				return Cell{Text: metric.Value(low, unit) + " to " + metric.Value(high, unit), Number: true}
			}
			t.add(Text(kase, "unnamed"), Text(id, "unnamed"), Cell{Text: fmt.Sprint(len(v)), Number: true}, Or(&b.median, unit, ""),
				between(b.first, b.third), between(v[0], v[len(v)-1]),
				Cell{Text: metric.Value(deviation, unit) + " (" + metric.Percent(deviation/math.Abs(stat.Mean(v, nil))) + ")", Raw: fmt.Sprint(deviation), Number: true},
				Cell{Text: metric.Value(variance, ""), Raw: fmt.Sprint(variance), Number: true})
		}
	}
	t.lift("case")
	return t.align()
}
