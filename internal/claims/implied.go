package claims

import (
	"fmt"
	"math"
	"slices"

	"github.com/teescope/teescope/internal/stats"
)

// implied makes the checks that follow from the kinds of the columns, without a claim.
func (t *Table) implied(r *Report) {
	for c, col := range t.columns {
		switch {
		case col.kind.text():
			continue
		case col.kind == job:
			t.jobs(r, c)
		}
		t.cellsOf(r, c)
	}
	for c, col := range t.columns {
		if col.kind != scale && col.kind != work {
			continue
		}
		for y, value := range t.columns {
			if value.kind != measure || value.formula != nil {
				continue
			}
			switch {
			case col.kind == scale && value.better > 0 && value.unit.time == -1:
				t.scaling(r, c, y)
			case col.kind == work:
				t.fixedCost(r, c, y)
			}
		}
	}
}

// cellsOf finds impossible values and foreign units in one column.
func (t *Table) cellsOf(r *Report, c int) {
	col := t.columns[c]
	units := Finding{Kind: Unit, Line: col.line, Text: "column " + col.name, Claimed: fmt.Sprintf("%s is in %s", col.name, orPlain(col.unit.name))}
	impossible := Finding{Kind: Impossible, Line: col.line, Text: "column " + col.name, Claimed: "a " + col.name + " is not negative; a column of differences says `difference`"}
	scaling := Finding{Kind: Scaling, Line: col.line, Text: "column " + col.name, Claimed: "an efficiency of scaling"}
	if col.part {
		impossible.Claimed = fmt.Sprintf("%s is a part of a whole: 0 to 100 %%", col.name)
	}
	for i := range t.rows {
		x := t.rows[i].cells[c]
		if x.absent {
			continue
		}
		if x.unknown {
			r.Undecided = append(r.Undecided, fmt.Sprintf("line %d: %s is %q, and the unit %s is not known", t.rows[i].line, t.ref(i, c), x.text, x.foreign))
			continue
		}
		if x.foreign != "" {
			units.Follows = append(units.Follows, fmt.Sprintf("%s is printed as %q", t.ref(i, c), x.text))
			continue
		}
		v := x.num.v * x.unit.scale
		if v < 0 && !col.signed || col.part && v > 1+slackShare {
			impossible.Follows = append(impossible.Follows, t.ref(i, c)+" is "+t.number(i, c))
		}
		if col.efficiency && v > stats.MaxEfficiency {
			scaling.Follows = append(scaling.Follows, fmt.Sprintf("%s is %s, above %s: look at the baseline", t.ref(i, c), t.number(i, c), show(stats.MaxEfficiency, percent)))
		}
	}
	r.add(units)
	r.add(impossible)
	r.add(scaling)
}

// jobs compares the work counts of the arms.
func (t *Table) jobs(r *Report, c int) {
	col := t.columns[c]
	ps, err := t.points(&expr{op: "cell", col: c}, nil)
	if err != nil {
		return
	}
	f := Finding{Kind: Jobs, Line: col.line, Text: "column " + col.name, Claimed: "the same " + col.name + " in all arms"}
	for _, g := range t.groups(ps, t.isArm) {
		f.Follows = append(f.Follows, t.unlike(g, 0)...)
	}
	r.add(f)
}

