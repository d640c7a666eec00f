package metric

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// This file is the one reader of numbers that people write and other programs print. They are decimal, with a point;
// digits may stand in groups of three. A decimal comma cannot be told from a comma between groups unless it is no such
// group, and is then refused: a guess would be wrong by a factor of 1000.

// groupMarks separate groups of three digits: the comma, spaces that do not break a line, the apostrophe.
const groupMarks = ",\u00a0\u2009\u202f'\u2019"

// minus is the sign of typeset tables.
const minus = "\u2212"

// LeadingNumber reads the number at the start of s. plain is the number without group marks and with ASCII signs, rest
// what follows.
func LeadingNumber(s string) (v float64, plain, rest string, err error) {
	refuse := func(why string) (float64, string, string, error) { return 0, "", s, fmt.Errorf("%.40q %s", s, why) }
	rest = s
	switch {
	case strings.HasPrefix(rest, "-"), strings.HasPrefix(rest, minus):
		plain = "-"
		_, n := utf8.DecodeRuneInString(rest)
		rest = rest[n:]
	case strings.HasPrefix(rest, "+"):
		rest = rest[1:]
	}
	first := digitsOf(rest)
	rest = rest[len(first):]
	plain += first
	if mark := markOf(rest); mark != "" && first != "" {
		for markOf(rest) == mark {
			group := digitsOf(rest[len(mark):])
			if len(group) != 3 || len(first) > 3 || first[0] == '0' {
				return refuse("has no groups of three digits: for decimals, write a point instead of " + strconv.Quote(mark))
			}
			plain, rest = plain+group, rest[len(mark)+3:]
		}
	}
	if fraction := digitsOf(strings.TrimPrefix(rest, ".")); strings.HasPrefix(rest, ".") && fraction != "" {
		plain += "." + fraction
		rest = rest[1+len(fraction):]
	} else if first == "" {
		return refuse("is not a number")
	}
	if mark := markOf(rest); mark != "" || strings.HasPrefix(rest, ".") && digitsOf(rest[1:]) != "" {
		return refuse("is not a number: write digits with one decimal point, and groups of three with one kind of mark")
	}
	if e := strings.TrimLeft(rest, "eE"); len(rest)-len(e) == 1 {
		sign := ""
		if strings.HasPrefix(e, "+") || strings.HasPrefix(e, "-") {
			sign, e = e[:1], e[1:]
		}
		if power := digitsOf(e); power != "" {
			plain, rest = plain+"e"+sign+power, e[len(power):]
		}
	}
	if v, err = strconv.ParseFloat(plain, 64); err != nil || math.IsInf(v, 0) {
		return refuse("is too large")
	}
	return v, plain, rest, nil
}

// ParseNumber reads a text that is one number.
func ParseNumber(s string) (float64, error) {
	v, _, rest, err := LeadingNumber(s)
	if err == nil && rest != "" {
		err = fmt.Errorf("%.40q is not a number", s)
	}
	return v, err
}

// digitsOf is the digits at the start of s.
func digitsOf(s string) string { return s[:len(s)-len(strings.TrimLeft(s, "0123456789"))] }

// markOf is the group mark at the start of s, "" where no digit follows one.
func markOf(s string) string {
	r, n := utf8.DecodeRuneInString(s)
	if n == 0 || !strings.ContainsRune(groupMarks, r) || digitsOf(s[n:]) == "" {
		return ""
	}
	return s[:n]
}
