package environment

import (
	"testing"

	"github.com/teescope/teescope/internal/host"
)

// BenchmarkWatch is what watching one run costs at its two ends.
func BenchmarkWatch(b *testing.B) {
	w, err := Watch(host.Local())
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		w.Begin()
		w.End(0)
	}
}

// BenchmarkCapture is what describing this machine costs.
func BenchmarkCapture(b *testing.B) {
	for b.Loop() {
		Capture(host.Local(), nil)
	}
}
