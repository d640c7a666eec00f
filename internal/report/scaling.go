package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/stats"
)

// scaling draws a metric over a swept parameter: its value in each arm, the speed-up and efficiency of each arm if
// the parameter is a number of workers, and the cost of each arm at each point. Efficiency divides by the arm's own
// first point, so a slow first point inflates it; therefore the cost is drawn too.
func scaling(e *result.Experiment, sw sweep, n int) (Plot, bool) {
	name := primary(e)
	curves := curvesOf(e, sw, name)
	if len(curves) == 0 {
		return Plot{}, false
	}
	p := Plot{Name: "scaling", Title: scalingTitle(e, sw, name)}
	if n > 0 {
		p.Name += fmt.Sprintf("-%d", n+1)
	}
	var alt []string
	for _, c := range curves {
		last := len(c.x) - 1
		alt = append(alt, fmt.Sprintf("%s: %s at %s, %s at %s", c.env, metric.Value(c.y[0], unitOf(e, name)), metric.Digits(c.x[0]), metric.Value(c.y[last], unitOf(e, name)), metric.Digits(c.x[last])))
	}
	p.Alt = strings.Join(alt, ". ")
	p.draw = func(w float64) *scene { return drawScaling(e, sw, name, curves, w) }
	return p, true
}

type curve struct {
	env  string
	x, y []float64
}

func curvesOf(e *result.Experiment, sw sweep, name string) []curve {
	var out []curve
	for i := range e.Environments {
		c := curve{env: e.Environments[i].ID}
		for k, kase := range sw.cases {
			if m, _, _ := Median(e, c.env, kase, name); m != nil {
				c.x, c.y = append(c.x, sw.at[k]), append(c.y, *m)
			}
		}
		if len(c.x) > 1 {
			out = append(out, c)
		}
	}
	return out
}

// relative returns the speed-up or the efficiency of package stats, against the arm's own first point.
func (c curve) relative(higher bool, of func([]stats.Point) []float64) curve {
	p := make([]stats.Point, len(c.x))
	for i := range p {
		p[i] = stats.Point{Workers: c.x[i], Throughput: c.y[i]}
	}
	if !higher {
		p = stats.Strong(c.x, c.y)
	}
	out := curve{env: c.env}
	for i, v := range of(p) {
		if finite(v) {
			out.x, out.y = append(out.x, c.x[i]), append(out.y, v)
		}
	}
	return out
}

// sweepTables returns the sweeps in numbers: for each point the median of each arm, its efficiency if the parameter
// is a number of workers, and its cost against the baseline.
func sweepTables(e *result.Experiment) []*Table {
	var out []*Table
	for _, sw := range sweeps(e) {
		out = append(out, sweepTable(e, sw))
	}
	return out
}

func sweepTable(e *result.Experiment, sw sweep) *Table {
	name := primary(e)
	unit, d := unitOf(e, name), e.Desc(name)
	columns := []string{metric.Words(sw.param)}
	var cells []func(k int) Cell // one for each column after the first, by the place in the sweep
	column := func(title string, cell func(k int) Cell) {
		columns, cells = append(columns, title), append(cells, cell)
	}
	for i := range e.Environments {
		id := e.Environments[i].ID
		column(orDefault(id, "unnamed"), func(k int) Cell {
			m, _, why := Median(e, id, sw.cases[k], name)
			return ValueOrMissing(m, unit, why)
		})
	}
	if sw.parallel() && d != nil && d.Better != "none" {
		for _, c := range curvesOf(e, sw, name) {
			of := c.relative(d.Better == "higher", stats.Efficiency)
			column(orDefault(c.env, "unnamed")+", efficiency", func(k int) Cell {
				i := slices.Index(of.x, sw.at[k])
				if i < 0 {
					return Missing("the arm has no value here")
				}
				return ValueOrMissing(&of.y[i], "ratio", "")
			})
		}
	}
	for i := range e.Environments {
		id := e.Environments[i].ID
		compared := func(kase string) *result.Comparison {
			at := slices.IndexFunc(e.Comparisons, func(c result.Comparison) bool {
				return c.Metric == name && c.Case == kase && c.Treatment == id && c.Baseline == baseline(e)
			})
			if at < 0 {
				return nil
			}
			return &e.Comparisons[at]
		}
		if !slices.ContainsFunc(sw.cases, func(kase string) bool { return compared(kase) != nil }) {
			continue
		}
		column(orDefault(id, "unnamed")+", cost", func(k int) Cell {
			c := compared(sw.cases[k])
			if c == nil {
				return Missing("not compared at this point")
			}
			out := interval(e, c)
			if c.Verdict == stats.Invalid && out.Reason == "" {
				out.Text += ", refused"
			}
			return out
		})
	}
	t := newTable(scalingTitle(e, sw, name), columns...)
	for k := range sw.at {
		row := []Cell{{Text: pointLabel(sw, k, sw.at[k])}}
		for _, cell := range cells {
			row = append(row, cell(k))
		}
		t.add(row...)
	}
	return t.align()
}

