package estimate

import (
	"testing"

	"github.com/teescope/teescope/internal/metric"
)

var (
	calls = &metric.Desc{Name: "tee_calls_total", Help: "Calls.", Labels: []string{"process"}}
	level = &metric.Desc{Name: "tee_a_level", Help: "A level.", Kind: metric.Gauge}
)

func TestEstimator(t *testing.T) {
	h := &metric.Desc{Name: "h_seconds", Kind: metric.Histogram, Help: "H."}
	var e Estimator
	take := func(n, scale float64) float64 {
		return e.Extrapolate(metric.Sample{Desc: calls, Labels: []string{"a"}, Value: n}, scale).Value
	}
	for i, c := range []struct{ n, scale, want float64 }{
		{10, 1, 10}, {20, 2, 30}, {20, 5, 30}, {30, 1, 40}, {5, 1, 45}, {9, 0, 45},
	} {
		if got := take(c.n, c.scale); got != c.want {
			t.Errorf("step %d: %g, want %g", i, got, c.want)
		}
	}
	if s := e.Extrapolate(metric.Sample{Desc: level, Value: 3}, 9); s.Value != 3 {
		t.Errorf("a gauge was scaled to %g", s.Value)
	}
	for range 3 * forgotten {
		e.EndRound()
	}
	if len(e.series) != 0 {
		t.Errorf("%d ended series are kept", len(e.series))
	}
	hist := func(scale float64, sum float64, counts ...uint64) metric.Sample {
		return e.Extrapolate(metric.Sample{Desc: h, Hist: &metric.Hist{Bounds: []float64{1}, Counts: counts, Sum: sum}}, scale)
	}
	hist(1, 3, 2, 1)
	s := hist(1.5, 6, 3, 2)
	if s.Trust != metric.Estimated || s.Hist.Sum != 7.5 || s.Hist.Counts[0] != 3 || s.Hist.Counts[1] != 2 {
		t.Errorf("histogram %+v, %v", s.Hist, s.Trust)
	}
	if s = hist(Hold, 9, 4, 9); s.Hist.Counts[0] != 3 || s.Hist.Sum != 7.5 {
		t.Errorf("what was held shows already: %+v", s.Hist)
	}
	if s = hist(1.5, 6, 4, 2); s.Hist.Counts[0] != 5 || s.Hist.Counts[1] != 2 {
		t.Errorf("half events are lost: %+v", s.Hist)
	}
	take(9, 1)
	if got := take(99, Hold); got != 9 {
		t.Errorf("what was held shows already: %g", got)
	}
	if got := take(99, 2); got != 9+180 {
		t.Errorf("what was held is lost: %g", got)
	}
}

// TestManyLabels: a series is scaled however many labels it has.
func TestManyLabels(t *testing.T) {
	d := &metric.Desc{Name: "tee_many_total", Help: "Many.", Labels: []string{"a", "b", "c", "d", "e", "f"}}
	var e Estimator
	take := func(f string, n, scale float64) metric.Sample {
		return e.Extrapolate(metric.Sample{Desc: d, Labels: []string{"a", "b", "c", "d", "e", f}, Value: n}, scale)
	}
	take("x", 10, 1)
	take("y", 1, 1)
	if s := take("x", 20, 4); s.Value != 50 || s.Trust != metric.Estimated {
		t.Errorf("%g, %v; want 10 and 4 times 10, estimated", s.Value, s.Trust)
	}
	if s := take("y", 2, 4); s.Value != 5 {
		t.Errorf("%g; want 1 and 4 times 1", s.Value)
	}
}
