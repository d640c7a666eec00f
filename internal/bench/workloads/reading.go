package workloads

import (
	"fmt"
	"math"

	"github.com/teescope/teescope/internal/metric"
)

// reading collects what an output says and names what it does not say.
type reading struct {
	samples []metric.Sample
	missing []error
}

// value takes a measured number; one that is none is missing, for the reason why.
func (r *reading) value(d *metric.Desc, v float64, why string) {
	r.sample(metric.Sample{Desc: d, Value: v}, why)
}

// derived takes a number that was computed from measured ones.
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

// lack says why a metric is not there.
func (r *reading) lack(d *metric.Desc, why string) {
	r.missing = append(r.missing, fmt.Errorf("%s: %s", d.Name, why))
}
