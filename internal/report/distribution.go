package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/result"
)

// distribution draws every run of each arm as a point on a box plot, and below, on
// the same axis, the share of runs up to each value.
func distribution(e *result.Experiment, kase, name string) (Plot, bool) {
	var alt []string
	n := 0
	for i := range e.Environments {
		id := e.Environments[i].ID
		good, out := readings(e, id, kase, name)
		n += len(good)
		if m := median(good); m != nil {
			v := values(good)
			alt = append(alt, fmt.Sprintf("%s: %s from %s to %s, median %s, %d not counted", id, metric.Plural(len(good), "run"), metric.Value(slices.Min(v), unitOf(e, name)), metric.Value(slices.Max(v), unitOf(e, name)), metric.Value(*m, unitOf(e, name)), len(out)))
		}
	}
	if n == 0 {
		return Plot{}, false
	}
	return Plot{
		Name: strings.TrimSuffix("distribution-"+slug(kase), "-"), Title: "All runs: " + e.Label(name) + inCase(e, kase), Alt: strings.Join(alt, ". "),
		draw: func(w float64) *scene { return drawDistribution(e, kase, name, w) },
	}, true
}

func drawDistribution(e *result.Experiment, kase, name string, w float64) *scene {
	s := &scene{w: w}
	unit := unitOf(e, name)
	left := 0.0
	for i := range e.Environments {
		left = max(left, width(armTitle(&e.Environments[i]), plain))
	}
	left = min(max(left+30, 64), 0.36*w)
	var all []float64
	for i := range e.Environments {
		good, out := readings(e, e.Environments[i].ID, kase, name)
		all = append(append(all, values(good)...), values(out)...)
	}
	a := newAxis(all, left, w-14)
	rowH, top := 34.0, 6.0
	rows := float64(len(e.Environments))
	ecdfTop := top + rows*rowH + 14
	ecdfBottom := ecdfTop + 130
	ticks := a.ticksOf(unit, max(3, int((a.to-a.from)/84)))
	title := titled(e.Label(name), unit)
	if a.log {
		title += " (logarithmic)"
	}
	s.gridX(a, top, ecdfBottom, ticks, valueLabels(unit), title+betterText(e, name))
	share := axis{lo: 0, hi: 1, from: ecdfBottom, to: ecdfTop}
	s.gridY(share, a.from, a.to, []float64{0, 0.5, 1}, metric.Percent)
	for i := range e.Environments {
		v := &e.Environments[i]
		shape, ink := armLook(e, v.ID)
		good, out := readings(e, v.ID, kase, name)
		y := top + rowH*(float64(i)+0.5)
		arm := armTitle(v)
		s.symbol(shape, 6, y, 4.5, ink, "")
		s.words(18, y+4.5, start, plain, text, fit(arm, plain, left-22))
		if len(good)+len(out) == 0 {
			s.words(a.from, y+4.5, start, small, dim, fit("missing: "+whyMissing(e, v.ID, kase, name, 0), small, a.to-a.from))
			continue
		}
		if m := median(good); m != nil {
			s.line(a.at(*m), y-13, a.at(*m), y+13, 2.5, text).tip = arm + ": median " + metric.Value(*m, unit)
		}
		s.drawBox(good, a, y)
		for k, r := range good {
			s.symbol(shape, a.at(r.value), y+spread(k), 4, ink, fmt.Sprintf("%s: %s", r.run.ID, metric.Value(r.value, unit)))
		}
		for k, r := range out {
			s.symbol(cross, a.at(r.value), y+spread(k), 4, rest, fmt.Sprintf("%s, %s: %s", r.run.ID, r.run.Status, metric.Value(r.value, unit)))
		}
		s.path(steps(good, a, share), 2, ink)
	}
	s.h = ecdfBottom + 40
	return s
}

// spread returns the vertical offset of a point in a strip, always the same for the same k.
func spread(k int) float64 { return []float64{0, -6, 6, -3, 3, -9, 9}[k%7] }

