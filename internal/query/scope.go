package query

import (
	"fmt"
	"slices"
	"strings"
)

// Scope is what a query is about: the series of a subject, and the time over which rates are taken. Its methods write
// queries; all of Go writes them with these. A whole query is PromQL with placeholders, which Expand fills in.
type Scope struct {
	// Here are the matchers of the subject's series, as they stand between the braces of a selector; "" for all series.
	Here string
	// Over is the time of rates and means, as PromDuration writes it.
	Over string
	// Longer is the time of rates of counters that have less than two readings within Over; "" leaves them out.
	Longer string
	// Word returns what another placeholder stands for. It may be nil.
	Word func(name string) (value string, known bool)
}

// Expand fills in the placeholders of a query:
//
//	$here          Here; a comma after it is left out where Here is ""
//	$over          Over
//	$rate(SERIES)  the events per second of a counter, see Rate; SERIES is a selector, which may hold placeholders
//	$NAME          what Word returns for NAME, which has small letters and _
//	$$             a dollar sign
//
// A placeholder that nothing knows stays as it is, so PromQL refuses the query. Values, such as names of processes,
// belong in Here or in what Word returns: they are not expanded again.
func (s Scope) Expand(text string) string {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, "$")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		name := leadingName(rest)
		value, rest := s.expandName(name, rest[len(name):])
		b.WriteString(value)
		text = rest
	}
}

// expandName returns what a placeholder stands for, and the text behind it. rest is the text behind its name.
func (s Scope) expandName(name, rest string) (value, after string) {
	switch name {
	case "":
		return "$", strings.TrimPrefix(rest, "$")
	case "here":
		if s.Here == "" {
			rest = strings.TrimPrefix(rest, ",")
		}
		return s.Here, rest
	case "over":
		return s.Over, rest
	case "rate":
		if series, after, ok := cutParentheses(rest); ok {
			return s.rate(s.Expand(series)), after
		}
	}
	if s.Word != nil {
		if value, known := s.Word(name); known {
			return value, rest
		}
	}
	return "$" + name, rest
}

// Select returns the selector of a metric's series of the subject that have more matchers. Those that are "" are left out.
func (s Scope) Select(metric string, more ...string) string {
	return metric + "{" + joinMatchers(append([]string{s.Here}, more...)) + "}"
}

// Rate returns the query for the events per second of the counters that Select selects.
func (s Scope) Rate(metric string, more ...string) string { return s.rate(s.Select(metric, more...)) }

// Mean returns the query for the means of the gauges that Select selects.
func (s Scope) Mean(metric string, more ...string) string {
	return fmt.Sprintf("avg_over_time(%s[%s])", s.Select(metric, more...), s.Over)
}

func (s Scope) rate(selector string) string {
	if s.Longer == "" {
		return Rate(selector, s.Over)
	}
	return fmt.Sprintf("(%s or %s)", Rate(selector, s.Over), Rate(selector, s.Longer))
}

// Rate returns the query for the events per second of the counters that a selector selects.
func Rate(selector, over string) string { return fmt.Sprintf("rate(%s[%s])", selector, over) }

// SumRate returns the query for the events per second of all counters that a selector selects: one number, or none.
func SumRate(selector, over string) string { return "sum(" + Rate(selector, over) + ")" }

// Narrow adds matchers to a selector.
func Narrow(selector string, matchers ...string) string {
	head, inner, _ := strings.Cut(strings.TrimSuffix(selector, "}"), "{")
	return head + "{" + joinMatchers(append([]string{inner}, matchers...)) + "}"
}

func joinMatchers(list []string) string {
	return strings.Join(slices.DeleteFunc(list, func(m string) bool { return m == "" }), ",")
}

// leadingName returns the name at the beginning of a text, "" without one.
func leadingName(text string) string {
	end := strings.IndexFunc(text, func(c rune) bool { return c != '_' && (c < 'a' || c > 'z') })
	if end < 0 {
		end = len(text)
	}
	return text[:end]
}

// cutParentheses returns what stands between the parenthesis at the beginning of a text and the one that closes it, and
// the text behind that. Parentheses in quoted strings do not count.
func cutParentheses(text string) (inner, after string, ok bool) {
	if !strings.HasPrefix(text, "(") {
		return "", text, false
	}
	depth, quoted := 0, byte(0)
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted != 0 && c == '\\' && quoted != '`':
			i++
		case quoted != 0:
			if c == quoted {
				quoted = 0
			}
		case c == '"' || c == '\'' || c == '`':
			quoted = c
		case c == '(':
			depth++
		case c == ')':
			if depth--; depth == 0 {
				return text[1:i], text[i+1:], true
			}
		}
	}
	return "", text, false
}
