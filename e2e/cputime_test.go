package e2e

import (
	"fmt"
	"math/rand/v2"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/teescope/teescope/internal/await"
)

// TestCPUTime: for any budget, the CPU time of programs that compute, and of programs that end between two readings, is
// what the kernel accounts to them (getrusage(2)).
func TestCPUTime(t *testing.T) {
	t.Parallel()
	needRoot(t)
	path := cc(t, "../workloads/events/events.c")
	m := startMonitor(t, "agent", "--budget", "0.1%")
	suffix := fmt.Sprintf("%06x", rand.Uint32N(1<<24))
	for _, c := range []struct {
		name string
		runs int
		args []string
	}{
		{"long" + suffix, 1, []string{"getppid", "2000000"}},
		{"short" + suffix, 200, []string{"cpu", "2"}},
	} {
		own := 0.0
		for range c.runs {
			p := exec.Command(path, append([]string{"--comm", c.name}, c.args...)...)
			if out, err := p.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			u := p.ProcessState.SysUsage().(*syscall.Rusage)
			own += float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
		}
		metric := fmt.Sprintf("tee_process_cpu_seconds_total{process=%q", c.name)
		await.Event(t, "its time is counted", func() error {
			got := 0.0
			for name, v := range seriesOf(t, m) {
				if strings.HasPrefix(name, metric) {
					got += v
				}
			}
			if got < own {
				return fmt.Errorf("%.6f s of %s are counted, it used %.6f s", got, c.name, own)
			}
			// The kernel's account ends a few microseconds before a program leaves its CPU for good.
			if got > 1.1*own {
				t.Errorf("%.6f s of %s are counted, it used %.6f s", got, c.name, own)
			}
			return nil
		})
	}
}
