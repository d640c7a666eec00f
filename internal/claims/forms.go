package claims

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// groups collects points whose rows agree in every key that is not left out.
func (t *Table) groups(ps []point, leaveOut func(c int) bool) [][]point {
	var out [][]point
next:
	for _, p := range ps {
		for i, g := range out {
			agree := true
			for c, col := range t.columns {
				if col.kind.key() && !leaveOut(c) && !t.sameKey(p.row, g[0].row, c) {
					agree = false
				}
			}
			if agree {
				out[i] = append(out[i], p)
				continue next
			}
		}
		out = append(out, []point{p})
	}
	return out
}

func (t *Table) isArm(c int) bool { return t.columns[c].kind == arm }

func (t *Table) armOf(r int) string {
	for c, col := range t.columns {
		if col.kind == arm {
			return t.rows[r].cells[c].text
		}
	}
	return ""
}

// best checks which arm is ahead in each setting.
func (t *Table) best(s statement, f *Finding) (int, error) {
	ps, err := t.points(s.args[0], s.where)
	if err != nil {
		return 0, err
	}
	first := s.args[0].firstCell()
	sign := float64(t.columns[first.col].better)
	if s.form == "worst" {
		sign = -sign
	}
	f.Kind = Best
	tried := 0
	for _, g := range t.groups(ps, t.isArm) {
		at := slices.IndexFunc(g, func(p point) bool { return t.armOf(p.row) == s.label })
		if at < 0 || len(g) < 2 {
			continue
		}
		tried++
		behind := slices.ContainsFunc(g, func(p point) bool { return isBetter(p.q, g[at].q, sign) })
		if !behind {
			continue
		}
		ranked := slices.Clone(g)
		slices.SortStableFunc(ranked, func(a, b point) int {
			switch {
			case a.q.v*sign > b.q.v*sign:
				return -1
			case a.q.v*sign < b.q.v*sign:
				return 1
			}
			return 0
		})
		rank := slices.IndexFunc(ranked, func(p point) bool { return p.row == g[at].row }) + 1
		var list []string
		for _, p := range ranked[:min(len(ranked), 8)] {
			list = append(list, t.armOf(p.row)+" "+t.worth(p))
		}
		place := fmt.Sprintf("%s is number %d of %d", s.label, rank, len(ranked))
		if rank == len(ranked) {
			place = fmt.Sprintf("%s is the last of %d", s.label, rank)
		}
		f.Follows = append(f.Follows, strings.TrimPrefix(t.setting(g[0].row)+": ", ": ")+place+": "+strings.Join(list, ", "))
		if s.form != "best" || len(f.Follows) > 1 || s.args[0].op != "cell" {
			continue
		}
		for c, col := range t.columns { // is it the best by another measure?
			if c == first.col || col.better == 0 || len(f.Readings) == maxReadings {
				continue
			}
			if t.leads(g, at, c) {
				f.Readings = append(f.Readings, fmt.Sprintf("it is the best by %s: %s", col.name, t.number(g[at].row, c)))
			}
		}
	}
	return tried, nil
}

// isBetter reports whether a is better than b beyond rounding.
func isBetter(a, b quantity, sign float64) bool {
	if sign > 0 {
		return a.lo > b.hi
	}
	return a.hi < b.lo
}

// clearly reports whether a is ahead by more than a hundredth, to rank different metrics.
func clearly(a, b quantity, sign float64) bool { return isBetter(a, b.widen(0.01), sign) }

func (t *Table) leads(g []point, at, c int) bool {
	own, err := t.value(g[at].row, c)
	if err != nil {
		return false
	}
	for i, p := range g {
		q, err := t.value(p.row, c)
		if err != nil || i != at && !isBetter(own, q, float64(t.columns[c].better)) {
			return false
		}
	}
	return true
}

// worth prints the value of a point, a single cell unchanged.
func (t *Table) worth(p point) string {
	if p.e.op == "cell" {
		return t.number(p.e.row, p.e.col)
	}
	return show(p.q.v, t.unitOf(p.e, &expr{op: "agg"}))
}

