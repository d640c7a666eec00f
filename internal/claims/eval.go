package claims

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// errAbsent is why a formula has no value: a cell is absent, a divisor may be zero, or a row has no counterpart. It
// is not a contradiction.
var errAbsent = errors.New("unavailable")

// errUnits means that the units in a formula do not fit, which is a contradiction.
type errUnits struct{ text string }

func (e errUnits) Error() string { return e.text }

// bind gives every cell of a formula its row. A cell without a selector is in row r;
// with one it is in the row that matches the selector and equals r in every other key.
func (t *Table) bind(e *expr, r int) (*expr, error) {
	b := *e
	b.args = nil
	if e.op == "cell" {
		at, err := t.lookup(r, e.sel)
		b.row, b.at = at, true
		return &b, err
	}
	if e.op == "agg" {
		seen := map[string]bool{}
		for i := range t.rows {
			if !t.all(i, e.cond) {
				continue
			}
			a, err := t.bind(e.args[0], i)
			if err != nil {
				if errors.Is(err, errAbsent) {
					continue
				}
				return nil, err
			}
			k := a.places()
			if seen[k] {
				continue
			}
			seen[k] = true
			if _, err := t.eval(a); errors.Is(err, errAbsent) {
				b.left++
				if !slices.ContainsFunc(a.cells(), func(c *expr) bool { return t.blank(c.row, c.col) }) {
					b.gaps++
				}
				continue
			}
			b.args = append(b.args, a)
		}
		if len(b.args) == 0 {
			return nil, fmt.Errorf("%s of no values, %d are absent: %w", e.fn, b.left, errAbsent)
		}
		return &b, nil
	}
	for _, a := range e.args {
		x, err := t.bind(a, r)
		if err != nil {
			return nil, err
		}
		b.args = append(b.args, x)
	}
	return &b, nil
}

func (t *Table) all(r int, sel []selector) bool {
	for _, s := range sel {
		if !t.matches(r, s) {
			return false
		}
	}
	return true
}

func (t *Table) lookup(r int, sel []selector) (int, error) {
	if len(sel) == 0 {
		return r, nil
	}
	at := -1
	for i := range t.rows {
		if !t.all(i, sel) || !t.alike(i, r, sel) {
			continue
		}
		if at >= 0 {
			return 0, fmt.Errorf("more than one row: %w", errAbsent)
		}
		at = i
	}
	if at < 0 {
		return 0, fmt.Errorf("no such row: %w", errAbsent)
	}
	return at, nil
}

// alike reports whether two rows agree in every key that sel does not name.
func (t *Table) alike(a, b int, sel []selector) bool {
	for c, col := range t.columns {
		if !col.kind.key() || slices.ContainsFunc(sel, func(s selector) bool { return s.col == c }) {
			continue
		}
		if !t.sameKey(a, b, c) {
			return false
		}
	}
	return true
}

func (t *Table) sameKey(a, b, c int) bool {
	x, y := t.rows[a].cells[c], t.rows[b].cells[c]
	if t.columns[c].kind.text() {
		return x.text == y.text
	}
	if x.absent || y.absent {
		return x.absent && y.absent
	}
	return same(x.num.v*x.unit.scale, y.num.v*y.unit.scale)
}

// places identifies a bound formula by its cells.
func (e *expr) places() string {
	var b strings.Builder
	for _, c := range e.cells() {
		fmt.Fprintf(&b, "%d:%d ", c.row, c.col)
	}
	return b.String()
}

// value returns a cell as a quantity: parameters are exact, measurements are rounded.
func (t *Table) value(r, c int) (quantity, error) {
	x, col := t.rows[r].cells[c], t.columns[c]
	switch {
	case x.absent:
		return quantity{}, fmt.Errorf("%s is absent: %w", t.ref(r, c), errAbsent)
	case x.foreign != "":
		return quantity{}, fmt.Errorf("%s has another unit: %w", t.ref(r, c), errAbsent)
	case col.kind != measure:
		q := exact(x.num.v*x.unit.scale, x.unit.dims)
		q.noun = x.unit.noun
		return q, nil
	}
	return x.num.rounded(x.unit), nil
}

