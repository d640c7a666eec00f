//go:build measure

package bpf

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/measured"
	"github.com/teescope/teescope/internal/probe/probetest"
)

// TestSampledWaiting compares the samples of waiting for a CPU of one busy thread on each CPU with the scheduler's own
// account of them. Walks take CPUs from these threads themselves, which must not count as waiting.
func TestSampledWaiting(t *testing.T) {
	w := openTestWaits(t)
	names, pids := map[string]float64{}, map[string]int{}
	for _, cpu := range probetest.CPUs(t) {
		name := probetest.Name("busy")
		p := start(t, "--comm", name, "--cpu", cpu, "getppid", "1000000000")
		fmt.Fprintln(p.In) // it begins
		pids[name] = p.Process.Pid
	}
	waited := func(pid int) (seconds float64) {
		files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
		if err != nil || len(files) == 0 {
			t.Fatal("no schedstat", err)
		}
		for _, file := range files {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var ran, queued float64
			if _, err := fmt.Sscan(string(b), &ran, &queued); err != nil {
				t.Fatal(err)
			}
			seconds += queued / 1e9
		}
		return seconds
	}
	for name, pid := range pids {
		names[name] = waited(pid)
	}
	sampled := func() map[string]float64 {
		out := map[string]float64{}
		if _, err := w.Waited(func(k Wait, seconds float64) {
			if k.State == "cpu" {
				out[k.Process] += seconds
			}
		}); err != nil {
			t.Fatal(err)
		}
		return out
	}
	before, walked := sampled(), w.Walked()
	// clock: the time that is measured.
	time.Sleep(20 * time.Second)
	after, until := sampled(), w.Walked()
	interval := (until.Seconds - walked.Seconds) / float64(until.Walks-walked.Walks)
	var wrong []float64
	for name, pid := range pids {
		n, want := (after[name]-before[name])/interval, (waited(pid)-names[name])/interval
		t.Logf("%s: found waiting %.1f times of %d, the scheduler's account gives %.1f", name, n, until.Walks-walked.Walks, want)
		wrong = append(wrong, math.Abs(n-want)/math.Sqrt(want+1))
	}
	measured.EachAtMost(t, "samples find busy threads waiting for a CPU as often as the account of the scheduler says: the difference is at most four times the square root of that number plus one", "", 4, wrong)
}
