package anomaly

import (
	"fmt"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/findings"
)

// form is how the series of a metric are compared.
type form struct {
	kind kind
	unit string // a word of findings.Evidence
}

type kind int

const (
	level kind = iota
	rate
	mean // of what a histogram observed
)

// formOf tells from its name what a metric is, by Prometheus' conventions; all has
// the names of the store. ok is false for what needs no look of its own: recorded
// series and the buckets of histograms.
func formOf(name string, all map[string]int) (f form, ok bool) {
	if strings.Contains(name, ":") || strings.HasSuffix(name, "_bucket") {
		return f, false
	}
	if stem, is := strings.CutSuffix(name, "_total"); is {
		return form{rate, rateUnit(stem)}, true
	}
	if stem, is := strings.CutSuffix(name, "_sum"); is && all[stem+"_count"] > 0 {
		return form{mean, unitOf(stem)}, true
	}
	if stem, is := strings.CutSuffix(name, "_count"); is && all[stem+"_sum"] > 0 {
		return form{rate, "1/s"}, true
	}
	return form{level, unitOf(name)}, true
}

// unitOf a metric whose name ends in its unit.
func unitOf(name string) string {
	for _, unit := range []string{"seconds", "bytes", "ratio"} {
		if strings.HasSuffix(name, "_"+unit) {
			return unit
		}
	}
	return ""
}

// rateUnit is the unit of the growth of what has this name.
func rateUnit(name string) string {
	switch unit := unitOf(name); {
	case strings.HasSuffix(name, "cpu_seconds"):
		return "cores"
	case unit == "seconds":
		return "ratio" // of the time
	case unit == "":
		return "1/s"
	default:
		return unit + "/s"
	}
}

// expr is what is compared of the series of a metric: over is the time that rates
// are taken over. Processors are added up, or averaged where they have no sum.
func (f form) expr(name, matchers string, over time.Duration) string {
	selector := name
	if matchers != "" {
		selector += "{" + matchers + "}"
	}
	growth := fmt.Sprintf("sum without (cpu) (rate(%s[%s]))", selector, findings.PromDuration(over))
	switch f.kind {
	case rate:
		return growth
	case mean:
		count := strings.TrimSuffix(name, "_sum") + "_count"
		return growth + " / " + strings.Replace(growth, name, count, 1)
	}
	return fmt.Sprintf("avg without (cpu) (%s)", selector)
}

// family is the metric, or the histogram that it is a part of.
func (n name) family() string {
	if n.kind == mean || n.unit == "1/s" && strings.HasSuffix(n.name, "_count") {
		return n.name[:strings.LastIndexByte(n.name, '_')]
	}
	return n.name
}

// matchers are those of a set of labels.
func matchers(labels map[string]string) string {
	return strings.Trim(findings.Selector("", labels), "{}")
}
