package workloads

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/document"
	"github.com/teescope/teescope/internal/metric"
)

// readReport decodes a worker's report: one JSON document without unknown fields, and nothing
// after it. of names the worker in errors.
func readReport(of string, out []byte, report any) error {
	one, err := document.One(out)
	if err == nil {
		d := json.NewDecoder(bytes.NewReader(one))
		d.DisallowUnknownFields()
		err = d.Decode(report)
	}
	if err != nil {
		return fmt.Errorf("cannot read the report of the %s: %w", of, err)
	}
	return nil
}

// mostCores bounds CPU time per second: no machine has more CPUs.
const mostCores = 1 << 16

// ofCores marks a ratio as CPU time per second, which more than one CPU can give.
func ofCores(d *metric.Desc) *metric.Desc {
	d.Most = mostCores
	return d
}

// quotient marks a ratio as no share of anything: it can be far above 1.
func quotient(d *metric.Desc) *metric.Desc {
	d.Most = metric.Unlimited
	return d
}

// reading collects the samples of an output, and the reasons for those that it lacks.
type reading struct {
	samples []metric.Sample
	missing []error
}

// value adds a measured number; if v is not finite, the metric is missing for the reason why.
func (r *reading) value(d *metric.Desc, v float64, why string) {
	r.sample(metric.Sample{Desc: d, Value: v}, why)
}

// timeShare is a share of the time that passed, or that CPUs had. CPU time comes in ticks and is read before or after
// the clock, so a short run can have a few percent too much of it: that is all of it.
func timeShare(v float64) float64 {
	const ticks = 0.1
	if v > 1 && v <= 1+ticks {
		return 1
	}
	return v
}

// derived adds a number computed from measured ones.
func (r *reading) derived(d *metric.Desc, v float64, why string) {
	r.sample(metric.Sample{Desc: d, Value: v, Trust: metric.Derived}, why)
}

func (r *reading) sample(s metric.Sample, why string) {
	if math.IsNaN(s.Value) || math.IsInf(s.Value, 0) {
		r.lack(s.Desc, why)
		return
	}
	r.samples = append(r.samples, s)
}

// lack records why a metric is missing.
func (r *reading) lack(d *metric.Desc, why string) {
	r.missing = append(r.missing, &bench.MetricError{Metric: d.Name, Err: errors.New(why)})
}
