package explain

import (
	"testing"

	"github.com/teescope/teescope/internal/result"
)

// TestOperationsAreOfTheWorkload: events of the whole machine and of helpers never count as the workload's.
func TestOperationsAreOfTheWorkload(t *testing.T) {
	count := func(v float64, labels map[string]string) result.Counter {
		return result.Counter{Name: FaultCount, Labels: labels, Value: &v, PerOperation: &v, Scope: "process", Trust: result.Full}
	}
	r := &result.Run{Status: result.OK,
		Counters:     []result.Counter{count(3, map[string]string{"process": "app", "space": "user"}), count(3, nil)},
		HostCounters: []result.Counter{count(600, nil), count(40, map[string]string{"helper": "kswapd*"}), {Name: SwitchCount, Value: new(float64), PerOperation: new(float64), Trust: result.Full}},
	}
	got := operations(r)
	if len(got) != 2 || got[event(FaultCount)].each != 3 || got[event(FaultCount, "space", "user")].each != 3 {
		t.Errorf("the run's operations are %v", got)
	}
}
