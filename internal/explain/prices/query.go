package prices

import (
	"fmt"

	"github.com/teescope/teescope/internal/explain"
)

// Query returns the PromQL for the CPU time per second of events at their calibrated cost. bound is low, median or
// high, rate the query without labels for the growth of the events' counter per second, and of returns the selector of
// a metric of the machine that counted them.
func Query(event, bound, rate string, of func(name string, matchers ...string) string) string {
	for _, p := range All {
		if p.Event == event && p.Per > 0 {
			rate += fmt.Sprintf(" / %g", p.Per)
		}
	}
	return rate + " * avg(" + of(explain.UnitCost, fmt.Sprintf("event=%q", event), fmt.Sprintf("bound=%q", bound)) + ")"
}
