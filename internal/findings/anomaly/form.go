package anomaly

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/query"
)

// form is how the series of a metric are compared.
type form struct {
	kind kind
	unit string // a word of query.Evidence
}

type kind int

const (
	level kind = iota
	rate
	mean // of a histogram's observations
)

// formOf derives the form of a metric from its name, by Prometheus' conventions; all holds the store's names. ok is
// false for recorded series and the buckets of histograms, which are not compared by themselves.
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

// unitOf returns the unit that ends a metric's name.
func unitOf(name string) string {
	for _, unit := range []string{"seconds", "bytes", "ratio"} {
		if strings.HasSuffix(name, "_"+unit) {
			return unit
		}
	}
	return ""
}

// rateUnit returns the unit of the growth of a metric of this name.
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

// expr returns the query to compare; rates are taken over the time over. Series of single processors are summed, or
// averaged where a sum means nothing.
func (f form) expr(name, matchers string, over time.Duration) string {
	selector := name
	if matchers != "" {
		selector += "{" + matchers + "}"
	}
	growth := "sum without (cpu) (" + query.Rate(selector, query.PromDuration(over)) + ")"
	switch f.kind {
	case rate:
		return growth
	case mean:
		count := strings.TrimSuffix(name, "_sum") + "_count"
		return growth + " / " + strings.Replace(growth, name, count, 1)
	}
	return fmt.Sprintf("avg without (cpu) (%s)", selector)
}

// family returns the metric, or the histogram that the metric belongs to.
func (n name) family() string {
	if n.kind == mean || n.unit == "1/s" && strings.HasSuffix(n.name, "_count") {
		return n.name[:strings.LastIndexByte(n.name, '_')]
	}
	return n.name
}

// matchers returns the matchers of a set of labels.
func matchers(labels map[string]string) string {
	return query.MatchersOf(labels, slices.Collect(maps.Keys(labels))...)
}
