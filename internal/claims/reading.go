package claims

import (
	"fmt"
	"math"
)

// maxReadings bounds how many other readings a finding offers.
const maxReadings = 2

// readings looks for another reading of the table that gives exactly the printed number, from near to far: another
// quotient of the same cells, another column, another row, another quotient in another column, the digits of any
// cell. The farther the reading, the more candidates there are, so it needs more digits to rule out coincidence.
func (t *Table) readings(e *expr, n number, u unit) (Kind, []string) {
	if e.op == "cell" {
		if own := t.sameDigits(e.row, e.col, n); own != "" {
			return Metric, []string{own}
		}
	}
	if n.digits >= 2 {
		if k, r := t.quotients(e, n, u); r != nil {
			return k, r
		}
	}
	if n.digits < 3 && e.op != "agg" {
		return "", nil
	}
	hit := func(x *expr) string {
		q, err := t.eval(x)
		if err != nil || q.dims != u.dims || !n.prints(q.v/u.scale) {
			return ""
		}
		if x.op == "cell" {
			return fmt.Sprintf("it is %s = %s", t.ref(x.row, x.col), t.print(x))
		}
		return fmt.Sprintf("it is %s: %s = %s", t.formula(x), t.print(x), show(q.v, u))
	}
	var out []string
	take := func(x *expr) {
		if s := hit(x); s != "" && len(out) < maxReadings {
			out = append(out, s)
		}
	}
	if e.op == "agg" {
		if k, r := t.subsets(e, n, u); r != nil {
			return k, r
		}
	}
	if n.digits < 3 {
		return "", nil
	}
	for c, col := range t.columns {
		if !col.kind.text() {
			for _, x := range t.recolumn(e, c) {
				take(x)
			}
		}
	}
	if out != nil {
		return Column, out
	}
	for i := range e.cells() {
		if e.op == "agg" {
			break
		}
		for r := range t.rows {
			x := e.clone()
			if cell := x.cells()[i]; cell.row != r {
				cell.row = r
				take(x)
			}
		}
	}
	if out != nil {
		return Row, out
	}
	for c, col := range t.columns {
		if col.kind.text() {
			continue
		}
		for _, x := range t.recolumn(e, c)[:min(1, len(t.recolumn(e, c)))] {
			if k, r := t.quotients(x, n, u); r != nil {
				return k, r
			}
		}
	}
	if e.op == "cell" {
		return t.findElsewhere(e, n, u)
	}
	if u.name != "%" && u.name != "x" && u.name != "" {
		if r := t.digits(e, n); r != nil {
			return Metric, r
		}
	}
	return "", nil
}

// recolumn returns the formula with all cells of its first cell's column taken from
// column c, and then with each such cell replaced alone.
func (t *Table) recolumn(e *expr, c int) []*expr {
	cells := e.cells()
	if len(cells) == 0 || cells[0].col == c {
		return nil
	}
	x := e.clone()
	for _, cell := range x.cells() {
		if cell.col == cells[0].col {
			cell.col = c
		}
	}
	out := []*expr{x}
	for i, cell := range cells {
		if cell.col != c && len(cells) > 1 {
			x := e.clone()
			x.cells()[i].col = c
			out = append(out, x)
		}
	}
	return out
}

// quotients tries the other functions of the same two values.
func (t *Table) quotients(e *expr, n number, u unit) (Kind, []string) {
	if len(e.args) != 2 || e.op != "call" && e.op != "/" && e.op != "-" {
		return "", nil
	}
	a, err := t.eval(e.args[0])
	if err != nil {
		return "", nil
	}
	b, err := t.eval(e.args[1])
	if err != nil || a.dims != b.dims {
		return "", nil
	}
	first := e.args[0].firstCell()
	if first == nil {
		return "", nil
	}
	own := t.rows[first.row].cells[first.col].unit
	matches := func(v float64) bool { return n.prints(v) || n.prints(-v) }
	asPercent := u.name == "%"
	if e.fn != "diff" && e.op != "-" {
		d := (a.v - b.v) / own.scale
		if matches(d) {
			x := &expr{op: "call", fn: "diff", args: e.args}
			if own.name == "%" {
				return Points, []string{fmt.Sprintf("it is the difference in percentage points: %s = %s points", t.print(x), group(d))}
			}
			return Difference, []string{fmt.Sprintf("it is the difference in %s: %s = %s", orPlain(own.name), t.print(x), show(a.v-b.v, own))}
		}
	}
	factor := 1.
	if asPercent {
		factor = 100
	}
	type candidate struct {
		fn, text string
		swap     bool
	}
	for _, c := range []candidate{
		{"change", "it is the change", false}, {"ratio", "it is the quotient", false},
		{"change", "it is the change the other way round", true}, {"ratio", "it is the quotient the other way round", true},
	} {
		x := &expr{op: "call", fn: c.fn, args: e.args}
		if c.swap {
			x.args = []*expr{e.args[1], e.args[0]}
		}
		q, err := t.eval(x)
		if err != nil || !matches(q.v*factor) {
			continue
		}
		pu := percent
		if !asPercent {
			pu = unit{name: "x", scale: 1}
		}
		kind, text := Base, c.text
		if e.fn == "advantage" || e.fn == "worse" {
			kind, text = Direction, c.text+", and that is not a gain: "+better(t.columns[first.col])
		} else if e.fn == c.fn && !c.swap {
			kind, text = Direction, c.text+" with the other sign"
		}
		return kind, []string{fmt.Sprintf("%s: %s = %s", text, t.print(x), show(q.v, pu))}
	}
	return "", nil
}

