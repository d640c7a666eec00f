package claims

import (
	"cmp"
	"errors"
	"fmt"
)

const (
	// slackShare allows for numbers that were computed before they were rounded.
	slackShare = 0.001
	// aboutShare is the tolerance of "about", "approximately" and ~.
	aboutShare = 0.10
	// linearShare is the tolerance of linear scaling.
	linearShare = 0.10
	// maxFollows bounds the lines of one finding.
	maxFollows = 6
)

var percent = unit{name: "%", scale: 0.01}

// Check re-derives everything that the table claims about itself.
func (t *Table) Check() Report {
	r := Report{Title: t.Title, Source: t.Source, Findings: []Finding{}}
	t.implied(&r)
	t.derived(&r)
	for _, s := range t.statements {
		if s.what == "claim" {
			r.Claims++
		} else {
			r.Laws++
		}
		f := Finding{Line: s.line, Text: s.quote, Claimed: s.src}
		tried, err := t.judge(s, &f)
		for _, u := range f.undecided {
			r.Undecided = append(r.Undecided, fmt.Sprintf("line %d: %s: %s", s.line, s.src, u))
		}
		switch {
		case err != nil:
			var u errUnits
			if !errors.As(err, &u) {
				r.Undecided = append(r.Undecided, fmt.Sprintf("line %d: %s: %v", s.line, s.src, err))
				continue
			}
			f.Kind, f.Follows = Unit, []string{u.text}
		case tried == 0:
			why := ""
			if f.skipped != nil {
				why = ": " + f.skipped.Error()
			}
			r.Undecided = append(r.Undecided, fmt.Sprintf("line %d: %s: no row has all the cells that it needs%s", s.line, s.src, why))
			continue
		}
		r.add(f)
	}
	return r
}

// add appends a finding that is not empty, with its length bounded.
func (r *Report) add(f Finding) {
	if len(f.Follows) == 0 {
		return
	}
	if n := len(f.Follows); n > maxFollows {
		f.Follows = append(f.Follows[:maxFollows:maxFollows], fmt.Sprintf("and %d more", n-maxFollows))
	}
	r.Findings = append(r.Findings, f)
}

// derived compares the cells of derived columns with their formulas.
func (t *Table) derived(r *Report) {
	for c, col := range t.columns {
		if col.formula == nil {
			continue
		}
		f := Finding{Kind: Arithmetic, Line: col.line, Text: "column " + col.name, Claimed: col.name + " = " + col.formulaSrc}
		for i := range t.rows {
			x := t.rows[i].cells[c]
			if x.absent || x.foreign != "" {
				continue
			}
			e, err := t.bind(col.formula, i)
			var q quantity
			if err == nil {
				q, err = t.eval(e)
			}
			var u errUnits
			switch {
			case errors.As(err, &u):
				f.Kind, f.Follows = Unit, append(f.Follows, u.text)
				continue
			case err != nil:
				r.Undecided = append(r.Undecided, fmt.Sprintf("line %d: %s: %v", t.rows[i].line, t.ref(i, c), err))
				continue
			case q.dims != x.unit.dims:
				f.Kind = Unit
				f.Follows = append(f.Follows, fmt.Sprintf("the formula gives %s, and %s is %s", q.dims, t.ref(i, c), t.number(i, c)))
				continue
			}
			r.Cells++
			if !areDisjoint(q, x.num.stated(x.unit), slackShare) {
				continue
			}
			text := fmt.Sprintf("%s: %s = %s, printed is %s", t.ref(i, c), t.print(e), show(q.v, x.unit), t.number(i, c))
			if left := leftOut(e); left != "" {
				text += "; " + left
			}
			if o, ok := e.opened(); ok {
				if q, err = t.eval(o); err != nil || !areDisjoint(q, x.num.stated(x.unit), slackShare) {
					r.Undecided = append(r.Undecided, fmt.Sprintf("line %d: %s", t.rows[i].line, text))
					continue
				}
			}
			f.Follows = append(f.Follows, text)
			if len(f.Follows) == 1 {
				if k, readings := t.readings(e, x.num, x.unit); readings != nil {
					f.Kind, f.Readings = k, readings
				}
			} else {
				f.Kind, f.Readings = Arithmetic, nil
			}
		}
		r.add(f)
	}
}

