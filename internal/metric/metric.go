// Package metric names what teescope measures: a Desc is declared once, in the
// file that emits it, and serves exposition, storage, help pages, rules and
// dashboards. Values are in base units (seconds, bytes, ratios); scaling is a
// matter of printing.
package metric

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strconv"
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
// Least and Most bound what a value can be at all, where that is not what Range says; Most can be Unlimited.
type Desc struct {
	Name, Help  string
	Kind        Kind
	Unit        string
	Better      Direction
	Labels      []string
	Least, Most float64
}

// Physical limits, above which a number is a fault of whoever reports it.
const (
	MostHertz = 10e9 // of a clock: no processor's is as fast, cooled with liquid helium or not
	MostWatts = 1e5  // of a card: racks need as much
)

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
	// Zero is the time of that round before, at which the series was 0.
	Zero time.Time
}

// Hist is a classic histogram: Counts[i] observations were at most Bounds[i],
// not cumulated; the last count, one more than there are bounds, is of those
// above all bounds.
type Hist struct {
	Bounds []float64
	Counts []uint64
	Sum    float64
}

// Check reports why a sample cannot be shown: it is not what its metric declares, or its value is out of range.
func (s *Sample) Check() error {
	switch h := s.Hist; {
	case s.Desc == nil:
		return errors.New("a sample without a metric")
	case len(s.Labels) != len(s.Desc.Labels):
		return fmt.Errorf("%s%q: want %d labels", s.Desc.Name, s.Labels, len(s.Desc.Labels))
	case (h != nil) != (s.Desc.Kind == Histogram) || h != nil && len(h.Counts) != len(h.Bounds)+1:
		return fmt.Errorf("%s is not a whole %s", s.series(), s.Desc.Kind)
	case h != nil:
		n := 0.0
		for _, c := range h.Counts {
			n += float64(c)
		}
		return cmp.Or(s.impossible(h.Sum), s.impossible(n))
	}
	return s.impossible(s.Value)
}

func (s *Sample) impossible(v float64) error {
	if why := s.Desc.Impossible(v); why != "" {
		return fmt.Errorf("%s is %v, %s", s.series(), v, why)
	}
	return nil
}

// series is the sample's name and labels for messages.
func (s *Sample) series() string {
	name := s.Desc.Name
	for i, v := range s.Labels {
		name += fmt.Sprintf("%c%s=%.60q", "{,"[min(i, 1)], s.Desc.Labels[i], Label(v))
	}
	if len(s.Labels) > 0 {
		name += "}"
	}
	return name
}

// wrapped is where numbers begin that a counter of the kernel has only when it fell below 0: half of what 64 bits hold.
const wrapped = 1 << 63

// Unlimited is the most of a metric that has no upper limit, such as a ratio that is a share of nothing.
var Unlimited = math.Inf(1)

// Range is where values of the metric can be: none is negative, a ratio is a share of at most 1, and anything else is
// less than 2^63, unless Least and Most say otherwise.
func (d *Desc) Range() (least, most float64) {
	most = d.Most
	switch {
	case most != 0:
	case d.Kind == Gauge && strings.HasSuffix(d.Name, "_ratio"):
		most = 1
	default:
		most = wrapped
	}
	return d.Least, most
}

// shares is how far arithmetic may take a share of all above 1.
const shares = 1e-9

// Impossible says why a value cannot be one of the metric, "" if it can.
func (d *Desc) Impossible(v float64) string {
	least, most := d.Range()
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "which is not a number"
	case v >= wrapped && (most == wrapped || most == Unlimited):
		return "which has wrapped below 0"
	case v < least:
		return "less than " + strconv.FormatFloat(least, 'g', -1, 64)
	case v > most*(1+shares):
		return "more than " + strconv.FormatFloat(most, 'g', -1, 64)
	}
	return ""
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
// where there is none. Values begin after Skip steps, and may end before the last step: where
// names come and go, most lines have values at few steps.
type Line struct {
	Labels map[string]string
	Skip   int
	Values []float64
}

// At returns the value at a step, NaN if there is none.
func (l Line) At(step int) float64 {
	if i := step - l.Skip; i >= 0 && i < len(l.Values) {
		return l.Values[i]
	}
	return math.NaN()
}

// Check reports what is wrong with a declaration: naming rules of Prometheus
// (counters end in _total, nothing else does), a missing help text, a repeated
// or reserved label.
func (d *Desc) Check() error {
	switch least, most := d.Range(); {
	case d.Name == "" || strings.Trim(d.Name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") != "":
		return fmt.Errorf("metric %q: bad name", d.Name)
	case !strings.HasSuffix(d.Help, "."):
		return fmt.Errorf("metric %s: help %q is not a sentence", d.Name, d.Help)
	case d.Kind == Counter && !strings.HasSuffix(d.Name, "_total"):
		return fmt.Errorf("metric %s: a counter's name ends in _total", d.Name)
	case d.Kind != Counter && strings.HasSuffix(d.Name, "_total"):
		return fmt.Errorf("metric %s: only a counter's name ends in _total", d.Name)
	case most <= least:
		return fmt.Errorf("metric %s: no value is between %v and %v", d.Name, least, most)
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
