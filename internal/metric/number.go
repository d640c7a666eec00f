package metric

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// This file is the one printer of numbers: three significant digits, SI or IEC
// prefixes, a space before the unit. Units are base units in the words of
// Desc.Unit; "_per_second" and "/s" mean the same. The page has the same printer in
// ui/src/format (number.ts, time.ts); testdata/numbers.json is the test of both.

// Value prints a value of a base unit with an SI or IEC prefix: "7.49 ms",
// "23.5 GiB", "41 %", "1.2 kreq/s". NaN and infinities print as "missing".
func Value(v float64, unit string) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "missing"
	}
	stem, rate := strings.CutSuffix(unit, "_per_second")
	if !rate {
		stem, rate = strings.CutSuffix(unit, "/s")
	}
	per := ""
	if rate {
		per = "/s"
	}
	switch stem {
	case "seconds":
		return seconds(v) + per
	case "bytes":
		return prefixed(v, 1024, "B") + per
	case "bits":
		return prefixed(v, 1000, "bit") + per
	case "seconds_per_bit":
		return Digits(v*1e9) + " s/Gbit"
	case "ratio":
		return Percent(v) + per
	case "hertz":
		return prefixed(v, 1000, "Hz")
	case "joules":
		return prefixed(v, 1000, "J") + per
	case "cores":
		return Percent(v) + " of a core"
	case "", "1":
		return strings.TrimSpace(prefixed(v, 1000, "")) + per
	}
	return strings.TrimSpace(prefixed(v, 1000, "")) + " " + Words(stem) + per
}

var symbols = map[string]string{"": "", "1": "", "ratio": "", "seconds": "s", "bytes": "B", "bits": "bit",
	"seconds_per_bit": "s/bit", "hertz": "Hz", "joules": "J", "cores": "of a core"}

// UnitWords is a unit without a symbol, as words: "requests/s"; "" for the others.
func UnitWords(unit string) string {
	stem, rate := strings.CutSuffix(unit, "_per_second")
	if _, known := symbols[stem]; known {
		return ""
	}
	if rate {
		return Words(stem) + "/s"
	}
	return Words(stem)
}

// Symbol is the symbol of a base unit without a prefix, its words where it has
// none, and "" where values have no dimension: "s", "B/s", "requests/s".
func Symbol(unit string) string {
	if w := UnitWords(unit); w != "" {
		return w
	}
	stem, rate := strings.CutSuffix(unit, "_per_second")
	if rate {
		return symbols[stem] + "/s"
	}
	return symbols[stem]
}

// Percent prints a ratio in percent: "12.3 %".
func Percent(v float64) string { return Digits(v*100) + " %" }

// PercentOf prints a ratio with its interval: "86 % [71, 100]".
func PercentOf(v, low, high float64) string {
	return Percent(v) + " [" + Digits(low*100) + ", " + Digits(high*100) + "]"
}

// Times prints a ratio as a factor, with three decimals where they matter, which
// is within a tenth of 1: "1.034x", "3.12x", "892x".
func Times(v float64) string { return factor(v) + "x" }

// TimesOf prints a factor with its interval: "17.1x [15.6, 18.7]".
func TimesOf(v, low, high float64) string {
	return Times(v) + " [" + factor(low) + ", " + factor(high) + "]"
}

func factor(v float64) string {
	if math.Abs(v-1) < 0.1 {
		return strconv.FormatFloat(v*halfUp, 'f', 3, 64)
	}
	return Digits(v)
}

// FactorsDiffer reports whether a reader sees two factors as different: they print differently, and are either more than 1 % apart, which
// is what dividing two values of three digits can be wrong by, or on different sides of 1.
func FactorsDiffer(a, b float64) bool {
	if Times(a) == Times(b) {
		return false
	}
	return !(math.Abs(math.Log(a/b)) <= math.Log1p(0.01)) || (a-1)*(b-1) < 0
}

