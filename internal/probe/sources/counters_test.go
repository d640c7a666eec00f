package sources

import (
	"testing"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
)

// BenchmarkCounters is what reading the counters of this machine costs; the number
// of series is that of the moment.
func BenchmarkCounters(b *testing.B) {
	for _, s := range []*probe.Source{&syscalls, &switches, &faults, &pageCache} {
		b.Run(s.Name, func(b *testing.B) {
			r, err := s.Open(host.Local(), nil)
			if err != nil {
				b.Skip(err)
			}
			defer r.Close()
			n := 0
			b.ReportAllocs()
			for b.Loop() {
				n = 0
				if err := r.Read(b.Context(), func(metric.Sample) { n++ }); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(n), "series")
		})
	}
}
