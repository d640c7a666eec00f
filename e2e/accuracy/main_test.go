package main

import (
	"testing"
)

func TestBetween(t *testing.T) {
	points := []point{{1, 10}, {2, 20}, {4, 60}}
	for at, want := range map[float64]float64{1.5: 15, 2: 20, 3: 40} {
		if got := interpolate(points, at); got != want {
			t.Errorf("at %g: %g, want %g", at, got, want)
		}
	}
}
