package report

import (
	"testing"
)

func TestBox(t *testing.T) {
	got := boxOf([]float64{1, 10, 11, 12, 13, 14, 15, 16, 40})
	// The quartiles are 11 and 15, so whiskers reach from 5 to 21 at most.
	if got != (box{low: 10, first: 11, third: 15, high: 16}) {
		t.Errorf("box %+v", got)
	}
}

func TestSquared(t *testing.T) {
	for unit, want := range map[string]string{"seconds": "s²", "bytes": "B²", "bytes_per_second": "(B/s)²", "seconds_per_bit": "(s/bit)²", "requests_per_second": "(requests/s)²",
		"operations": "operations²", "round_trips": "(round trips)²", "ratio": "", "1": "", "": ""} {
		t.Run(unit, func(t *testing.T) {
			if got := squared(unit); got != want {
				t.Errorf("the square of %q is %q, want %q", unit, got, want)
			}
		})
	}
}
