package environment

import (
	"testing"

	"github.com/teescope/teescope/internal/host"
)

// BenchmarkWatch measures the cost of watching one run, at its two ends.
func BenchmarkWatch(b *testing.B) {
	w, err := Watch(host.Local())
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		w.Begin()
		w.Finish(0)
	}
}

// BenchmarkCapture measures the cost of describing this machine.
func BenchmarkCapture(b *testing.B) {
	for b.Loop() {
		Capture(host.Local(), nil)
	}
}
