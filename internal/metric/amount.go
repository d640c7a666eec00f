package metric

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// AmountUnits are the units of amounts; "" is a plain number.
var AmountUnits = []string{"", "ratio", "1/s", "cores", "bytes", "bytes/s", "seconds"}

// amountScales are the ways to write a value in one of query.Evidence's units, with each
// one's factor to the base unit. Times are Go's durations.
var amountScales = map[string]map[string]float64{
	"":        {"": 1},
	"ratio":   {"": 1, "%": 0.01},
	"1/s":     {"/s": 1, "k/s": 1e3, "M/s": 1e6, "G/s": 1e9},
	"cores":   {"cores": 1, "core": 1},
	"bytes":   byteScales(""),
	"bytes/s": byteScales("/s"),
	"seconds": nil,
}

func byteScales(per string) map[string]float64 {
	return map[string]float64{
		"bytes" + per: 1, "B" + per: 1,
		"kB" + per: 1e3, "MB" + per: 1e6, "GB" + per: 1e9, "TB" + per: 1e12,
		"KiB" + per: 1 << 10, "MiB" + per: 1 << 20, "GiB" + per: 1 << 30, "TiB" + per: 1 << 40,
	}
}

// amountExamples show how to write a value.
var amountExamples = map[string]string{
	"":        "a plain number like 3",
	"ratio":   "a share or a factor like 20 % or 0.2",
	"1/s":     "a rate like 20k/s",
	"cores":   "CPU time like 0.5 cores",
	"bytes":   "a size like 64MiB",
	"bytes/s": "a data rate like 10MB/s",
	"seconds": "a time like 5ms",
}

var numberAndUnit = regexp.MustCompile(`^([0-9.,]+(?:[eE][+-]?[0-9]+)?)\s*(\S*)$`)

// ParseAmount reads a value with its unit and returns it in the base unit. A unit that
// amountScales lacks is an error, which says what is expected.
func ParseAmount(text, unit string) (float64, error) {
	wrong := fmt.Errorf("%q: want %s", text, amountExamples[unit])
	text = strings.TrimSpace(text)
	if unit == "seconds" {
		d, err := time.ParseDuration(strings.ReplaceAll(text, " ", ""))
		if err != nil || d < 0 || text == "0" {
			return 0, wrong
		}
		return d.Seconds(), nil
	}
	m := numberAndUnit.FindStringSubmatch(text)
	if m == nil {
		return 0, wrong
	}
	v, err := ParseNumber(m[1])
	scale, known := amountScales[unit][m[2]]
	if err != nil || !known || math.IsInf(v*scale, 0) {
		return 0, wrong
	}
	if m[2] == "%" {
		return v / 100, nil // 70 * 0.01 is not 0.7
	}
	return v * scale, nil
}

// GuessUnit returns the unit in which a value is written: the first of AmountUnits that fits.
func GuessUnit(text string) (string, error) {
	for _, unit := range AmountUnits {
		if _, err := ParseAmount(text, unit); err == nil {
			return unit, nil
		}
	}
	return "", fmt.Errorf("%q: want a number, plain or with a unit, such as 20k/s, 20 %%, 5ms, 64MiB, 10MB/s or 3 cores", text)
}

// FormatAmount writes a value in the form that ParseAmount reads.
func FormatAmount(v float64, unit string) string {
	if unit == "seconds" {
		return ShortDuration(time.Duration(math.Round(v * 1e9)))
	}
	suffix := map[string][]string{
		"ratio":   {""},
		"1/s":     {"G/s", "M/s", "k/s", "/s"},
		"cores":   {"cores"},
		"bytes":   {"TiB", "GiB", "MiB", "KiB", "bytes"},
		"bytes/s": {"GB/s", "MB/s", "kB/s", "bytes/s"},
	}[unit]
	switch {
	case suffix == nil:
		suffix = []string{""}
	case unit == "ratio" && v < 1:
		suffix = []string{"%"}
	case unit == "bytes/s" && v >= 1<<10 && math.Mod(v, 1<<10) == 0 && math.Mod(v, 1e3) != 0:
		suffix = []string{"GiB/s", "MiB/s", "KiB/s"}
	}
	fits := func(s string) bool { return v >= amountScales[unit][s] }
	s := suffix[len(suffix)-1]
	if i := slices.IndexFunc(suffix, fits); i >= 0 {
		s = suffix[i]
	}
	space := " "
	if s == "" || strings.HasSuffix(s, "/s") && unit == "1/s" {
		space = ""
	}
	return strconv.FormatFloat(math.Round(v/amountScales[unit][s]*1e6)/1e6, 'f', -1, 64) + space + s
}
