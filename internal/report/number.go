package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Value prints a value of a base unit as a person reads it: at most three
// significant digits with an SI or IEC prefix. What is no number is "missing".
func Value(v float64, unit string) string {
	switch {
	case !finite(v):
		return "missing"
	case unit == "seconds":
		return duration(v)
	case unit == "bytes":
		return scaled(v, 1024, "B")
	case unit == "bytes_per_second":
		return scaled(v, 1024, "B/s")
	case unit == "bits_per_second":
		return scaled(v, 1000, "bit/s")
	case unit == "seconds_per_bit":
		return digits(v*1e9) + " s/Gbit"
	case unit == "ratio":
		return Percent(v)
	case unit == "hertz":
		return scaled(v, 1000, "Hz")
	case unit == "joules":
		return scaled(v, 1000, "J")
	}
	return strings.TrimSpace(strings.TrimSpace(scaled(v, 1000, "")) + " " + unitWords(unit))
}

// unitWords is a unit without a symbol, as words: "requests/s"; "" for the others.
func unitWords(unit string) string {
	switch unit {
	case "", "1", "seconds", "bytes", "bytes_per_second", "bits_per_second", "seconds_per_bit", "ratio", "hertz", "joules":
		return ""
	}
	if stem, ok := strings.CutSuffix(unit, "_per_second"); ok {
		return words(stem) + "/s"
	}
	return words(unit)
}

// squared is the symbol of the square of a base unit, which is the unit of a variance:
// "s²", "(requests/s)²"; "" where values have no dimension.
func squared(unit string) string {
	symbol, ok := map[string]string{"seconds": "s", "bytes": "B", "bytes_per_second": "B/s", "bits_per_second": "bit/s",
		"seconds_per_bit": "s/bit", "hertz": "Hz", "joules": "J"}[unit]
	if !ok {
		symbol = unitWords(unit)
	}
	switch {
	case symbol == "":
		return ""
	case strings.ContainsAny(symbol, "/ "):
		return "(" + symbol + ")²"
	}
	return symbol + "²"
}

// Or prints what p points to, or the word "missing" with the reason.
func Or(p *float64, unit, reason string) Cell {
	if p == nil || !finite(*p) {
		return Missing(reason)
	}
	return Cell{Text: Value(*p, unit), Raw: strconv.FormatFloat(*p, 'g', -1, 64), Number: true}
}

// Times prints a ratio as a factor: 1.034x, 3.12x, 24.5x, 892x.
func Times(v float64) string {
	switch a := math.Abs(v); {
	case a < 2:
		return strconv.FormatFloat(v, 'f', 3, 64) + "x"
	case a < 10:
		return strconv.FormatFloat(v, 'f', 2, 64) + "x"
	case a < 100:
		return strconv.FormatFloat(v, 'f', 1, 64) + "x"
	}
	return digits(v) + "x"
}

// Change prints a ratio as a change: +3.4 %, −12 %.
func Change(ratio float64) string {
	d := (ratio - 1) * 100
	s := strings.TrimPrefix(digits(d), "−")
	switch {
	case s == "0":
		return "±0 %"
	case d < 0:
		return "−" + s + " %"
	}
	return "+" + s + " %"
}

// Percent prints a ratio in percent.
func Percent(v float64) string { return digits(v*100) + " %" }

// digits prints at most three significant digits, without an exponent up to 10^15.
func digits(v float64) string {
	r, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 3, 64), 64)
	if err != nil {
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
	return strings.Replace(s, "-", "−", 1)
}

func duration(v float64) string {
	switch a := math.Abs(v); {
	case a == 0:
		return "0 s"
	case a >= 0.9995:
		return digits(v) + " s"
	case a >= 0.9995e-3:
		return digits(v*1e3) + " ms"
	case a >= 0.9995e-6:
		return digits(v*1e6) + " µs"
	}
	return digits(v*1e9) + " ns"
}

var decimal, binary = []string{"", "k", "M", "G", "T", "P", "E"}, []string{"", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"}

func scaled(v, base float64, suffix string) string {
	prefixes := decimal
	if base == 1024 {
		prefixes = binary
	}
	i := 0
	for i < len(prefixes)-1 && math.Abs(v) >= base*0.9995 {
		v /= base
		i++
	}
	if a := math.Abs(v); a >= 999.5 && a < 1024 { // 1000 to 1023 of an IEC unit: all four digits count
		return fmt.Sprintf("%.0f %s%s", v, prefixes[i], suffix)
	}
	return digits(v) + " " + prefixes[i] + suffix
}

func words(name string) string { return strings.ReplaceAll(name, "_", " ") }

// label is a metric's name for people: without its unit, which the value says.
func label(name, unit string) string {
	short := strings.TrimSuffix(name, "_"+unit)
	if unit == "" || short == "" {
		short = name
	}
	return words(short)
}