// linear checks that a value is proportional to a parameter.
func (t *Table) linear(s statement, f *Finding) (int, error) {
	ps, err := t.points(s.args[0], s.where)
	if err != nil {
		return 0, err
	}
	par := s.args[1].col
	limit := s.within
	if limit < 0 {
		limit = linearShare
	}
	f.Kind = Scaling
	tried := 0
	for _, g := range t.groups(ps, func(c int) bool { return c == par || t.columns[c].kind == work }) {
		x := func(p point) float64 { q, _ := t.value(p.row, par); return q.v }
		g = slices.DeleteFunc(g, func(p point) bool { return x(p) <= 0 })
		if len(g) < 2 {
			continue
		}
		tried++
		slices.SortFunc(g, func(a, b point) int {
			if x(a) < x(b) {
				return -1
			}
			return 1
		})
		for _, p := range g[1:] {
			grow := x(p) / x(g[0])
			ratio, ok := div(p.q, g[0].q)
			if !ok || !areDisjoint(ratio, exact(grow, dims{}).widen(limit), 0) {
				continue
			}
			if grow >= 2 && ratio.v > 0 && ratio.v < 1.25 {
				f.Kind = FixedCost
			}
			name := strings.Trim(t.armOf(p.row)+", ", ", ")
			f.Follows = append(f.Follows, strings.TrimPrefix(name+": ", ": ")+fmt.Sprintf("%s from %s to %s is %s x, the value from %s to %s is %s x: %s of linear",
				t.columns[par].name, t.number(g[0].row, par), t.number(p.row, par), group(grow), t.worth(g[0]), t.worth(p), group(ratio.v), show(ratio.v/grow, percent)))
		}
	}
	return tried, nil
}

// sameJob checks that a value is equal in all arms of a setting.
func (t *Table) sameJob(s statement, f *Finding) (int, error) {
	ps, err := t.points(s.args[0], s.where)
	if err != nil {
		return 0, err
	}
	slack := slackShare
	if s.within >= 0 {
		slack = s.within
	}
	f.Kind = Jobs
	tried := 0
	for _, g := range t.groups(ps, t.isArm) {
		if len(g) < 2 {
			continue
		}
		tried++
		f.Follows = append(f.Follows, t.unlike(g, slack)...)
	}
	return tried, nil
}

// unlike lists the points that differ from the first of their group.
func (t *Table) unlike(g []point, slack float64) []string {
	var out []string
	for _, p := range g[1:] {
		if !areDisjoint(p.q, g[0].q, slack) {
			continue
		}
		s := fmt.Sprintf("%s did %s, %s did %s", t.keys(g[0].row, -1), t.spell(g[0]), t.keys(p.row, -1), t.spell(p))
		if q, ok := div(p.q, g[0].q); ok {
			s += ": " + group(q.v) + " x"
		}
		out = append(out, s)
	}
	return out
}

// spell returns a point with its arithmetic.
func (t *Table) spell(p point) string {
	if p.e.op == "cell" {
		return t.worth(p)
	}
	return t.print(p.e) + " = " + t.worth(p)
}

// varies checks that supposedly measured values are not one constant.
func (t *Table) varies(s statement, f *Finding) (int, error) {
	ps, err := t.points(s.args[0], s.where)
	if err != nil || len(ps) < 3 {
		return 0, err
	}
	lo, hi := math.Inf(-1), math.Inf(1)
	for _, p := range ps {
		lo, hi = max(lo, p.q.lo), min(hi, p.q.hi)
	}
	if lo > hi || hi <= 0 || (hi-lo) > 0.15*hi {
		return len(ps), nil
	}
	u := t.unitOf(ps[0].e, &expr{op: "agg"})
	f.Kind = Constant
	f.Follows = []string{fmt.Sprintf("one constant explains all %d values: %s lies between what every row allows, %s and %s", len(ps), show(roundest(lo/u.scale, hi/u.scale)*u.scale, u), show(lo, u), show(hi, u))}
	for _, p := range ps {
		f.Follows = append(f.Follows, t.keys(p.row, -1)+": "+t.spell(p))
	}
	return len(ps), nil
}

