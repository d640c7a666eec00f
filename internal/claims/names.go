package claims

import (
	"fmt"
	"strings"
)

const (
	// maxEnds bounds the brackets that are tried as the end of selectors.
	maxEnds = 8
	// maxSelectors bounds the selectors of one list, and the commas of one name without quotes.
	maxSelectors, maxCommas = 32, 8
)

// quoting says how a name is written whose commas or brackets could be the language's.
const quoting = `a name with a comma, a bracket or a quote can stand in double quotes`

// quoted returns the length of the quoted name at the start of s, quotes included; 0 if there is none. A quote in it is
// doubled, as in CSV.
func quoted(s string) int {
	if !strings.HasPrefix(s, `"`) {
		return 0
	}
	for i := 1; i < len(s); i++ {
		if s[i] != '"' {
			continue
		}
		if !strings.HasPrefix(s[i+1:], `"`) {
			return i + 1
		}
		i++
	}
	return 0
}

// unquote returns the name in a quoted one.
func unquote(s string) string { return strings.ReplaceAll(s[1:len(s)-1], `""`, `"`) }

// syntax calls visit for each byte of s outside of quoted names, until visit returns false. A quote begins a name only
// where a name can begin, so 24" is a name without quotes.
func syntax(s string, visit func(i int) bool) {
	for i := 0; i < len(s); i++ {
		if s[i] == '"' && canBegin(s[:i]) {
			if n := quoted(s[i:]); n > 0 {
				i += n - 1
				continue
			}
		}
		if !visit(i) {
			return
		}
	}
}

// canBegin reports whether a name can begin after before.
func canBegin(before string) bool {
	before = strings.TrimRight(before, " \t")
	return before == "" || strings.IndexByte("[(,=", before[len(before)-1]) >= 0 || strings.HasSuffix(before, "where")
}

// cutWord splits s around a word that stands outside of brackets and of quoted names.
func cutWord(s, word string) (before, after string, found bool) {
	depth, at := 0, -1
	syntax(s, func(i int) bool {
		switch {
		case strings.IndexByte("([", s[i]) >= 0:
			depth++
		case strings.IndexByte(")]", s[i]) >= 0:
			depth--
		case depth <= 0 && strings.HasPrefix(s[i:], word):
			at = i
		}
		return at < 0
	})
	if at < 0 {
		return s, "", false
	}
	return s[:at], s[at+len(word):], true
}

// rows reads selectors up to the bracket that ends them, and leaves the bracket. A name may hold that bracket: the end is
// the one with which every selector names rows.
func (p *parser) rows(begin, end byte) ([]selector, error) {
	var ends []int
	depth, balanced := 0, -1
	syntax(p.s, func(i int) bool {
		switch p.s[i] {
		case begin:
			depth++
		case end:
			if ends = append(ends, i); depth == 0 && balanced < 0 {
				balanced = i
			}
			depth--
		}
		return len(ends) < maxEnds
	})
	if len(ends) == 0 {
		return nil, fmt.Errorf("%q has no closing %c", clip(p.s), end)
	}
	if balanced < 0 {
		balanced = ends[0]
	}
	var out []selector
	at := -1
	for _, i := range ends {
		sel, err := p.t.selectors(p.s[:i])
		switch {
		case err != nil:
		case at >= 0:
			return nil, fmt.Errorf("%q ends at one %c or at another: %s", clip(p.s), end, quoting)
		default:
			out, at = sel, i
		}
	}
	if at < 0 {
		_, err := p.t.selectors(p.s[:balanced])
		return nil, err
	}
	p.s = p.s[at:]
	return out, nil
}

// selectors parses `linux, threads=4` or `threads<=8`: a bare value is searched in all key columns and must be in
// exactly one. A name may hold commas if no other reading of the list names rows.
func (t *Table) selectors(s string) ([]selector, error) {
	var parts []string
	from := 0
	syntax(s, func(i int) bool {
		if s[i] == ',' {
			parts, from = append(parts, s[from:i]), i+1
		}
		return len(parts) < maxSelectors
	})
	parts = append(parts, s[from:])
	if len(parts) > maxSelectors {
		return nil, fmt.Errorf("[%s]: more than %d selectors", clip(strings.TrimSpace(s)), maxSelectors)
	}
	n := len(parts)
	// ways[i] is the number of readings of the parts from i on; the last one found of them begins with first[i], which
	// ends before next[i].
	ways, next, first := make([]int, n+1), make([]int, n), make([]selector, n)
	ways[n] = 1
	for i := n - 1; i >= 0; i-- {
		for j := i + 1; j <= min(n, i+1+maxCommas); j++ {
			if ways[j] == 0 {
				continue
			}
			sel, err := t.selector(strings.TrimSpace(strings.Join(parts[i:j], ",")))
			if err == nil {
				ways[i], first[i], next[i] = ways[i]+ways[j], sel, j
			}
		}
	}
	switch ways[0] {
	case 0:
		for _, part := range parts { // the first that cannot be read alone
			part = strings.TrimSpace(part)
			if part == "" {
				return nil, fmt.Errorf("[%s]: empty selector", clip(strings.TrimSpace(s)))
			}
			_, err := t.selector(part)
			if err != nil && strings.ContainsAny(s, `,()[]"`) {
				err = fmt.Errorf("%w (%s)", err, quoting)
			}
			if err != nil {
				return nil, err
			}
		}
	case 1:
		var out []selector
		for i := 0; i < n; i = next[i] {
			out = append(out, first[i])
		}
		return out, nil
	}
	return nil, fmt.Errorf("[%s] is one name or several: %s", clip(strings.TrimSpace(s)), quoting)
}

// selector parses one condition or one bare value, which may be quoted.
func (t *Table) selector(s string) (selector, error) {
	name := s
	if n := quoted(s); n > 0 && n == len(s) {
		name = unquote(s)
	} else if m := condition.FindStringSubmatch(s); m != nil && t.find(m[1]) >= 0 {
		c := t.find(m[1])
		if !t.columns[c].kind.key() {
			return selector{}, fmt.Errorf("%q is a measure: rows are chosen by arm, label or parameter", m[1])
		}
		return t.selectorOn(c, m[2], strings.TrimSpace(m[3]))
	}
	var hits []selector
	var where []string
	for c, col := range t.columns {
		if !col.kind.key() {
			continue
		}
		sel, err := t.selectorOn(c, "=", name)
		if err == nil {
			hits, where = append(hits, sel), append(where, col.name)
		}
	}
	switch len(hits) {
	case 1:
		return hits[0], nil
	case 0:
		return selector{}, fmt.Errorf("no row is called %q", name)
	}
	return selector{}, fmt.Errorf("%q is in several columns: write one of %s", name, strings.Join(where, "=…, ")+"=…")
}
