// Package metric names what teescope measures: a Desc is declared once, in the
// file that emits it, and serves exposition, storage, help pages, rules and
// dashboards. Values are in base units (seconds, bytes, ratios); scaling is a
// matter of printing.
package metric

import (
	"fmt"
	"strings"
	"time"
)

// Kind is the metric type of the Prometheus and OpenMetrics formats.
type Kind uint8

// The kinds in use.
const (
	Counter Kind = iota
	Gauge
	Histogram
	Untyped // values whose type their source does not say, such as the fields of /proc/vmstat
)

// String is the word of the exposition format's TYPE line.
func (k Kind) String() string { return [...]string{"counter", "gauge", "histogram", "untyped"}[k] }

// Direction says which way is good, for comparisons.
type Direction int8

// The directions; a metric that only describes has Neither.
const (
	Neither Direction = 0
	Lower   Direction = -1
	Higher  Direction = 1
)

// Desc declares a metric. Help is one sentence with the unit and the source
// (kernel file, tracepoint, specification). Unit is the base unit of a
// benchmark's metric ("seconds", "bytes_per_second"), with which its name ends.
type Desc struct {
	Name, Help string
	Kind       Kind
	Unit       string
	Better     Direction
	Labels     []string
}

// Trust says how a value was come by.
type Trust uint8

// From best to worst; a value that the hardware hides is not emitted at all.
const (
	Measured  Trust = iota // counted or read directly
	Derived                // computed from measured values
	Estimated              // extrapolated from a sample; coverage says how much was seen
)

// String is the word used in results and on the page.
func (t Trust) String() string { return [...]string{"measured", "derived", "estimated"}[t] }

// Sample is one value of a metric; Labels are the values of Desc.Labels, in
// that order. Hist is set for histograms only.
type Sample struct {
	Desc   *Desc
	Labels []string
	Value  float64
	Hist   *Hist
	Trust  Trust
	// Began is the time of the first round that had the series, where it is known that
	// it was 0 in the round before that.
	Began time.Time
}

// Hist is a classic histogram: Counts[i] observations were at most Bounds[i],
// not cumulated; the last count, one more than there are bounds, is of those
// above all bounds.
type Hist struct {
	Bounds []float64
	Counts []uint64
	Sum    float64
}

// Point is one element of a query's result.
type Point struct {
	Labels map[string]string
	Value  float64
}

// Series is one element of a query's result over a time: values at moments, in
// order. A moment that has no value is left out.
type Series struct {
	Labels map[string]string
	At     []time.Time
	Values []float64
}

// Line is one element of a query's result on a grid of steps: a value for each step, NaN
// where there is none.
type Line struct {
	Labels map[string]string
	Values []float64
}

// Check reports what is wrong with a declaration: naming rules of Prometheus
// (counters end in _total, nothing else does), a missing help text, a repeated
// or reserved label.
func (d *Desc) Check() error {
	switch {
	case d.Name == "" || strings.Trim(d.Name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") != "":
		return fmt.Errorf("metric %q: bad name", d.Name)
	case !strings.HasSuffix(d.Help, "."):
		return fmt.Errorf("metric %s: help %q is not a sentence", d.Name, d.Help)
	case d.Kind == Counter && !strings.HasSuffix(d.Name, "_total"):
		return fmt.Errorf("metric %s: a counter's name ends in _total", d.Name)
	case d.Kind != Counter && strings.HasSuffix(d.Name, "_total"):
		return fmt.Errorf("metric %s: only a counter's name ends in _total", d.Name)
	}
	seen := map[string]bool{"job": true, "instance": true, "le": true, "__name__": true}
	for _, l := range d.Labels {
		if seen[l] {
			return fmt.Errorf("metric %s: label %q is reserved or repeated", d.Name, l)
		}
		seen[l] = true
	}
	return nil
}