// eval evaluates a bound formula.
func (t *Table) eval(e *expr) (quantity, error) {
	switch e.op {
	case "num":
		return exact(e.num.v*e.unit.scale, e.unit.dims), nil
	case "cell":
		return t.value(e.row, e.col)
	case "agg":
		return t.aggregate(e)
	}
	a, err := t.eval(e.args[0])
	if err != nil {
		return a, err
	}
	b, err := t.eval(e.args[1])
	if err != nil {
		return b, err
	}
	if e.op != "*" && e.op != "/" && a.dims != b.dims {
		return a, errUnits{fmt.Sprintf("%s is %s and %s is %s", t.print(e.args[0]), a.dims, t.print(e.args[1]), b.dims)}
	}
	switch e.op {
	case "+":
		return add(a, b), nil
	case "-":
		return sub(a, b), nil
	case "*":
		return mul(a, b), nil
	}
	name := e.fn
	if e.op == "/" {
		name = "ratio"
	}
	lowerIsBetter := false
	if c := e.args[0].firstCell(); c != nil {
		lowerIsBetter = t.columns[c.col].better < 0
	}
	if name == "diff" {
		return sub(a, b), nil
	}
	if name == "advantage" && lowerIsBetter {
		a, b = b, a
	}
	q, ok := div(a, b)
	if !ok {
		return q, fmt.Errorf("%s may be zero: %w", t.print(e.args[1]), errAbsent)
	}
	// a/b - 1 rather than (a-b)/b, so b is rounded once.
	switch {
	case name == "change", name == "worse" && lowerIsBetter:
		q = sub(q, exact(1, dims{}))
	case name == "worse":
		q = sub(exact(1, dims{}), q)
	}
	open := slices.ContainsFunc(e.aggregates(), func(a *expr) bool { return a.open && a.gaps > 0 })
	if math.IsNaN(q.lo) || math.IsNaN(q.hi) || !open && !q.finite() {
		return q, fmt.Errorf("%s is too large: %w", t.print(e), errAbsent)
	}
	return q, nil
}

func (t *Table) aggregate(e *expr) (quantity, error) {
	var out quantity
	for i, a := range e.args {
		q, err := t.eval(a)
		switch {
		case err != nil:
			return q, err
		case i == 0:
			out = q
		case q.dims != out.dims:
			return q, errUnits{fmt.Sprintf("%s of unlike units", e.fn)}
		case e.fn == "min":
			out.v, out.lo, out.hi = min(out.v, q.v), min(out.lo, q.lo), min(out.hi, q.hi)
		case e.fn == "max":
			out.v, out.lo, out.hi = max(out.v, q.v), max(out.lo, q.lo), max(out.hi, q.hi)
		default:
			out = add(out, q)
		}
	}
	n := float64(len(e.args))
	if e.open && e.gaps > 0 {
		out = t.widenByGaps(e, out)
		n += float64(e.gaps)
	}
	if e.fn == "mean" {
		out.v, out.lo, out.hi = out.v/float64(len(e.args)), out.lo/n, out.hi/n
	}
	return out, nil
}

// widenByGaps returns the interval of a sum or an extreme whose absent values may be anything: more of them only add
// to a sum of what is never negative, and a maximum is at least that of the others.
func (t *Table) widenByGaps(e *expr, q quantity) quantity {
	least := 0.
	if t.maybeNegative(e.args[0]) {
		least = math.Inf(-1)
	}
	switch e.fn {
	case "max":
		q.hi = math.Inf(1)
	case "min":
		q.lo = min(q.lo, least)
	default:
		q.lo, q.hi = q.lo+least, math.Inf(1)
	}
	return q
}

// blank reports whether an absent cell stands for nothing that could have been measured: its row is the baseline of the
// column's own formula, or the column is of differences, and its arm has several rows and no cell in it, which other arms have.
func (t *Table) blank(r, c int) bool {
	if !t.rows[r].cells[c].absent {
		return false
	}
	if f := t.columns[c].formula; f != nil {
		b, err := t.bind(f, r)
		if err == nil && !slices.ContainsFunc(b.cells(), func(x *expr) bool { return x.row != r || x.col != b.cells()[0].col }) && len(b.cells()) > 1 {
			return true
		}
	}
	arms := slices.IndexFunc(t.columns, func(c column) bool { return c.kind == arm })
	if arms < 0 || !t.columns[c].signed { // a measurement that an arm lacks may have failed
		return false
	}
	own, other := 0, false
	for i, w := range t.rows {
		switch mine := t.sameKey(i, r, arms); {
		case mine && !w.cells[c].absent:
			return false
		case mine:
			own++
		case !w.cells[c].absent:
			other = true
		}
	}
	return own > 1 && other
}

// maybeNegative reports whether a formula can have a negative value.
func (t *Table) maybeNegative(e *expr) bool {
	switch {
	case e.op == "num":
		return e.num.v < 0
	case e.op == "cell":
		return t.columns[e.col].signed
	case e.op == "-", e.fn == "diff", e.fn == "change", e.fn == "worse":
		return true
	}
	return slices.ContainsFunc(e.args, t.maybeNegative)
}