// judge decides one statement. It fills the finding and returns the number of its evaluations. An empty follows means
// no contradiction.
func (t *Table) judge(s statement, f *Finding) (int, error) {
	f.Kind = Arithmetic
	switch s.what {
	case "law":
		f.Kind = Law
	case "ceiling":
		f.Kind = Ceiling
	}
	switch s.form {
	case "":
		return t.compare(s, f)
	case "best", "worst":
		return t.best(s, f)
	case "linear":
		return t.linear(s, f)
	case "exponential":
		return t.exponential(s, f)
	case "same":
		return t.sameJob(s, f)
	case "varies":
		return t.varies(s, f)
	case "exists":
		return t.exists(s, f), nil
	case "whole":
		return t.whole(s, f)
	case "percentile":
		return t.percentile(s, f)
	}
	return t.agree(s, f)
}

// point is one evaluation of an expression.
type point struct {
	e *expr
	q quantity
	// row is the row of the expression's first cell, used to name an arm.
	row int
}

// points evaluates an expression once for each set of cells over the rows selected by
// where. Rows without all the cells are left out.
func (t *Table) points(e *expr, where []selector) ([]point, error) {
	var out []point
	seen := map[string]bool{}
	for i := range t.rows {
		if !t.all(i, where) {
			continue
		}
		b, err := t.bind(e, i)
		if errors.Is(err, errAbsent) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if k := b.places(); seen[k] {
			continue
		} else {
			seen[k] = true
		}
		q, err := t.eval(b)
		if errors.Is(err, errAbsent) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if _, gaps := b.opened(); gaps {
			continue
		}
		p := point{e: b, q: q, row: i}
		if c := b.firstCell(); c != nil {
			p.row = c.row
		}
		out = append(out, p)
	}
	return out, nil
}

