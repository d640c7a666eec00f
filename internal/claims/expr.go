package claims

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// expr is a formula. After bind each cell names its row.
type expr struct {
	op   string // num cell + - * / call agg
	fn   string
	args []*expr
	num  number
	unit unit // of num
	col  int
	sel  []selector // of a cell: which row
	cond []selector // of an aggregate: which rows
	row  int
	at   bool // row is set
	// Of a bound aggregate: left counts the values that it leaves out because cells are absent, and gaps those of them
	// that could have been measured. With open, the gaps may be anything.
	left, gaps int
	open       bool
}

// selector restricts rows by one key column.
type selector struct {
	col  int
	op   string
	text string
	num  number // when the column is numeric
	unit unit
}

var (
	pairs      = []string{"change", "ratio", "share", "diff", "worse", "advantage"}
	aggregates = []string{"mean", "sum", "min", "max"}
	forms      = map[string]int{"best": 1, "worst": 1, "linear": 2, "exponential": 2, "same": 1, "varies": 1, "exists": 0, "whole": 1, "percentile": 3, "agree": 2}
	reserved   = []string{"where", "within", "about", "in"}
)

const maxDepth = 40

// parser reads the language of formulas and claims; the table provides its columns and
// the values that selectors may name.
type parser struct {
	t     *Table
	s     string
	depth int
}

var (
	word     = regexp.MustCompile(`^[a-z][a-z0-9_]*`)
	unitForm = regexp.MustCompile(`^[A-Za-zµμ%$€][A-Za-zµμ%$€]*(/[A-Za-zµμ$€]+)?`)
)

func (p *parser) space() { p.s = strings.TrimLeft(p.s, " \t") }

func (p *parser) accept(tok string) bool {
	p.space()
	if strings.HasPrefix(p.s, tok) {
		p.s = p.s[len(tok):]
		return true
	}
	return false
}

func (p *parser) expect(tok string) error {
	if !p.accept(tok) {
		return fmt.Errorf("want %q at %q", tok, clip(p.s))
	}
	return nil
}

// peek returns the next word, if there is one.
func (p *parser) peek() string {
	p.space()
	return word.FindString(p.s)
}

func clip(s string) string {
	if s == "" {
		return "the end of the line"
	}
	if r := []rune(s); len(r) > 40 {
		return string(r[:40]) + "…"
	}
	return s
}

func (p *parser) sum() (*expr, error) {
	if p.depth++; p.depth > maxDepth {
		return nil, fmt.Errorf("formula is nested deeper than %d", maxDepth)
	}
	defer func() { p.depth-- }()
	return p.chain("+-", p.product)
}

func (p *parser) product() (*expr, error) { return p.chain("*/", p.factor) }

func (p *parser) chain(ops string, next func() (*expr, error)) (*expr, error) {
	l, err := next()
	for n := 0; err == nil; n++ {
		p.space()
		if p.s == "" || !strings.ContainsRune(ops, rune(p.s[0])) {
			return l, nil
		}
		if n > maxDepth {
			return nil, fmt.Errorf("formula has more than %d terms", maxDepth)
		}
		op := p.s[:1]
		p.s = p.s[1:]
		var r *expr
		if r, err = next(); err == nil {
			l = &expr{op: op, args: []*expr{l, r}}
		}
	}
	return nil, err
}

func (p *parser) factor() (*expr, error) {
	if p.accept("(") {
		e, err := p.sum()
		if err != nil {
			return nil, err
		}
		return e, p.expect(")")
	}
	w := p.peek()
	if w == "" {
		return p.literal()
	}
	if slices.Contains(reserved, w) {
		return nil, fmt.Errorf("want a number, a column or a function at %q", clip(p.s))
	}
	p.s = p.s[len(w):]
	if strings.HasPrefix(p.s, "(") {
		return p.call(w)
	}
	return p.cellOf(w)
}

// literal parses a number with an optional unit.
func (p *parser) literal() (*expr, error) {
	p.space()
	n, rest, err := leadingNumber(p.s)
	if err != nil && p.s != "" && strings.ContainsAny(p.s[:1], "0123456789.") {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("want a number, a column or a function at %q", clip(p.s))
	}
	p.s = rest
	e := &expr{op: "num", num: n, unit: one}
	p.space()
	if u := unitForm.FindString(p.s); u != "" && !slices.Contains(reserved, u) {
		if e.unit, err = parseUnit(u, p.t.nouns); err != nil {
			return nil, err
		}
		p.s = p.s[len(u):]
	}
	return e, nil
}

func (p *parser) cellOf(name string) (*expr, error) {
	c := p.t.find(name)
	if c < 0 {
		return nil, fmt.Errorf("no column %q; the columns are %s", name, p.t.names())
	}
	if p.t.columns[c].kind.text() {
		return nil, fmt.Errorf("column %q holds words: it can only stand between [ and ]", name)
	}
	e := &expr{op: "cell", col: c}
	if !strings.HasPrefix(p.s, "[") {
		return e, nil
	}
	p.s = p.s[1:]
	var err error
	if e.sel, err = p.rows('[', ']'); err != nil {
		return nil, err
	}
	for _, s := range e.sel {
		if s.op != "=" {
			return nil, fmt.Errorf("%s[%s%s%s]: a cell is chosen with = only; ranges stand after `where`", name, p.t.columns[s.col].name, s.op, s.text)
		}
	}
	return e, p.expect("]")
}