// aggregates returns the aggregates in a formula.
func (e *expr) aggregates() []*expr {
	var out []*expr
	if e.op == "agg" {
		out = append(out, e)
	}
	for _, a := range e.args {
		out = append(out, a.aggregates()...)
	}
	return out
}

// leftOut says how many values the aggregates of formulas leave out; "" if none.
func leftOut(es ...*expr) string {
	left, all := 0, 0
	for _, e := range es {
		for _, a := range e.aggregates() {
			left, all = left+a.left, all+a.left+len(a.args)
		}
	}
	switch left {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("1 of %d values is absent", all)
	}
	return fmt.Sprintf("%d of %d values are absent", left, all)
}

// opened returns a formula whose absent values may be anything; ok is false if it has none.
func (e *expr) opened() (o *expr, ok bool) {
	o = e.clone()
	for _, a := range o.aggregates() {
		a.open = true
		ok = ok || a.gaps > 0
	}
	return o, ok
}

// ref names a cell by its column and the keys of its row.
func (t *Table) ref(r, c int) string {
	return t.columns[c].name + "[" + t.keys(r, c) + "]"
}

// keys names a row by its arm, labels and parameters, without column skip.
func (t *Table) keys(r, skip int) string {
	var out []string
	for c, col := range t.columns {
		if !col.kind.key() || c == skip {
			continue
		}
		s := t.rows[r].cells[c].text
		switch {
		case col.unit.dims != dims{}:
			s = col.name + "=" + t.number(r, c)
		case !col.kind.text():
			s = col.name + "=" + s
		}
		out = append(out, s)
	}
	return strings.Join(out, ", ")
}

// setting names a row, without its arm.
func (t *Table) setting(r int) string {
	return t.keys(r, slices.IndexFunc(t.columns, func(c column) bool { return c.kind == arm }))
}

// number prints a cell unchanged, with its unit.
func (t *Table) number(r, c int) string {
	x := t.rows[r].cells[c]
	if t.columns[c].kind.text() || x.absent || x.foreign != "" {
		return x.text
	}
	return x.num.text + x.unit.suffix(x.num.v)
}

// print returns a bound formula with numbers in place of the cells.
func (t *Table) print(e *expr) string { return t.printAt(e, 0) }

func (t *Table) printAt(e *expr, level int) string {
	wrap := func(s string, own int) string {
		if own < level {
			return "(" + s + ")"
		}
		return s
	}
	switch e.op {
	case "num":
		return e.num.text + e.unit.suffix(e.num.v)
	case "cell":
		return t.number(e.row, e.col)
	case "+", "-":
		return wrap(t.printAt(e.args[0], 1)+" "+e.op+" "+t.printAt(e.args[1], 2), 1)
	case "*", "/":
		return wrap(t.printAt(e.args[0], 2)+" "+e.op+" "+t.printAt(e.args[1], 3), 2)
	case "agg":
		var parts []string
		for i, a := range e.args {
			if i == 8 {
				parts = append(parts, "…")
				break
			}
			parts = append(parts, t.printAt(a, 0))
		}
		return e.fn + "(" + strings.Join(parts, ", ") + ")"
	}
	a, b := t.printAt(e.args[0], 2), t.printAt(e.args[1], 2)
	d := t.printAt(e.args[1], 3)
	lowerIsBetter := false
	if c := e.args[0].firstCell(); c != nil {
		lowerIsBetter = t.columns[c.col].better < 0
	}
	switch {
	case e.fn == "diff":
		return wrap(a+" - "+b, 1)
	case e.fn == "change", e.fn == "worse" && lowerIsBetter:
		return wrap("("+a+" - "+b+") / "+d, 2)
	case e.fn == "worse":
		return wrap("("+b+" - "+a+") / "+d, 2)
	case e.fn == "advantage" && lowerIsBetter:
		return wrap(b+" / "+t.printAt(e.args[0], 3), 2)
	}
	return wrap(a+" / "+d, 2)
}

// formula returns a bound formula with the names of its cells.
func (t *Table) formula(e *expr) string {
	switch e.op {
	case "num":
		return t.print(e)
	case "cell":
		return t.ref(e.row, e.col)
	case "call":
		return e.fn + "(" + t.formula(e.args[0]) + ", " + t.formula(e.args[1]) + ")"
	case "agg":
		return fmt.Sprintf("the %s of %d values", e.fn, len(e.args))
	}
	return "(" + t.formula(e.args[0]) + " " + e.op + " " + t.formula(e.args[1]) + ")"
}