// evaluateSides evaluates the two sides of a comparison together, and notes in f why a row is left out.
func (t *Table) evaluateSides(s statement, f *Finding) (l, r []point, err error) {
	pair := &expr{op: "call", fn: "", args: s.args}
	seen := map[string]bool{}
	for i := range t.rows {
		if !t.all(i, s.where) {
			continue
		}
		b, err := t.bind(pair, i)
		if errors.Is(err, errAbsent) {
			f.skipped = cmp.Or(f.skipped, err)
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		if k := b.places(); seen[k] {
			continue
		} else {
			seen[k] = true
		}
		a, err := t.eval(b.args[0])
		var c quantity
		if err == nil {
			c, err = t.eval(b.args[1])
		}
		if errors.Is(err, errAbsent) {
			f.skipped = cmp.Or(f.skipped, err)
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		row := i
		if x := b.firstCell(); x != nil {
			row = x.row
		}
		l, r = append(l, point{b.args[0], a, row}), append(r, point{b.args[1], c, row})
	}
	return l, r, nil
}

func (t *Table) compare(s statement, f *Finding) (int, error) {
	ls, rs, err := t.evaluateSides(s, f)
	if err != nil {
		return 0, err
	}
	slack := slackShare
	if s.within >= 0 {
		slack = s.within
	}
	for i, l := range ls {
		r := rs[i]
		literal := r.e.op == "num"
		u := t.unitOf(l.e, r.e)
		if l.q.dims != r.q.dims {
			f.Kind = Unit
			if literal {
				f.Kind = Metric
			}
			f.Follows = append(f.Follows, fmt.Sprintf("%s is %s, %s is %s", t.print(l.e), l.q.dims, t.print(r.e), r.q.dims))
			if literal && len(f.Follows) == 1 {
				f.Readings = t.digits(l.e, r.e.num)
			}
			continue
		}
		if literal && l.e.op == "cell" && r.e.unit.noun != "" && t.columns[l.e.col].unit.name != "" && r.e.unit.noun != l.q.noun {
			f.Kind = Metric
			f.Follows = append(f.Follows, fmt.Sprintf("%s is %s, which counts %s, not %ss", t.ref(l.e.row, l.e.col), t.print(l.e), things(l.q.noun), r.e.unit.noun))
			if len(f.Follows) == 1 {
				f.Readings = t.digits(l.e, r.e.num)
			}
			continue
		}
		if t.isPossible(s, l.q, r, slack) {
			continue
		}
		value := show(l.q.v, u)
		if c := l.e; c.op == "call" && (c.fn == "change" || c.fn == "diff") {
			value = signed(l.q.v, u)
		}
		text := t.print(l.e) + " = " + value
		if l.e.op == "cell" {
			text = t.ref(l.e.row, l.e.col) + " is " + t.print(l.e)
			if l.e.op == "cell" && u.name != "" && u.name != t.rows[l.e.row].cells[l.e.col].unit.name {
				text += " = " + value
			}
		} else if len(ls) > 1 {
			text = t.keys(l.row, -1) + ": " + text
		}
		switch {
		case literal:
		case r.e.op == "cell":
			text += ", " + t.ref(r.e.row, r.e.col) + " is " + t.print(r.e)
		default:
			text += ", " + t.print(r.e) + " = " + show(r.q.v, u)
		}
		if left := leftOut(l.e, r.e); left != "" {
			text += "; " + left
		}
		if !t.contradicts(s, l, r, slack) {
			f.undecided = append(f.undecided, text)
			continue
		}
		f.Follows = append(f.Follows, text)
		if s.what == "claim" && literal && (s.op == "=" || s.op == "about") && len(f.Follows) == 1 {
			k, readings := t.readings(l.e, r.e.num, r.e.unit)
			if readings != nil {
				f.Kind, f.Readings = k, readings
			} else if l.e.fn == "mean" || l.e.fn == "sum" {
				f.Kind = Average
			}
		}
	}
	return len(ls), nil
}

// contradicts reports whether a statement that does not hold of the values that are there is false whatever the absent
// ones are.
func (t *Table) contradicts(s statement, l, r point, slack float64) bool {
	lo, lgaps := l.e.opened()
	ro, rgaps := r.e.opened()
	if !lgaps && !rgaps {
		return true
	}
	a, err := t.eval(lo)
	if err != nil {
		return false
	}
	b, err := t.eval(ro)
	return err == nil && !t.isPossible(s, a, point{e: r.e, q: b, row: r.row}, slack)
}

func things(noun string) string {
	if noun == "" {
		return "nothing in particular"
	}
	return noun + "s"
}

// isPossible reports whether the statement is true for some values that round to the printed numbers.
func (t *Table) isPossible(s statement, l quantity, r point, slack float64) bool {
	lo, hi := r.q, r.q
	literal := r.e.op == "num"
	switch s.op {
	case "=":
		if literal && s.what == "claim" { // a law's number is not a printed one
			lo = r.e.num.stated(r.e.unit)
		}
		return !areDisjoint(l, lo, slack)
	case "about":
		if s.within < 0 {
			slack = aboutShare
		}
		return !areDisjoint(l, lo.widen(slack), 0)
	case "in":
		lo, hi = bound(r.e), bound(s.hi)
		return l.hi >= lo.lo && l.lo <= hi.hi
	case "<":
		return l.lo < hi.hi
	case "<=":
		return l.lo <= hi.hi+slack*abs(hi.v)
	case ">":
		return l.hi > lo.lo
	}
	return l.hi >= lo.lo-slack*abs(lo.v)
}

// bound returns the end of a range: rounded, but a bound of one digit is not off by half of itself.
func bound(e *expr) quantity {
	q := exact(e.num.v*e.unit.scale, e.unit.dims)
	d := min(e.num.ulp/2*e.unit.scale, 0.05*abs(q.v))
	q.lo, q.hi = q.v-d, q.v+d
	return q
}

// unitOf returns the unit for printing a comparison: that of the claimed number, otherwise that of the first cell if
// it fits.
func (t *Table) unitOf(l, r *expr) unit {
	if r.op == "num" && r.unit.name != "" {
		return r.unit
	}
	if l.op == "call" && l.fn != "ratio" && l.fn != "advantage" && l.fn != "diff" {
		return percent
	}
	q, err := t.eval(l)
	if err != nil {
		return one
	}
	for _, c := range append(l.cells(), r.cells()...) {
		if u := t.rows[c.row].cells[c.col].unit; u.dims == q.dims && u.dims != (dims{}) || l.op == "cell" && c.col == l.col {
			return u
		}
	}
	return base(q.dims)
}

// base returns the plain unit of a dimension, for results whose unit no cell has.
func base(d dims) unit {
	u := one
	u.dims = d
	switch d {
	case dims{time: 1}:
		u.name = "s"
	case dims{time: -1}:
		u.name = "/s"
	case dims{bytes: 1}:
		u.name = "B"
	case dims{bytes: 1, time: -1}:
		u.name = "B/s"
	}
	return u
}
