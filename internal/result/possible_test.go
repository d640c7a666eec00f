package result

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"
)

var possibleDescs = []MetricDesc{
	{Name: "lost_ratio", Unit: "ratio"}, {Name: "busy_ratio", Unit: "ratio", Most: 64}, {Name: "rate_bytes_per_second", Unit: "bytes_per_second"},
	{Name: "requests_total", Unit: "requests"}, {Name: "cpu_seconds_total", Unit: "seconds"}, {Name: "change_seconds", Unit: "seconds", Least: -1},
	{Name: "wait_p50_seconds", Unit: "seconds"}, {Name: "wait_p99_seconds", Unit: "seconds"}, {Name: "wait_p999_seconds", Unit: "seconds"}, {Name: "wait_max_seconds", Unit: "seconds"},
}

// TestImpossible: what a metric cannot be is left out of a run with the reason, and nothing else is; a document that
// has it is refused.
func TestImpossible(t *testing.T) {
	const whole = ""
	for _, c := range []struct {
		name string
		v    float64
		why  string
	}{
		{"lost_ratio", 0, whole}, {"lost_ratio", 1, whole}, {"lost_ratio", 1 + 1e-12, whole},
		{"lost_ratio", 1.79, "it is 1.79, more than 1"}, {"lost_ratio", -0.03, "it is -0.03, less than 0"}, {"lost_ratio", math.NaN(), "not a number"}, {"lost_ratio", math.Inf(1), "not a number"},
		{"busy_ratio", 64, whole}, {"busy_ratio", 65, "more than 64"},
		{"rate_bytes_per_second", 1e18, whole}, {"rate_bytes_per_second", math.MaxUint64, "wrapped"}, {"rate_bytes_per_second", -1, "less than 0"},
		{"requests_total", 1e15, whole}, {"requests_total", 0.5, "not a whole number"}, {"requests_total", math.MaxUint64, "wrapped"},
		{"cpu_seconds_total", 0.5, whole}, {"change_seconds", -0.5, whole}, {"change_seconds", -1.5, "less than -1"},
		{"undeclared", -1, whole},
	} {
		t.Run(c.name, func(t *testing.T) {
			other := 7.0
			r := Run{Metrics: []Metric{{Name: c.name, Value: &c.v, Source: Measured}, {Name: "other", Value: &other, Source: Measured}}}
			err := r.possible(possibleDescs)
			if (err == nil) != (c.why == whole) || err != nil && !strings.Contains(err.Error(), c.why) {
				t.Errorf("%s of %v: %v, want %q", c.name, c.v, err, c.why)
			}
			r.LeaveOut(possibleDescs)
			m := r.Metrics[0]
			if (m.Value == nil) != (c.why != whole) || !strings.Contains(m.Reason, c.why) || r.Metrics[1].Value != &other {
				t.Errorf("%s of %v becomes %+v", c.name, c.v, m)
			}
			if err := r.possible(possibleDescs); err != nil {
				t.Errorf("%s of %v: a run without it is refused: %v", c.name, c.v, err)
			}
		})
	}
}

// TestFalling: percentiles are in order, or all of their family are left out.
func TestFalling(t *testing.T) {
	for _, c := range []struct {
		p50, p99, p999, longest float64
		falls                   bool
	}{{1, 2, 3, 4, false}, {1, 1, 1, 1, false}, {2, 1, 3, 4, true}, {1, 2, 1.5, 4, true}, {1, 2, 3, 2.5, true}, {4, 3, 2, 1, true}} {
		rate := 5.0
		r := Run{Metrics: []Metric{{Name: "wait_max_seconds", Value: &c.longest}, {Name: "wait_p999_seconds", Value: &c.p999}, {Name: "wait_p99_seconds", Value: &c.p99},
			{Name: "wait_p50_seconds", Value: &c.p50}, {Name: "rate_bytes_per_second", Value: &rate}}}
		r.LeaveOut(possibleDescs)
		for _, m := range r.Metrics[:4] {
			if (m.Value == nil) != c.falls || c.falls && !strings.Contains(m.Reason, " only ") {
				t.Errorf("%+v: %+v", c, m)
			}
		}
		if r.Metrics[4].Value == nil {
			t.Error("another metric is left out too")
		}
	}
}

// TestTwice: of a metric that is there twice neither value is taken; histograms are whole; events do not wrap.
func TestTwice(t *testing.T) {
	a, b, events := 1.0, 2.0, math.MaxUint64*1.0
	r := Run{Metrics: []Metric{{Name: "rate_bytes_per_second", Value: &a}, {Name: "rate_bytes_per_second", Value: &b},
		{Name: "wait_p50_seconds", Value: &a, Histogram: &Histogram{Bounds: []float64{1}, Counts: []uint64{1}}}},
		Counters: []Counter{{Name: "tee_faults_total", Value: &events, Trust: Full}}}
	r.LeaveOut(possibleDescs)
	if len(r.Metrics) != 2 || r.Metrics[0].Value != nil || r.Metrics[1].Value != nil || !strings.Contains(r.Metrics[0].Reason, "twice") {
		t.Errorf("%+v", r.Metrics)
	}
	if c := r.Counters[0]; c.Value != nil || c.Trust != None || !strings.Contains(c.Note, "wrapped") {
		t.Errorf("%+v", c)
	}
}

// TestParseRefusesImpossible: a file made elsewhere is not shown with values that cannot be.
func TestParseRefusesImpossible(t *testing.T) {
	for text, why := range map[string]string{
		"0.5": "", "1.79": "more than 1", "-0.01": "less than 0", "18446744073709551615": "more than 1",
	} {
		t.Run(text, func(t *testing.T) {
			e := sample()
			e.Workload.Metrics = append(e.Workload.Metrics, MetricDesc{Name: "lost_ratio", Unit: "ratio", Better: "lower"})
			r := run(0)
			r.Metrics = append(r.Metrics, Metric{Name: "lost_ratio", Value: pointer(0.123456), Source: Measured})
			e.Runs = []Run{*r}
			b, err := json.Marshal(e)
			if err != nil {
				t.Fatal(err)
			}
			_, err = Parse(bytes.Replace(b, []byte("0.123456"), []byte(text), 1))
			if why == "" && err != nil || why != "" && (err == nil || !strings.Contains(err.Error(), "run p00-default-native: lost_ratio") || !strings.Contains(err.Error(), why)) {
				t.Errorf("%s: %v", text, err)
			}
		})
	}
	e := sample()
	e.Comparisons = []Comparison{{Baseline: "native", Treatment: "native", Case: "default", Metric: "x_seconds", BaseMedian: pointer(-3)}}
	if err := whole(e); err == nil || !strings.Contains(err.Error(), "less than 0") {
		t.Errorf("a negative median of times: %v", err)
	}
}
