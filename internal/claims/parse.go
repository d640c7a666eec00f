package claims

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// Limits of a claims file: published tables are far smaller.
const (
	maxBytes   = 1 << 20
	maxRows    = 1000
	maxColumns = 100
)

// header is one `# key: text` line.
type header struct {
	line      int
	key, text string
}

// headerKeys are the keys of a header; source and column are required.
var headerKeys = []string{"title", "source", "note", "counts", "column", "claim", "law", "ceiling"}

// Read parses the claims file from r; see Parse.
func Read(r io.Reader) (*Table, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxBytes+1))
	if err != nil {
		return nil, err
	}
	return Parse(b)
}

// Parse reads a claims file. Errors name the line. A byte order mark and
// Windows line ends are accepted.
func Parse(data []byte) (*Table, error) {
	if len(data) > maxBytes {
		return nil, fmt.Errorf("larger than %d bytes", maxBytes)
	}
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	data = bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
	if !utf8.Valid(data) {
		return nil, errors.New("not UTF-8 text")
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, errors.New("the file is empty: want a header of `# key: text` lines and a table")
	}
	head, body, first, err := split(string(data))
	if err != nil {
		return nil, err
	}
	t := &Table{nouns: map[string]bool{}}
	if err := t.describe(head); err != nil {
		return nil, err
	}
	if err := t.fill(body, first); err != nil {
		return nil, err
	}
	for i := range t.columns {
		c := &t.columns[i]
		if c.formulaSrc == "" {
			continue
		}
		if c.formula, err = t.formulaOf(c.formulaSrc); err != nil {
			return nil, fmt.Errorf("line %d: column %s: %w", c.line, c.name, err)
		}
	}
	t.sign()
	for _, h := range head {
		if h.key != "claim" && h.key != "law" && h.key != "ceiling" {
			continue
		}
		s, err := t.statement(h)
		if err != nil {
			return nil, fmt.Errorf("line %d: %s: %w", h.line, h.key, err)
		}
		t.statements = append(t.statements, s)
	}
	return t, nil
}

// split separates the header from the table; first is the table's first line.
func split(s string) (head []header, body string, first int, err error) {
	line := 0
	for s != "" {
		l, rest, _ := strings.Cut(s, "\n")
		line++
		text := strings.TrimSpace(l)
		if text != "" && !strings.HasPrefix(text, "#") {
			return head, s, line, nil
		}
		s = rest
		if text = strings.TrimSpace(strings.TrimPrefix(text, "#")); text == "" {
			continue
		}
		key, value, ok := strings.Cut(text, ":")
		key = strings.TrimSpace(key)
		if !ok || !slices.Contains(headerKeys, key) {
			return nil, "", 0, fmt.Errorf("line %d: unknown key %q: want one of %s; free text is a `# note:`", line, clip(key), strings.Join(headerKeys, ", "))
		}
		head = append(head, header{line, key, strings.TrimSpace(value)})
	}
	return nil, "", 0, errors.New("no table follows the header")
}

func (t *Table) describe(head []header) error {
	for _, h := range head {
		if h.text == "" {
			return fmt.Errorf("line %d: %s is empty", h.line, h.key)
		}
		switch h.key {
		case "title":
			t.Title = h.text
		case "source":
			t.Source = h.text
		case "note":
			t.Notes = append(t.Notes, h.text)
		case "counts":
			for _, w := range strings.Split(h.text, ",") {
				if w = strings.TrimSpace(w); unitForm.FindString(w) != w || w == "" {
					return fmt.Errorf("line %d: counts: %q is not a word", h.line, w)
				}
				t.nouns[w] = true
			}
		}
	}
	for _, h := range head {
		if h.key != "column" {
			continue
		}
		c, err := t.column(h)
		if err != nil {
			return fmt.Errorf("line %d: column: %w", h.line, err)
		}
		if t.find(c.name) >= 0 {
			return fmt.Errorf("line %d: column %s is there twice", h.line, c.name)
		}
		t.columns = append(t.columns, c)
	}
	switch {
	case len(t.columns) == 0:
		return errors.New("the header is missing: want `# column: NAME UNIT …` for every column, `# source: …` and `# claim: …`")
	case t.Source == "":
		return errors.New("the header has no `# source:`: say where the table is printed")
	case len(t.columns) > maxColumns:
		return fmt.Errorf("more than %d columns", maxColumns)
	case !slices.ContainsFunc(t.columns, func(c column) bool { return c.kind.key() }):
		return errors.New("no column names the rows: one must be an arm, a label or a parameter")
	}
	return nil
}

