package anomaly

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/metric"
)

// owners are the labels that name a series' owner; the first one present wins.
var owners = []string{"process", "container", "pod", "name", "device"}

func owner(labels map[string]string) string {
	for _, l := range owners {
		if labels[l] != "" {
			return labels[l]
		}
	}
	return ""
}

// sentence states the change: "redis-server: futex syscalls 40 -> 4,100/s".
func (x candidate) sentence(machine bool) string {
	who := cmp.Or(x.owner, findings.WholeMachine)
	if machine && x.Labels["instance"] != "" {
		who = findings.QualifiedSubject(who, x.Labels["instance"])
	}
	what := x.seriesName()
	switch {
	case x.Before == nil:
		return fmt.Sprintf("%s: %s: none -> %s", who, what, amount(*x.After, x.Unit))
	case x.After == nil:
		return fmt.Sprintf("%s: %s: %s -> none", who, what, amount(*x.Before, x.Unit))
	}
	before, after := amount(*x.Before, x.Unit), amount(*x.After, x.Unit)
	if unit := strings.TrimLeft(after, "−-0123456789.,e"); strings.HasSuffix(before, unit) {
		before = strings.TrimSuffix(before, unit) // once is enough
	}
	return fmt.Sprintf("%s: %s %s -> %s", who, what, before, after)
}

// seriesName names the measured series: the values of the labels that tell it from its owner's other series, and the
// metric's name without prefix and unit.
func (x candidate) seriesName() string {
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

// amount prints a value for a sentence, with thousands separators in plain numbers and rates.
func amount(v float64, unit string) string {
	if stem, rate := strings.CutSuffix(unit, "/s"); stem == "1" {
		if rate {
			return metric.Count(v) + "/s"
		}
		return metric.Count(v)
	}
	if unit == "cores" {
		return metric.Count(v) + " cores"
	}
	return metric.Value(v, unit)
}