func better(c column) string {
	if c.better < 0 {
		return c.name + " is better when lower"
	}
	return c.name + " is better when higher"
}

func orPlain(name string) string {
	if name == "" {
		return "plain numbers"
	}
	return name
}

// subsets tries an average or a sum without one row, and the other aggregates.
func (t *Table) subsets(e *expr, n number, u unit) (Kind, []string) {
	if n.digits < 2 || e.fn != "mean" && e.fn != "sum" {
		return "", nil
	}
	try := func(x *expr) bool {
		q, err := t.eval(x)
		return err == nil && q.dims == u.dims && n.prints(q.v/u.scale)
	}
	for _, fn := range aggregates {
		x := e.clone()
		x.fn = fn
		if fn != e.fn && try(x) {
			return Average, []string{fmt.Sprintf("it is the %s: %s", fn, t.print(x))}
		}
	}
	if len(e.args) < 3 {
		return "", nil
	}
	for i := range e.args {
		x := e.clone()
		x.args = append(x.args[:i:i], x.args[i+1:]...)
		if try(x) {
			return Average, []string{fmt.Sprintf("it is the %s without %s: %s", e.fn, t.formula(e.args[i]), t.print(x))}
		}
	}
	return "", nil
}

// findElsewhere looks for a claimed value in every cell, first as the value itself, then by
// its digits only.
func (t *Table) findElsewhere(e *expr, n number, u unit) (Kind, []string) {
	for r := range t.rows {
		for c, col := range t.columns {
			if col.kind.text() {
				continue
			}
			if q, err := t.value(r, c); err == nil && q.dims == u.dims && n.prints(q.v/u.scale) {
				return t.place(e, r, c), []string{fmt.Sprintf("it is %s = %s", t.ref(r, c), t.number(r, c))}
			}
		}
	}
	if r := t.digits(e, n); r != nil {
		at := t.digitsAt(e, n)
		return t.place(e, at[0], at[1]), r
	}
	return "", nil
}

// place returns how another cell differs from the claimed one.
func (t *Table) place(e *expr, r, c int) Kind {
	switch {
	case t.columns[c].unit.dims != t.columns[e.col].unit.dims:
		return Metric
	case c != e.col:
		return Column
	case r != e.row:
		return Row
	}
	return Metric
}

// digits returns a cell with the claim's printed digits, a power of a thousand away or in another unit.
func (t *Table) digits(e *expr, n number) []string {
	at := t.digitsAt(e, n)
	if at == nil {
		return nil
	}
	return []string{fmt.Sprintf("the digits are those of %s = %s", t.ref(at[0], at[1]), t.number(at[0], at[1]))}
}

func (t *Table) digitsAt(e *expr, n number) []int {
	for _, own := range []bool{true, false} { // the claim's row first
		for r := range t.rows {
			for c, col := range t.columns {
				if first := e.firstCell(); col.kind.text() || own != (first != nil && first.row == r) {
					continue
				}
				if t.sameDigits(r, c, n) != "" {
					return []int{r, c}
				}
			}
		}
	}
	return nil
}

// sameDigits returns the sentence that the cell has the digits of n at another magnitude.
func (t *Table) sameDigits(r, c int, n number) string {
	x := t.rows[r].cells[c]
	if x.absent || x.foreign != "" || n.v == 0 || n.digits < 3 && n.text != x.num.text {
		return ""
	}
	for k := -3; k <= 3; k++ {
		if n.prints(x.num.v * math.Pow10(3*k)) {
			return fmt.Sprintf("the digits are those of %s = %s", t.ref(r, c), t.number(r, c))
		}
	}
	return ""
}