// column reads `NAME [UNIT] [KIND] [higher|lower] [difference|part|efficiency|elapsed] [= FORMULA]`.
func (t *Table) column(h header) (column, error) {
	text, formula, derived := strings.Cut(h.text, "=")
	words := strings.Fields(text)
	if len(words) == 0 || word.FindString(words[0]) != words[0] || slices.Contains(reserved, words[0]) {
		return column{}, fmt.Errorf("want a name of small letters, digits and _ at %q", clip(h.text))
	}
	c := column{name: words[0], line: h.line, kind: measure, unit: one}
	kindSet, unitSet := false, false
	for _, w := range words[1:] {
		k, isKind := kinds[w]
		switch {
		case isKind && kindSet:
			return c, fmt.Errorf("%s has two kinds", c.name)
		case isKind:
			c.kind, kindSet = k, true
		case w == "higher":
			c.better = 1
		case w == "lower":
			c.better = -1
		case w == "difference":
			c.signed = true
		case w == "part":
			c.part = true
		case w == "efficiency":
			c.efficiency = true
		case w == "elapsed":
			c.elapsed = true
		case unitSet:
			return c, fmt.Errorf("%s: do not know %q", c.name, w)
		default:
			u, err := parseUnit(w, t.nouns)
			if err != nil {
				return c, fmt.Errorf("%s: %w", c.name, err)
			}
			c.unit, unitSet = u, true
		}
	}
	if derived {
		if c.formulaSrc = strings.TrimSpace(formula); c.formulaSrc == "" {
			return c, fmt.Errorf("%s: no formula after =", c.name)
		}
		if c.kind != measure {
			return c, fmt.Errorf("%s: only a measure has a formula", c.name)
		}
	}
	if c.kind.text() && unitSet {
		return c, fmt.Errorf("%s: an arm or a label has no unit", c.name)
	}
	return c, nil
}

// differences are the words in a column's name that say that it is one.
var differences = []string{"difference", "diff", "delta", "change", "overhead", "gain", "saving", "savings"}

// sign finds the columns that can be negative: percentages that are not parts of a whole, differences by their word, name
// or unit, and what is computed from differences.
func (t *Table) sign() {
	for i := range t.columns {
		c := &t.columns[i]
		named := slices.ContainsFunc(strings.Split(c.name, "_"), func(w string) bool { return slices.Contains(differences, w) })
		c.signed = c.signed || c.unit.noun == "point" || (named || c.unit.name == "%") && !c.part && !c.efficiency
	}
	for changed := true; changed; {
		changed = false
		for i := range t.columns {
			if c := &t.columns[i]; !c.signed && c.formula != nil && t.maybeNegative(c.formula) {
				c.signed, changed = true, true
			}
		}
	}
}

// fill reads the CSV table.
func (t *Table) fill(body string, first int) error {
	r := csv.NewReader(strings.NewReader(body))
	r.FieldsPerRecord = -1
	r.TrimLeadingSpace = true
	var order []int
	for {
		rec, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		var bad *csv.ParseError
		if errors.As(err, &bad) {
			return fmt.Errorf("line %d: %w", first+bad.Line-1, bad.Err)
		}
		if err != nil {
			return err
		}
		at, _ := r.FieldPos(0)
		line := first + at - 1
		if strings.HasPrefix(rec[0], "#") {
			return fmt.Errorf("line %d: a header line after the table has begun", line)
		}
		if order == nil {
			if order, err = t.order(rec, line); err != nil {
				return err
			}
			continue
		}
		if len(rec) != len(order) {
			return fmt.Errorf("line %d: %d cells, and the table has %d columns", line, len(rec), len(order))
		}
		if len(t.rows) == maxRows {
			return fmt.Errorf("line %d: more than %d rows", line, maxRows)
		}
		w := row{line: line, cells: make([]cell, len(order))}
		for i, s := range rec {
			if w.cells[order[i]], err = t.cell(order[i], strings.TrimSpace(s)); err != nil {
				return fmt.Errorf("line %d: %w", line, err)
			}
		}
		t.rows = append(t.rows, w)
		for j := range len(t.rows) - 1 {
			if t.alike(len(t.rows)-1, j, nil) {
				return fmt.Errorf("line %d: row has the same arm, labels and parameters as line %d", line, t.rows[j].line)
			}
		}
	}
	if len(t.rows) == 0 {
		return errors.New("the table has no rows")
	}
	return nil
}

