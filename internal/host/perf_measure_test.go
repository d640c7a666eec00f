//go:build measure

package host

import (
	"math"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/measured"
)

// TestPerfClock: a CPU's clock runs as fast as the wall's.
func TestPerfClock(t *testing.T) {
	g := openedPerf(t, PerfTarget{CPU: 0}, cpuClock)
	var off []float64
	for range 10 {
		began, before := time.Now(), readPerf(t, g)
		time.Sleep(100 * time.Millisecond)
		after, took := readPerf(t, g), time.Since(began)
		off = append(off, math.Abs(float64(after.Values[0]-before.Values[0])/float64(took)-1))
	}
	measured.AtMost(t, "a CPU's clock runs within 1 % of the wall's", "ratio", 0.01, off)
}
