package anomaly

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// owners are the labels that say whose a series is, the first that is there.
var owners = []string{"process", "container", "pod", "name", "device"}

func owner(labels map[string]string) string {
	for _, l := range owners {
		if labels[l] != "" {
			return labels[l]
		}
	}
	return ""
}

// sentence says the change: "redis-server: futex syscalls 40 -> 4,100/s".
func (x candidate) sentence(machine bool) string {
	who := cmp.Or(x.owner, "machine")
	if machine && x.Labels["instance"] != "" {
		who += " on " + x.Labels["instance"]
	}
	what := x.what()
	switch {
	case x.Before == nil:
		return fmt.Sprintf("%s: %s: none -> %s", who, what, amount(*x.After, x.Unit))
	case x.After == nil:
		return fmt.Sprintf("%s: %s: %s -> none", who, what, amount(*x.Before, x.Unit))
	}
	before, after := amount(*x.Before, x.Unit), amount(*x.After, x.Unit)
	if unit := strings.TrimLeft(after, "-0123456789.,e"); strings.HasSuffix(before, unit) {
		before = strings.TrimSuffix(before, unit) // once is enough
	}
	return fmt.Sprintf("%s: %s %s -> %s", who, what, before, after)
}

// what was measured: the values of the labels that tell the series from the others
// of its owner, and the metric's name without its prefix and its unit.
func (x candidate) what() string {
	var words []string
	for _, l := range slices.Sorted(maps.Keys(x.Labels)) {
		v := x.Labels[l]
		if l == "job" || l == "instance" || l == "__name__" || v == "" || v == x.owner && slices.Contains(owners, l) {
			continue
		}
		if _, err := strconv.ParseFloat(v, 64); err == nil {
			v = l + " " + v
		}
		words = append(words, v)
	}
	n := x.family
	for _, prefix := range []string{"tee_", "node_", "container_"} {
		n = strings.TrimPrefix(n, prefix)
	}
	for _, suffix := range []string{"_total", "_seconds", "_bytes", "_ratio"} {
		n = strings.TrimSuffix(n, suffix)
	}
	words = append(words, strings.ReplaceAll(n, "_", " "))
	return strings.Join(words, " ")
}

// amount prints a value with three digits, in a unit that suits its size.
func amount(v float64, unit string) string {
	unit, perSecond := strings.CutSuffix(unit, "/s")
	suffix := ""
	if perSecond {
		suffix = "/s"
	}
	switch unit {
	case "1":
		return digits(v) + suffix
	case "ratio":
		return digits(100*v) + " %"
	case "bytes":
		return scaled(v, 1024, "B KiB MiB GiB TiB") + suffix
	case "seconds":
		if math.Abs(v) < 1 && v != 0 {
			return scaled(v*1e9, 1000, "ns µs ms s")
		}
		return digits(v) + " s"
	}
	return strings.TrimSpace(digits(v) + " " + unit)
}

func scaled(v, step float64, units string) string {
	names := strings.Fields(units)
	i := 0
	for ; i < len(names)-1 && math.Abs(v) >= step; i++ {
		v /= step
	}
	return digits(v) + " " + names[i]
}

// digits prints a number with three significant digits, and its thousands apart.
func digits(v float64) string {
	v, err := strconv.ParseFloat(strconv.FormatFloat(v, 'e', 2, 64), 64)
	s := strconv.FormatFloat(v, 'f', -1, 64)
	whole, fraction, _ := strings.Cut(strings.TrimPrefix(s, "-"), ".")
	if err != nil || len(whole) > 15 || v != 0 && math.Abs(v) < 1e-6 {
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if fraction != "" {
		whole += "." + fraction
	}
	if v < 0 {
		return "-" + whole
	}
	return whole
}
