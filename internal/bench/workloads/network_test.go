package workloads

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/await"
	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/bench/launchers"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/result"
)

// TestNetworkHere: the engine runs both ends over the loopback, by TCP and by UDP, and every metric is there. A machine so busy that
// an end is late is asked again.
func TestNetworkHere(t *testing.T) {
	buildWorker(t)
	plans, err := bench.NewPlans(bench.Choice{Experiment: &bench.Experiment{Name: "here", Workload: network.Name},
		Params: map[string]string{"omit": "100ms", "measure": "1s", "round-trips": "1000", "rate": "1000000", "congestion": "", "protocol": "tcp|udp"}, Envs: []string{"native"}, Pairs: 1, Seed: 1},
		bench.Lists{Workloads: []*bench.Workload{&network}, Launchers: launchers.All})
	if err != nil || len(plans) != 1 {
		t.Fatalf("%d plans: %v", len(plans), err)
	}
	await.Event(t, "both ends are in time", func() error {
		e, err := bench.Run(t.Context(), plans[0], bench.Options{Host: host.Local(), NoCounters: "not in this test", Timeout: time.Hour}, filepath.Join(t.TempDir(), "r.json"))
		if err != nil || len(e.Runs) != 2 {
			t.Fatalf("%+v: %v", e, err)
		}
		if e.Environments[0].Network != "loopback" {
			t.Errorf("the way is %q", e.Environments[0].Network)
		}
		for _, r := range e.Runs {
			if len(r.Metrics) == 0 || r.Status != result.OK {
				return fmt.Errorf("%s: %s: %s", r.ID, r.Status, r.Reason)
			}
			for _, m := range r.Metrics {
				if m.Value == nil && m.Reason == "" {
					t.Errorf("%s: no %s, and no reason", r.ID, m.Name)
				}
				if m.Value == nil {
					return fmt.Errorf("%s: no %s: %s", r.ID, m.Name, m.Reason)
				}
			}
		}
		return nil
	})
}