// scalingTitle returns the title, which names the swept parameter.
func scalingTitle(e *result.Experiment, sw sweep, name string) string {
	title := fmt.Sprintf("%s over %s", e.Label(name), metric.Words(sw.param))
	if sw.other != "" {
		title += ", " + sw.other
	}
	return title
}

// panel is one chart of several that share their x axis.
type panel struct {
	title  string
	curves []curve
	whisks []whisker
	level  float64 // a line to compare with; 0 is none
	zero   bool    // the axis begins at 0
	unit   string  // of the values
	label  func(axis) func(float64) string
	ratio  bool
}

type whisker struct {
	env       string
	x, lo, hi float64
	point     float64
}

func drawScaling(e *result.Experiment, sw sweep, name string, curves []curve, w float64) *scene {
	unit := unitOf(e, name)
	d := e.Desc(name)
	panels := []panel{{title: titled(e.Label(name), unit), curves: curves, zero: true, unit: unit, label: func(axis) func(float64) string { return valueLabels(unit) }}}
	if sw.parallel() && d != nil && d.Better != "none" {
		speedup := panel{title: "speed-up of each arm by itself", level: 1, zero: true, label: func(axis) func(float64) string { return factor }}
		efficiency := panel{title: "efficiency of each arm by itself", level: 1, zero: true, label: func(axis) func(float64) string { return metric.Percent }}
		for _, c := range curves {
			speedup.curves = append(speedup.curves, c.relative(d.Better == "higher", stats.Speedup))
			efficiency.curves = append(efficiency.curves, c.relative(d.Better == "higher", stats.Efficiency))
		}
		panels = append(panels, speedup, efficiency)
	}
	ratio := panel{title: "cost against " + baseline(e), level: 1, ratio: true, label: ratioLabels}
	for i := range e.Comparisons {
		c := &e.Comparisons[i]
		k := slices.Index(sw.cases, c.Case)
		if k < 0 || c.Metric != name || c.Baseline != baseline(e) || c.Cost == nil || !finite(*c.Cost) || *c.Cost <= 0 {
			continue
		}
		x := whisker{env: c.Treatment, x: sw.at[k], point: *c.Cost, lo: *c.Cost, hi: *c.Cost}
		if lo, hi, ok := costInterval(c); ok && lo > 0 {
			x.lo, x.hi = lo, hi
		}
		ratio.whisks = append(ratio.whisks, x)
	}
	if len(ratio.whisks) > 0 {
		panels = append(panels, ratio)
	}
	s := &scene{w: w}
	var entries []entry
	for i := range e.Environments {
		shape, ink := armLook(e, e.Environments[i].ID)
		entries = append(entries, entry{shape, ink, armTitle(&e.Environments[i])})
	}
	top := s.legend(0, 4, entries) + 26
	columns, gap := len(panels), 26.0
	switch {
	case w < 600:
		columns = 1
	case columns > 3:
		columns = 2
	}
	pw := (w - gap*float64(columns-1)) / float64(columns)
	for i, p := range panels {
		x, y := float64(i%columns)*(pw+gap), top+float64(i/columns)*236
		drawPanel(s, e, sw, p, x, y, pw)
		s.h = y + 170 + 44
	}
	return s
}