// Change prints a ratio as a change: "+3.4 %", "−12 %".
func Change(ratio float64) string {
	d := (ratio - 1) * 100
	s := strings.TrimPrefix(Digits(d), "−")
	switch {
	case s == "0":
		return "±0 %"
	case d < 0:
		return "−" + s + " %"
	}
	return "+" + s + " %"
}

// halfUp moves a number by less than what is printed, so that a half rounds away
// from zero here and on the page, even where arithmetic left it a little short.
const halfUp = 1 + 1e-12

// Digits prints at most three significant digits, without an exponent between
// 10⁻⁶ and 10¹⁵.
func Digits(v float64) string {
	r, err := strconv.ParseFloat(strconv.FormatFloat(v*halfUp, 'g', 3, 64), 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return "missing"
	}
	format := byte('f')
	if a := math.Abs(r); a != 0 && (a >= 1e15 || a < 1e-6) {
		format = 'g'
	}
	s := strconv.FormatFloat(r, format, -1, 64)
	if s == "-0" {
		s = "0"
	}
	return strings.ReplaceAll(strings.Replace(s, "e-0", "e-", 1), "-", "−")
}

// Count prints a number as a sentence needs it: three significant digits and its
// thousands apart, as in "3,420,000" and "12.3".
func Count(v float64) string {
	s := Digits(v)
	whole, fraction, _ := strings.Cut(strings.TrimPrefix(s, "−"), ".")
	if strings.ContainsAny(s, "em") { // an exponent, or "missing"
		return s
	}
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if fraction != "" {
		whole += "." + fraction
	}
	if strings.HasPrefix(s, "−") {
		return "−" + whole
	}
	return whole
}

// Length prints a length of time in at most two parts, to the second: "42 s", "2 h 5 min".
func Length(seconds float64) string {
	if math.IsNaN(seconds) || math.IsInf(seconds, 0) {
		return "missing"
	}
	s := math.Max(0, math.Round(seconds))
	parts := []struct {
		seconds float64
		name    string
	}{{86400, "d"}, {3600, "h"}, {60, "min"}, {1, "s"}}
	for i, p := range parts {
		n := math.Floor(s / p.seconds)
		if n == 0 {
			continue
		}
		text := fmt.Sprintf("%.0f %s", n, p.name)
		if i+1 < len(parts) {
			if next := parts[i+1]; math.Mod(s, p.seconds) >= next.seconds {
				text += fmt.Sprintf(" %.0f %s", math.Floor(math.Mod(s, p.seconds)/next.seconds), next.name)
			}
		}
		return text
	}
	return "0 s"
}

// ShortDuration prints a duration as flags and the configuration take it, without parts that are 0: "8m", not "8m0s".
func ShortDuration(d time.Duration) string {
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return text
}

// Words is a name in snake case as words.
func Words(name string) string { return strings.ReplaceAll(name, "_", " ") }

// Plural is a number with its noun: "1 run", "2 runs".
func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func seconds(v float64) string {
	switch a := math.Abs(v); {
	case a == 0:
		return "0 s"
	case a >= 0.9995:
		return Digits(v) + " s"
	case a >= 0.9995e-3:
		return Digits(v*1e3) + " ms"
	case a >= 0.9995e-6:
		return Digits(v*1e6) + " µs"
	}
	return Digits(v*1e9) + " ns"
}

var decimal, binary = []string{"", "k", "M", "G", "T", "P", "E"}, []string{"", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"}

// prefixed scales v so that at most three digits stand before the point; 1000 to
// 1023 of an IEC unit have four, all of which count.
func prefixed(v, base float64, symbol string) string {
	prefixes := decimal
	if base == 1024 {
		prefixes = binary
	}
	i := 0
	for i < len(prefixes)-1 && math.Abs(v) >= base*0.9995 {
		v /= base
		i++
	}
	if a := math.Abs(v); a >= 999.5 && a < 1024 {
		return fmt.Sprintf("%.0f %s%s", v, prefixes[i], symbol)
	}
	return Digits(v) + " " + prefixes[i] + symbol
}