// order maps the fields of the CSV header to columns.
func (t *Table) order(rec []string, line int) ([]int, error) {
	var out []int
	for _, s := range rec {
		c := t.find(strings.TrimSpace(s))
		if c < 0 {
			return nil, fmt.Errorf("line %d: column %q has no `# column:` line; there are %s", line, clip(s), t.names())
		}
		if slices.Contains(out, c) {
			return nil, fmt.Errorf("line %d: column %q is there twice", line, s)
		}
		out = append(out, c)
	}
	for i, c := range t.columns {
		if !slices.Contains(out, i) {
			return nil, fmt.Errorf("line %d: column %q of line %d is not in the table", line, c.name, c.line)
		}
	}
	return out, nil
}

// cell reads a word, or a number with an optional unit of its own.
func (t *Table) cell(i int, s string) (cell, error) {
	col := t.columns[i]
	c := cell{text: s, unit: col.unit}
	if col.kind.text() {
		if s == "" {
			return c, fmt.Errorf("column %s: empty name", col.name)
		}
		return c, nil
	}
	if s == "" || s == "-" || s == "–" || s == "—" {
		if col.kind == scale || col.kind == work || col.kind == parameter {
			return c, fmt.Errorf("column %s: empty parameter", col.name)
		}
		c.absent = true
		return c, nil
	}
	n, rest, err := leadingNumber(s)
	if err != nil {
		return c, fmt.Errorf("column %s: %w", col.name, err)
	}
	c.num = n
	if rest, err = withoutSpread(strings.TrimSpace(rest)); err != nil {
		return c, fmt.Errorf("column %s: %w", col.name, err)
	}
	if rest == "" {
		return c, nil
	}
	u, err := parseUnit(rest, t.nouns)
	switch {
	case unitForm.FindString(rest) != rest && u.name == "":
		return c, fmt.Errorf("column %s: %q is not a number", col.name, s)
	case err != nil && !col.kind.key():
		c.foreign, c.unknown = rest, true
	case err != nil, u.dims != col.unit.dims, u.noun != col.unit.noun, (u.name == "%") != (col.unit.name == "%"):
		if col.kind.key() {
			return c, fmt.Errorf("column %s: %q does not fit the unit %s", col.name, s, col.unit.name)
		}
		c.foreign = rest
	default:
		c.unit = u
	}
	return c, nil
}

// withoutSpread leaves out "± 0.3" before a unit: claims are about the number itself.
func withoutSpread(s string) (string, error) {
	for _, sign := range []string{"±", "+/-"} {
		spread, ok := strings.CutPrefix(s, sign)
		if !ok {
			continue
		}
		n, rest, err := leadingNumber(strings.TrimSpace(spread))
		if err == nil && n.v < 0 {
			err = fmt.Errorf("%q is not a spread", clip(s))
		}
		return strings.TrimSpace(rest), err
	}
	return s, nil
}

func (t *Table) formulaOf(src string) (*expr, error) {
	p := &parser{t: t, s: src}
	e, err := p.sum()
	if err != nil {
		return nil, err
	}
	return e, p.expectEnd()
}

func (p *parser) expectEnd() error {
	if p.space(); p.s != "" {
		return fmt.Errorf("do not understand %q", clip(p.s))
	}
	return nil
}

// statement reads `"quote" FORM [within N %] [where SELECTORS]`.
func (t *Table) statement(h header) (statement, error) {
	s := statement{what: h.key, line: h.line, within: -1}
	if !strings.HasPrefix(h.text, `"`) {
		return s, errors.New("want the words of the source in double quotes first")
	}
	n := quoted(h.text)
	if n == 0 || strings.TrimSpace(unquote(h.text[:n])) == "" {
		return s, errors.New("the quoted words are empty or have no closing quote")
	}
	rest := h.text[n:]
	s.quote, s.src = unquote(h.text[:n]), strings.TrimSpace(rest)
	body, rows, ok := cutWord(rest, " where ")
	if ok {
		sel, err := t.selectors(rows)
		if err != nil {
			return s, err
		}
		s.where = sel
	}
	rest = body
	if body, share, ok := cutWord(rest, " within "); ok {
		n, left, err := leadingNumber(strings.TrimSpace(share))
		if err != nil || strings.TrimSpace(left) != "%" || n.v < 0 {
			return s, fmt.Errorf("within %q: want a share like 5 %%", clip(strings.TrimSpace(share)))
		}
		s.within, rest = n.v/100, body
	}
	p := &parser{t: t, s: rest}
	form := p.peek()
	if _, ok := forms[form]; ok && strings.HasPrefix(p.s[len(form):], "(") {
		p.s = p.s[len(form)+1:]
		s.form = form
		return s, p.form(&s)
	}
	return s, p.comparison(&s)
}

