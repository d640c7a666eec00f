package protocols

import (
	"fmt"
	"testing"

	"github.com/teescope/teescope/internal/mutate"
)

// TestDamagedCounts: of a damaged page of counts, none is a number that cannot be, or there is a reason.
func TestDamagedCounts(t *testing.T) {
	mutate.Try(t, "counts", []byte(`{"cpus": 2, "asked_total": 10, "machine_cpu_seconds_total": 32.68,`+"\n"+` "softirq_cpu0_seconds_total": 0.85}`), `{}:," `, func(m mutate.Mutation) error {
		counts, err := parseCounts(m.Data)
		if err != nil && err.Error() == "" || err == nil && len(counts) == 0 {
			return fmt.Errorf("no reason")
		}
		for name, v := range counts {
			if !possible(v) {
				return fmt.Errorf("%.40s is %v", name, v)
			}
		}
		return nil
	})
}
