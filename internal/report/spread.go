package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/stats"
)

// leastBoxed is the smallest number of runs for which quartiles say more than the runs themselves.
const leastBoxed = 5

// box is what a box plot draws of sorted values: the quartiles, and as whiskers the
// farthest values within 1.5 interquartile ranges of them (J. W. Tukey, Exploratory
// Data Analysis, 1977).
type box struct{ low, first, third, high float64 }

func boxOf(sorted []float64) box {
	b := box{first: stats.Quantile(sorted, 0.25), third: stats.Quantile(sorted, 0.75)}
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

// spreadTable returns the spread of each arm's runs in some cases: median and range, and from leastBoxed runs on the
// quartiles and the variance.
func spreadTable(e *result.Experiment, cases []string, name string) *Table {
	unit := unitOf(e, name)
	t := newTable("Spread of "+e.Label(name), "case", "environment", "runs", "not counted", "median", "range", "quartiles", "standard deviation", "variance")
	between := func(low, high float64) Cell {
		return Cell{Text: joined(metric.Value(low, unit), " to ", metric.Value(high, unit)), Number: true}
	}
	if len(e.Runs) == 0 {
		return t
	}
	boxed, excluded := false, false
	for _, kase := range cases {
		for i := range e.Environments {
			id := e.Environments[i].ID
			good, out := readings(e, id, kase, name)
			why := whyMissing(e, id, kase, name, len(out))
			excluded = excluded || len(out) > 0
			row := []Cell{Text(kase, "unnamed"), Text(id, "unnamed"), countCell(len(good), why), {Text: strconv.Itoa(len(out)), Number: true}, ValueOrMissing(median(good), unit, why)}
			v := values(good)
			slices.Sort(v)
			if len(v) == 0 {
				row = append(row, Missing(why))
			} else {
				row = append(row, between(v[0], v[len(v)-1]))
			}
			if len(v) < leastBoxed {
				few := Missing(fmt.Sprintf("fewer than %d runs", leastBoxed))
				t.add(append(row, few, few, few)...)
				continue
			}
			boxed = true
			b, variance := boxOf(v), stats.Variance(v)
			deviation := math.Sqrt(variance)
			t.add(append(row, between(b.first, b.third),
				Cell{Text: metric.Value(deviation, unit) + " (" + metric.Percent(deviation/math.Abs(stats.Mean(v))) + ")", Raw: fmt.Sprint(deviation), Number: true},
				Cell{Text: metric.Value(variance, ""), Raw: fmt.Sprint(variance), Number: true})...)
		}
	}
	if !boxed {
		for range 3 {
			t.drop(len(t.Columns) - 1)
		}
	} else if u := squared(unit); u != "" { // in the caption, as the column is narrow
		t.Caption += ", variance in " + u
	}
	if !excluded {
		t.drop(slices.Index(t.Columns, "not counted"))
	}
	t.lift("case")
	return t.align()
}
