//go:build measure

package bpf

import (
	"math"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/measured"
	"github.com/teescope/teescope/internal/probe/probetest"
)

// TestSampledTime compares the number of samples with the CPU time of programs, and the activity of most samples with
// what the programs do.
func TestSampledTime(t *testing.T) {
	s := openTestSamples(t, Limits{})
	var wrong, elsewhere []float64
	for _, c := range []struct {
		args   []string
		mostly doing
	}{
		{[]string{"cpu", "500"}, doing{InKernel, "clock_gettime"}}, // it reads its CPU time all the time
		{[]string{"getppid", "5000000"}, doing{InKernel, "getppid"}},
		{[]string{"faults", "write", "200000"}, doing{InFault, ""}},
	} {
		var memory unix.Sysinfo_t
		if err := unix.Sysinfo(&memory); c.mostly.in == InFault && (err != nil || memory.Freeram*uint64(memory.Unit) < 1<<30) {
			t.Logf("faults on 200,000 pages take 1 GiB of free memory (%v)", err)
			continue
		}
		for range runs {
			name := probetest.Name("time")
			late := s.Late()
			d := events(t, func() {}, func() {}, append([]string{"--comm", name}, c.args...)...)
			got := sampled(s, name)
			n, want := total(got), d.total/SamplePeriod.Seconds()
			t.Logf("%v: %v, %d late, %.2f s of CPU time", c.args, got, s.Late()-late, d.total)
			// Ticks at even distances: the error of their number is smaller than that of as many independent draws.
			wrong = append(wrong, math.Abs(n-want)/math.Sqrt(want))
			elsewhere = append(elsewhere, 1-got[c.mostly]/n)
		}
	}
	measured.AtMost(t, "the number of samples is off by at most the square root of what the CPU time of a program would give", "", 1, wrong)
	measured.AtMost(t, "at most half of the samples of a program are of something else than what it does", "ratio", 0.5, elsewhere)
}
