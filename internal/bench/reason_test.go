package bench

import (
	"errors"
	"fmt"
	"testing"
)

// TestReasonFor: the reason of a metric is that of its own error, wherever it is joined or wrapped, or else the whole error.
func TestReasonFor(t *testing.T) {
	late := &MetricError{"latency_seconds", errors.New("the clock went back")}
	joined := errors.Join(errors.New("a line is cut off"), fmt.Errorf("read: %w", late), &MetricError{"latency", errors.New("none: latency_seconds: x")})
	for _, tt := range []struct {
		name, metric string
		err          error
		want         string
	}{
		{"alone", "latency_seconds", late, "the clock went back"},
		{"joined and wrapped", "latency_seconds", joined, "the clock went back"},
		{"a name that another begins with", "latency", joined, "none: latency_seconds: x"},
		{"another metric", "rate", late, "latency_seconds: the clock went back"},
		{"text that looks like it", "rate", errors.New("rate: no"), "rate: no"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := reasonFor(tt.metric, tt.err); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}