// steps returns the empirical distribution of the runs.
func steps(good []reading, a, share axis) []point {
	v := values(good)
	slices.Sort(v)
	if len(v) == 0 {
		return nil
	}
	at := func(x, y float64) point { px, _ := a.in(x); return point{px, share.at(y)} }
	out := []point{at(a.lo, 0)}
	for i, x := range v {
		out = append(out, at(x, float64(i)/float64(len(v))), at(x, float64(i+1)/float64(len(v))))
	}
	return append(out, at(a.hi, 1))
}

func betterText(e *result.Experiment, name string) string {
	if d := e.Desc(name); d != nil {
		switch d.Better {
		case "lower":
			return ", lower is better"
		case "higher":
			return ", higher is better"
		}
	}
	return ""
}

// runOrder draws each run as its distance from the median of its arm and case, in the order of time, which shows
// drift and slow warm-up.
func runOrder(e *result.Experiment) (Plot, bool) {
	name := primary(e)
	type dot struct {
		env, name string
		order     int
		value     float64
		out       bool
	}
	var dots []dot
	for i := range e.Environments {
		for _, kase := range CaseIDs(e) {
			good, out := readings(e, e.Environments[i].ID, kase, name)
			m := median(good)
			if m == nil || *m <= 0 {
				continue
			}
			for _, r := range good {
				dots = append(dots, dot{e.Environments[i].ID, r.run.ID, r.order, r.value / *m, false})
			}
			for _, r := range out {
				dots = append(dots, dot{e.Environments[i].ID, r.run.ID, r.order, r.value / *m, true})
			}
		}
	}
	if len(dots) < 4 {
		return Plot{}, false
	}
	var v []float64
	for _, d := range dots {
		v = append(v, d.value)
	}
	p := Plot{Name: "run-order", Title: "Runs in order of time"}
	p.Alt = fmt.Sprintf("%d runs; each against the median of its arm: from %s to %s.", len(dots), metric.Change(slices.Min(v)), metric.Change(slices.Max(v)))
	p.draw = func(w float64) *scene {
		s := &scene{w: w}
		var entries []entry
		for i := range e.Environments {
			shape, ink := armLook(e, e.Environments[i].ID)
			entries = append(entries, entry{shape, ink, armTitle(&e.Environments[i])})
		}
		if slices.ContainsFunc(dots, func(d dot) bool { return d.out }) {
			entries = append(entries, entry{cross, rest, "not counted"})
		}
		top := s.legend(0, 4, entries) + 6
		bottom := top + 170
		far := 0.03
		for _, x := range v {
			far = max(far, math.Abs(x-1))
		}
		y := axis{lo: max(0, 1-far*1.15), hi: 1 + far*1.15, from: bottom, to: top}
		left := 58.0
		x := axis{lo: 0, hi: float64(max(len(e.Runs), 2) + 1), from: left, to: w - 12}
		ticks := y.ticks(5)
		s.gridY(y, left, w-12, ticks, func(r float64) string {
			if math.Abs(r-1) < 1e-9 {
				return "median"
			}
			return metric.Change(r)
		})
		s.line(left, y.at(1), w-12, y.at(1), 1.5, lineBold)
		step := math.Max(1, math.Ceil(roundStep(float64(len(e.Runs))/(w/90))))
		var runs []float64
		for n := step; n <= float64(len(e.Runs)); n += step {
			runs = append(runs, n)
		}
		s.gridX(x, bottom, bottom, runs, metric.Digits, "run, in order of time")
		for _, d := range dots {
			shape, ink := armLook(e, d.env)
			if d.out {
				shape, ink = cross, rest
			}
			s.symbol(shape, x.at(float64(d.order+1)), y.at(d.value), 4, ink, fmt.Sprintf("%s: %s", d.name, metric.Change(d.value)))
		}
		s.h = bottom + 40
		return s
	}
	return p, true
}