// scaling looks for superlinear scaling and for a first point that is out of line with
// the steps between the others.
func (t *Table) scaling(r *Report, p, y int) {
	ps, err := t.points(&expr{op: "cell", col: y}, nil)
	if err != nil {
		return
	}
	f := Finding{Kind: Scaling, Line: t.columns[y].line, Text: fmt.Sprintf("scaling of %s over %s", t.columns[y].name, t.columns[p].name)}
	x := func(q point) float64 { v, _ := t.value(q.row, p); return v.v }
	for _, g := range t.groups(ps, func(c int) bool { return c == p || t.columns[c].kind == work }) {
		g = slices.DeleteFunc(g, func(q point) bool { return x(q) <= 0 || q.q.lo <= 0 })
		slices.SortFunc(g, func(a, b point) int { return int(math.Copysign(1, x(a)-x(b))) })
		if len(g) < 2 {
			continue
		}
		first, above := g[0], 0
		for _, q := range g[1:] {
			ratio, _ := div(q.q, first.q)
			grow := x(q) / x(first)
			if ratio.lo/grow > stats.MaxEfficiency {
				above++
				f.Follows = append(f.Follows, fmt.Sprintf("%s: %s / (%s x %s) = %s of linear", t.keys(q.row, -1), t.worth(q), group(grow), t.worth(first), show(ratio.v/grow, percent)))
			}
		}
		last := g[len(g)-1]
		other := func() string {
			return fmt.Sprintf("%s against the point at %s instead of %s: %s / (%s x %s) = %s at %s", t.columns[y].name, t.number(g[1].row, p), t.number(first.row, p),
				t.worth(last), group(x(last)/x(g[1])), t.worth(g[1]), show(last.q.v/g[1].q.v/(x(last)/x(g[1])), percent), t.number(last.row, p))
		}
		if above > 0 {
			if len(g) > 2 && len(f.Readings) < maxReadings {
				f.Readings = append(f.Readings, other())
			}
			continue
		}
		if d, lo, hi, ok := firstStep(g, x); ok && (d < lo-math.Ln2 || d > hi+math.Ln2) {
			f.Follows = append(f.Follows, fmt.Sprintf("%s: per %s it is %s and then %s, %s x; the later steps are %s to %s x: the baseline is out of line",
				t.keys(first.row, -1), t.columns[p].name, show(first.q.v/x(first), t.columns[y].unit), show(g[1].q.v/x(g[1]), t.columns[y].unit), group(math.Exp(d)), group(math.Exp(lo)), group(math.Exp(hi))))
			if len(f.Readings) < maxReadings {
				f.Readings = append(f.Readings, other())
			}
		}
	}
	f.Claimed = "the first point is a baseline for the others"
	r.add(f)
}

// firstStep returns the step of the value per worker from the first to the second point, as a logarithm, and the
// range of the later steps.
func firstStep(g []point, x func(point) float64) (d, lo, hi float64, ok bool) {
	if len(g) < 4 {
		return 0, 0, 0, false
	}
	lo, hi = math.Inf(1), math.Inf(-1)
	for i := 1; i < len(g); i++ {
		s := math.Log(g[i].q.v/x(g[i])) - math.Log(g[i-1].q.v/x(g[i-1]))
		if i == 1 {
			d = s
			continue
		}
		lo, hi = min(lo, s), max(hi, s)
	}
	return d, lo, hi, true
}

// fixedCost looks for much more work in the same time: such a time measures something
// that does not depend on the work, and the rate is not a throughput.
func (t *Table) fixedCost(r *Report, w, y int) {
	value, amount := t.columns[y], t.columns[w]
	rate := value.better > 0 && value.unit.dims == dims{amount.unit.time - 1, amount.unit.bytes, amount.unit.money}
	if !rate && !value.elapsed {
		return
	}
	e := &expr{op: "cell", col: y}
	if rate {
		e = &expr{op: "/", args: []*expr{{op: "cell", col: w}, e}}
	}
	ps, err := t.points(e, nil)
	if err != nil {
		return
	}
	f := Finding{Kind: FixedCost, Line: value.line, Text: fmt.Sprintf("%s over %s", value.name, amount.name), Claimed: "more work takes more time"}
	x := func(p point) float64 { v, _ := t.value(p.row, w); return v.v }
	for _, g := range t.groups(ps, func(c int) bool { return c == w || t.columns[c].kind == label }) {
		for i, a := range g {
			for _, b := range g[i+1:] {
				if x(a) > x(b) {
					a, b = b, a
				}
				more, _ := div(exact(x(b), dims{}), exact(x(a), dims{}))
				longer, ok := div(b.q, a.q)
				if x(a) <= 0 || !ok || more.v < 2 || longer.hi < 0.9 || longer.lo > 1.1 || longer.v > 1+(more.v-1)/4 {
					continue
				}
				f.Follows = append(f.Follows, fmt.Sprintf("%s: %s; %s: %s: %s x the work in %s x the time", t.keys(a.row, -1), t.spell(a), t.keys(b.row, -1), t.spell(b), group(more.v), group(longer.v)))
			}
		}
	}
	r.add(f)
}