func (p *parser) call(fn string) (*expr, error) {
	p.s = p.s[1:]
	want := 0
	switch {
	case slices.Contains(pairs, fn):
		want = 2
	case slices.Contains(aggregates, fn):
		want = 1
	default:
		return nil, fmt.Errorf("unknown function %q: want one of %s", fn, strings.Join(append(slices.Clone(pairs), aggregates...), ", "))
	}
	e := &expr{op: "call", fn: fn}
	for i := range want {
		if i > 0 {
			if err := p.expect(","); err != nil {
				return nil, fmt.Errorf("%s takes %d values: %w", fn, want, err)
			}
		}
		a, err := p.sum()
		if err != nil {
			return nil, err
		}
		e.args = append(e.args, a)
	}
	if want == 1 {
		e.op = "agg"
		if p.peek() == "where" {
			p.s = p.s[len("where"):]
			var err error
			if e.cond, err = p.rows('(', ')'); err != nil {
				return nil, err
			}
		}
	}
	if fn == "worse" || fn == "advantage" {
		if c := e.args[0].firstCell(); c == nil || p.t.columns[c.col].better == 0 {
			return nil, fmt.Errorf("%s needs a column that says `higher` or `lower`", fn)
		}
	}
	return e, p.expect(")")
}

func (e *expr) firstCell() *expr {
	if e.op == "cell" {
		return e
	}
	for _, a := range e.args {
		if c := a.firstCell(); c != nil {
			return c
		}
	}
	return nil
}

// cells returns all the cells of a formula, in order.
func (e *expr) cells() []*expr {
	if e.op == "cell" {
		return []*expr{e}
	}
	var out []*expr
	for _, a := range e.args {
		out = append(out, a.cells()...)
	}
	return out
}

func (e *expr) clone() *expr {
	c := *e
	c.args = nil
	for _, a := range e.args {
		c.args = append(c.args, a.clone())
	}
	return &c
}

var condition = regexp.MustCompile(`^([a-z][a-z0-9_]*)\s*(<=|>=|!=|=|<|>)\s*(.+)$`)

func (t *Table) selectorOn(c int, op, value string) (selector, error) {
	col := t.columns[c]
	if n := quoted(value); n > 0 && n == len(value) {
		value = unquote(value)
	}
	sel := selector{col: c, op: op, text: value, unit: col.unit}
	if col.kind.text() {
		if op != "=" && op != "!=" {
			return sel, fmt.Errorf("%s%s%s: %s contains words, which can only be compared with = or !=", col.name, op, value, col.name)
		}
	} else {
		n, rest, err := leadingNumber(value)
		if err != nil {
			return sel, fmt.Errorf("%s%s%s: %w", col.name, op, value, err)
		}
		sel.num = n
		if rest = strings.TrimSpace(rest); rest != "" {
			u, err := parseUnit(rest, t.nouns)
			if err != nil {
				return sel, fmt.Errorf("%s%s%s: %w", col.name, op, value, err)
			}
			if u.dims != col.unit.dims {
				return sel, fmt.Errorf("%s%s%s: %s is %s", col.name, op, value, col.name, col.unit.dims)
			}
			sel.unit = u
		}
	}
	there := sel
	if op == "!=" { // what is left out is there too: a name with a mistake would leave out nothing
		there.op = "="
	}
	for r := range t.rows {
		if t.matches(r, there) {
			return sel, nil
		}
	}
	return sel, noRow{fmt.Sprintf("no row has %s%s%s; there are %s", col.name, op, value, t.values(c))}
}

// noRow is the error of a selector without a match.
type noRow struct{ text string }

func (e noRow) Error() string { return e.text }

// same compares two numbers in base units, whatever their original units.
func same(a, b float64) bool { return a == b || abs(a-b) <= 1e-9*max(abs(a), abs(b)) }

func abs(v float64) float64 {
	if v < 0 {
		return -v
	}
	return v
}

func (t *Table) matches(r int, s selector) bool {
	c := t.rows[r].cells[s.col]
	if t.columns[s.col].kind.text() {
		return (c.text == s.text) == (s.op == "=")
	}
	if c.absent {
		return false
	}
	a, b := c.num.v*c.unit.scale, s.num.v*s.unit.scale
	eq := same(a, b)
	switch s.op {
	case "=":
		return eq
	case "!=":
		return !eq
	case "<":
		return a < b && !eq
	case "<=":
		return a < b || eq
	case ">":
		return a > b && !eq
	}
	return a > b || eq
}

func (t *Table) find(name string) int {
	return slices.IndexFunc(t.columns, func(c column) bool { return c.name == name })
}

func (t *Table) names() string {
	var out []string
	for _, c := range t.columns {
		out = append(out, c.name)
	}
	return strings.Join(out, ", ")
}

// values lists the values of a key column.
func (t *Table) values(c int) string {
	var out []string
	for _, r := range t.rows {
		if s := r.cells[c].text; !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	if len(out) > 8 {
		out = append(out[:8], "…")
	}
	return strings.Join(out, ", ")
}