// comparison reads `EXPR OP EXPR`, where OP may be `about` or `in A..B UNIT`.
func (p *parser) comparison(s *statement) error {
	l, err := p.sum()
	if err != nil {
		return err
	}
	p.space()
	for _, op := range []string{"<=", ">=", "=", "<", ">", "about ", "in "} {
		if !p.accept(op) {
			continue
		}
		s.op = strings.TrimSpace(op)
		r, err := p.sum()
		if err != nil {
			return err
		}
		s.args = []*expr{l, r}
		if s.op == "in" {
			if err := p.expect(".."); err != nil {
				return fmt.Errorf("a range is A..B UNIT: %w", err)
			}
			if s.hi, err = p.literal(); err != nil {
				return err
			}
			if r.op != "num" {
				return errors.New("a range is A..B UNIT")
			}
			if r.unit.name == "" {
				r.unit = s.hi.unit
			}
			if s.hi.num.v*s.hi.unit.scale < r.num.v*r.unit.scale {
				return errors.New("the range ends before it begins")
			}
		}
		return p.expectEnd()
	}
	return fmt.Errorf("want =, about, <, <=, >, >= or in at %q", clip(p.s))
}

// form reads the arguments of best(…), linear(…), same(…) and so on.
func (p *parser) form(s *statement) error {
	t := p.t
	if s.form == "exists" {
		end := strings.LastIndexByte(p.s, ')') // nothing follows it, and a name may hold another
		if end < 0 {
			return errors.New("exists has no closing )")
		}
		m := condition.FindStringSubmatch(strings.TrimSpace(p.s[:end]))
		if m == nil || m[2] != "=" {
			return errors.New("want exists(COLUMN = VALUE)")
		}
		c := t.find(m[1])
		if c < 0 || !t.columns[c].kind.key() {
			return fmt.Errorf("exists: no arm, label or parameter is called %q", m[1])
		}
		sel, err := t.selectorOn(c, "=", m[3])
		if _, missing := errors.AsType[noRow](err); err != nil && !missing {
			return err
		}
		s.lit = &expr{op: "exists", col: c, sel: []selector{sel}, num: sel.num, unit: sel.unit, at: err == nil}
		p.s = p.s[end+1:]
		return p.expectEnd()
	}
	for i := range forms[s.form] {
		if i > 0 {
			if err := p.expect(","); err != nil {
				return fmt.Errorf("%s takes %d values: %w", s.form, forms[s.form], err)
			}
		}
		e, err := p.sum()
		if err != nil {
			return err
		}
		s.args = append(s.args, e)
	}
	if err := p.expect(")"); err != nil {
		return err
	}
	plain := func(e *expr) bool { return e.op == "cell" }
	switch s.form {
	case "best", "worst":
		if err := p.expect("="); err != nil {
			return err
		}
		c := s.args[0].firstCell()
		if c == nil || t.columns[c.col].better == 0 {
			return fmt.Errorf("%s needs a column that says `higher` or `lower`", s.form)
		}
		arms := slices.IndexFunc(t.columns, func(c column) bool { return c.kind == arm })
		if arms < 0 {
			return fmt.Errorf("%s needs an arm column", s.form)
		}
		sel, err := t.selectorOn(arms, "=", strings.TrimSpace(p.s))
		s.label = sel.text
		return err
	case "linear", "exponential":
		if !plain(s.args[1]) || !t.columns[s.args[1].col].kind.key() {
			return fmt.Errorf("%s(EXPR, PARAMETER): the second is a parameter", s.form)
		}
	case "agree":
		for _, a := range s.args {
			if !plain(a) || t.columns[a.col].better == 0 {
				return errors.New("agree takes two columns that say `higher` or `lower`")
			}
		}
	case "percentile":
		if !plain(s.args[0]) || s.args[1].op != "num" || s.args[1].num.v <= 0 || s.args[1].num.v >= 100 || s.args[1].unit.name != "%" || !plain(s.args[2]) {
			return errors.New("want percentile(COLUMN, 99 %, COLUMN OF SAMPLE COUNTS)")
		}
	}
	return p.expectEnd()
}
