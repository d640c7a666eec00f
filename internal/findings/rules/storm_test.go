package rules

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/store/storetest"
)

// TestStormTimes: a storm of 100,000 calls a second or more is found within a minute, with its rate, and its finding
// is closed within two minutes of its end, whatever the age of the monitor and the phase of the readings and
// evaluations.
func TestStormTimes(t *testing.T) {
	const interval = 5 * time.Second
	for _, rate := range []float64{100_000, 5_000_000} {
		for _, began := range []time.Duration{20 * time.Second, 10 * time.Minute} {
			for _, offset := range []time.Duration{0, 1700 * time.Millisecond, 4900 * time.Millisecond} {
				from, to := began+offset, began+offset+90*time.Second
				load := "load 5s\n  tee_syscalls_total{process=\"storm\",syscall=\"getppid\"}"
				for at := time.Duration(0); at < to+5*time.Minute; at += interval {
					load += fmt.Sprintf(" %.0f", rate*(min(max(at, from), to)-from).Seconds())
				}
				st := storetest.Load(t, load+"\n")
				for phase := time.Duration(0); phase < 15*time.Second; phase += 3500 * time.Millisecond {
					t.Run(fmt.Sprintf("%g/s from %v evaluated at %v", rate, from, phase), func(t *testing.T) {
						var opened, closed findings.Record
						var now time.Time
						o := findings.DefaultOptions()
						o.Now, o.Started = func() time.Time { return now }, time.Unix(0, 0)
						o.Observe = func(r findings.Record) {
							if r.State == findings.Open {
								opened = r
							} else {
								closed = r
							}
						}
						e := findings.New([]*findings.Rule{syscallStorm}, st, o)
						for at := phase; at < to+4*time.Minute; at += o.Every {
							now = time.Unix(0, 0).Add(at)
							e.Evaluate(t.Context())
						}
						if late := opened.LastSeen.Sub(time.Unix(0, 0)) - from; opened.ID == "" || late > time.Minute {
							t.Fatalf("opened %v after the storm began: %+v", late, opened)
						}
						if got := opened.Evidence[0].Value; math.Abs(got/rate-1) > 0.001 {
							t.Errorf("rate is %v, want %v", got, rate)
						}
						if closed.ID != opened.ID {
							t.Fatalf("opened %+v, closed %+v", opened, closed)
						}
						if got := closed.Evidence[0].Value; math.Abs(got/rate-1) > 0.001 {
							t.Errorf("rate after the end is %v, want %v", got, rate)
						}
						if late := closed.Until.Sub(time.Unix(0, 0)) - to; late > 2*time.Minute {
							t.Errorf("closed %v after the storm ended", late)
						}
					})
				}
			}
		}
	}
}