func baseline(e *result.Experiment) string {
	if len(e.Environments) == 0 {
		return "the baseline"
	}
	return e.Environments[0].ID
}

func drawPanel(s *scene, e *result.Experiment, sw sweep, p panel, left, top, w float64) {
	const height = 170
	bottom := top + height
	var all []float64
	for _, c := range p.curves {
		all = append(all, c.y...)
	}
	var y axis
	if p.ratio {
		for _, k := range p.whisks {
			all = append(all, max(k.lo, k.point/2), min(k.hi, k.point*2))
		}
		y = ratioAxis(all, 0.01, bottom, top)
	} else {
		y = newAxis(append(all, p.level), bottom, top)
		if p.zero && !y.log {
			y.lo = 0
		}
	}
	label := p.label(y)
	ticks := y.ticksOf(p.unit, 5)
	room := 0.0
	for _, v := range ticks {
		room = max(room, width(label(v), small))
	}
	from, to := left+room+10, left+w-8
	s.words(left, top-16, start, strong, text, fit(p.title, strong, w))
	s.gridY(y, from, to, ticks, label)
	if p.level > 0 && p.level >= y.lo && p.level <= y.hi {
		s.line(from, y.at(p.level), to, y.at(p.level), 1.5, lineBold)
	}
	// Points of a sweep stand at equal distances: doubling is a step.
	x := axis{lo: -0.3, hi: float64(len(sw.at)) - 0.7, from: from, to: to}
	place := func(v float64) float64 { return x.at(float64(slices.Index(sw.at, v))) }
	lastEnd := from - 20
	for i, v := range sw.at {
		t := pointLabel(sw, i, v)
		if half := width(t, small) / 2; x.at(float64(i))-half > lastEnd+6 {
			s.words(x.at(float64(i)), bottom+15, middle, small, dim, t)
			lastEnd = x.at(float64(i)) + half
		}
	}
	s.line(from, bottom, to, bottom, 1, lineBold)
	s.words((from+to)/2, bottom+31, middle, small, dim, metric.Words(sw.param))
	for _, c := range p.curves {
		shape, ink := armLook(e, c.env)
		var at []point
		for i := range c.x {
			at = append(at, point{place(c.x[i]), y.at(c.y[i])})
		}
		s.path(at, 2, ink)
		for i, q := range at {
			s.symbol(shape, q.x, q.y, 4, ink, fmt.Sprintf("%s, %s %s: %s", c.env, metric.Words(sw.param), metric.Digits(c.x[i]), label(c.y[i])))
		}
	}
	for _, k := range p.whisks {
		shape, ink := armLook(e, k.env)
		shift := float64(envIndex(e, k.env)-1) * 7
		px := place(k.x) + shift
		lo, _ := y.in(k.lo)
		hi, _ := y.in(k.hi)
		s.line(px, lo, px, hi, 2, ink)
		s.symbol(shape, px, y.at(k.point), 4, ink, fmt.Sprintf("%s, %s %s: %s", k.env, metric.Words(sw.param), metric.Digits(k.x), metric.TimesOf(k.point, k.lo, k.hi)))
	}
}

// factor prints a speed-up as a label of an axis.
func factor(v float64) string { return metric.Digits(v) + "x" }

// pointLabel returns the parameter as it was written.
func pointLabel(sw sweep, i int, v float64) string {
	if _, written, ok := strings.Cut(sw.cases[i], sw.param+"="); ok {
		written, _, _ = strings.Cut(written, ",")
		return written
	}
	return metric.Digits(v)
}