// roundest returns the number with the fewest digits in an interval.
func roundest(lo, hi float64) float64 {
	if lo <= 0 {
		return hi
	}
	for step := math.Pow10(int(math.Ceil(math.Log10(hi)))); step > hi*1e-9; step /= 10 {
		for _, m := range []float64{1, 0.5} {
			if v := math.Ceil(lo/(step*m)) * step * m; v <= hi {
				return v
			}
		}
	}
	return (lo + hi) / 2
}

// exists checks that the table has the row mentioned in a text.
func (t *Table) exists(s statement, f *Finding) int {
	if s.lit.at {
		return 1
	}
	f.Kind = Missing
	sel := s.lit.sel[0]
	f.Follows = []string{fmt.Sprintf("no row has %s=%s; there are %s", t.columns[sel.col].name, sel.text, t.values(sel.col))}
	sorted := func(s string) string {
		r := []rune(s)
		slices.Sort(r)
		return string(r)
	}
	for _, r := range t.rows {
		x := r.cells[sel.col]
		if !t.columns[sel.col].kind.text() && x.text != sel.num.text && sorted(x.num.text) == sorted(sel.num.text) {
			f.Readings = append(f.Readings, fmt.Sprintf("%s has the same digits in another order", x.text))
			break
		}
	}
	return 1
}

// whole checks that a count is a whole number.
func (t *Table) whole(s statement, f *Finding) (int, error) {
	ps, err := t.points(s.args[0], s.where)
	for _, p := range ps {
		if math.Floor(p.q.hi+1e-9) < math.Ceil(p.q.lo-1e-9) {
			f.Follows = append(f.Follows, t.print(p.e)+" = "+group(p.q.v)+", which is not whole")
		}
	}
	return len(ps), err
}

// percentile checks that there are enough samples for the percentile: with fewer than five above it, it only
// describes the largest few.
func (t *Table) percentile(s statement, f *Finding) (int, error) {
	q := s.args[1].num.v / 100
	ps, err := t.points(s.args[2], s.where)
	f.Kind = Percentile
	for _, p := range ps {
		above := p.q.v * (1 - q)
		if above >= 5-1e-9 {
			continue
		}
		what := "hangs on the largest few"
		if above <= 1+1e-9 {
			what = "is the largest of them"
		}
		f.Follows = append(f.Follows, fmt.Sprintf("%s: of %s only %s x (100 %% - %s %%) = %s lies above, so %s = %s %s; five above it need %s",
			t.keys(p.row, -1), t.worth(p), group(p.q.v), s.args[1].num.text, group(above),
			t.columns[s.args[0].col].name, t.number(p.row, s.args[0].col), what, group(math.Ceil(5/(1-q)-1e-9))))
	}
	return len(ps), err
}

// agree checks that two metrics of the same work rank the arms alike.
func (t *Table) agree(s statement, f *Finding) (int, error) {
	ps, err := t.points(s.args[0], s.where)
	if err != nil {
		return 0, err
	}
	a, b := s.args[0].col, s.args[1].col
	f.Kind = Order
	tried := 0
	for _, g := range t.groups(ps, t.isArm) {
		for i, p := range g {
			for _, o := range g[i+1:] {
				x, err1 := t.eval(&expr{op: "cell", row: p.row, col: b})
				y, err2 := t.eval(&expr{op: "cell", row: o.row, col: b})
				if err := errors.Join(err1, err2); err != nil {
					continue
				}
				tried++
				sa, sb := float64(t.columns[a].better), float64(t.columns[b].better)
				win, lose := p, o
				if clearly(o.q, p.q, sa) {
					win, lose, x, y = o, p, y, x
				}
				if !clearly(win.q, lose.q, sa) || !clearly(y, x, sb) {
					continue
				}
				f.Follows = append(f.Follows, strings.TrimPrefix(t.setting(p.row)+": ", ": ")+fmt.Sprintf("%s is ahead of %s by %s (%s against %s) and behind by %s (%s against %s)",
					t.armOf(win.row), t.armOf(lose.row), t.columns[a].name, t.number(win.row, a), t.number(lose.row, a), t.columns[b].name, t.number(win.row, b), t.number(lose.row, b)))
			}
		}
	}
	return tried, nil
}
