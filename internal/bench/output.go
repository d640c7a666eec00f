package bench

import (
	"fmt"
	"math"
	"strings"

	"github.com/teescope/teescope/internal/contain"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/stats"
)

// Read reads the output of a successful run into r: a value for each metric of the workload, or a reason. A run without
// the metric primary, with wrong work, or whose parser crashes has failed.
func (w *Workload) Read(out Outcome, primary string, r *result.Run) {
	if err := contain.Call("reading the output of workload "+w.Name, func() error { w.read(out, primary, r); return nil }); err != nil {
		r.Status, r.Reason = result.Failed, err.Error()
	}
}

func (w *Workload) read(out Outcome, primary string, r *result.Run) {
	samples, err := w.Parse(out)
	var descs []result.MetricDesc
	have := map[string]bool{}
	for _, m := range samples {
		r.Metrics = append(r.Metrics, metricOf(m))
		have[m.Desc.Name] = true
	}
	for _, d := range w.Metrics(out.Params) {
		descs = append(descs, result.Describe(d))
		if !have[d.Name] {
			why := "the output does not have this metric"
			if err != nil {
				why = reasonFor(d.Name, err)
			}
			r.Metrics = append(r.Metrics, result.Metric{Name: d.Name, Reason: why, Source: result.Measured})
		}
	}
	r.LeaveOut(descs)
	if w.Failures != nil {
		r.Errors = w.Failures(out)
	}
	if w.Series != nil {
		w.steady(out, r)
		r.LeaveOut(descs)
	}
	if r.OutputDigest, err = w.Check(out); err != nil {
		r.Status, r.Reason = result.Failed, "output check: "+err.Error()
		return
	}
	if m := r.Metric(primary); m == nil || m.Value == nil {
		why := "the workload does not report this metric"
		if m != nil {
			why = m.Reason
		}
		r.Status, r.Reason = result.Failed, fmt.Sprintf("no %s: %s", primary, why)
	}
}

// MetricError is why a workload's Parse has no value of a metric. An error of Parse may join several.
type MetricError struct {
	Metric string // its name
	Err    error
}

func (e *MetricError) Error() string { return e.Metric + ": " + e.Err.Error() }

func (e *MetricError) Unwrap() error { return e.Err }

// reasonFor returns why a parser's error leaves a metric without a value: its MetricError, or the whole error where there is none that says anything.
func reasonFor(metric string, err error) string {
	if e := findMetricError(metric, err); e != nil && strings.TrimSpace(e.Err.Error()) != "" {
		return e.Err.Error()
	}
	return err.Error()
}

// findMetricError returns the first error about a metric among err and those that it wraps, nil without one.
func findMetricError(metric string, err error) *MetricError {
	var wrapped []error
	switch e := err.(type) { //nolint:errorlint // it walks the tree of wrapped errors itself, to find one about this metric
	case *MetricError:
		if e.Metric == metric {
			return e
		}
	case interface{ Unwrap() []error }:
		wrapped = e.Unwrap()
	case interface{ Unwrap() error }:
		wrapped = []error{e.Unwrap()}
	}
	for _, w := range wrapped {
		if e := findMetricError(metric, w); e != nil {
			return e
		}
	}
	return nil
}

func metricOf(m metric.Sample) result.Metric {
	out := result.Metric{Name: m.Desc.Name, Source: result.Measured}
	if m.Trust != metric.Measured {
		out.Source = result.Derived
	}
	if m.Hist != nil {
		out.Histogram = &result.Histogram{Bounds: m.Hist.Bounds, Counts: m.Hist.Counts, Sum: m.Hist.Sum}
		for _, c := range m.Hist.Counts {
			out.N += int64(c)
		}
	}
	if v := m.Value; !math.IsNaN(v) && !math.IsInf(v, 0) {
		out.Value = &v
	} else {
		out.Reason = "not a finite number"
	}
	return out
}

// steady cuts the warm-up off a run and makes the primary metric the mean of the rest;
// a run that never settles keeps its series and gives no value.
func (w *Workload) steady(out Outcome, r *result.Run) {
	series, err := w.Series(out)
	if err != nil {
		r.Missing["warmup"] = err.Error()
		return
	}
	primary := w.Primary(out.Params)
	desc := result.Describe(primary)
	for i, v := range series.Values {
		if why := desc.Impossible(v); why != "" {
			r.Missing["warmup"] = fmt.Sprintf("window %d of %s: %s", i+1, primary.Name, why)
			return
		}
	}
	if !(series.Width >= 0) || math.IsInf(series.Width, 0) {
		r.Missing["warmup"] = fmt.Sprintf("the windows have an invalid length, %v s", series.Width)
		return
	}
	r.Warmup = &result.Warmup{Windows: series.Values, Width: series.Width}
	if series.Attained != nil {
		r.Warmup.Method, r.Warmup.Steady = series.Method, *series.Attained
		return
	}
	st := stats.Steady(series.Values, stats.SteadyOptions{})
	r.Warmup.Method, r.Warmup.Steady, r.Warmup.CutSeconds = "slope, deviation and MSER-5", st.OK, float64(st.Cut)*series.Width
	m := r.Metric(primary.Name)
	if m == nil || m.Value == nil {
		return
	}
	if !st.OK {
		m.Value, m.Reason = nil, st.Reason
		return
	}
	sum := 0.0
	for _, v := range series.Values[st.Cut:] {
		sum += v
	}
	v := sum / float64(len(series.Values)-st.Cut)
	m.Value, m.N = &v, int64(len(series.Values)-st.Cut)
}
