package workloads

import (
	"math"
	"testing"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/load"
)

// TestGatewayThreads: a gateway limited to one CPU of four that uses one is at its limit. A
// command does not get the number of threads, so its limit is all CPUs.
func TestGatewayThreads(t *testing.T) {
	r := &load.Report{Expected: 1000, Server: map[string]float64{"seconds_total": 2, "cpus": 4, "gateway_cpu_seconds_total": 1.9, "origin_cpu_seconds_total": 1}}
	for _, c := range []struct {
		gateway, threads string
		server, origin   float64
	}{
		{ownGateway, "0", 1.9 / 8, 1.0 / 8},
		{ownGateway, "1", 0.95, 0.5},
		{nginxGateway, "2", 1.9 / 4, 1.0 / 4},
		{nginxGateway, "16", 1.9 / 8, 1.0 / 8},
		{commandGateway, "1", 1.9 / 8, 0.5},
	} {
		t.Run(c.gateway, func(t *testing.T) {
			var found reading
			found.gateway(r, bench.Params{"gateway": c.gateway, "threads": c.threads})
			got := map[string]float64{}
			for _, s := range found.samples {
				got[s.Desc.Name] = s.Value
			}
			if s, o := got[gatewayCPU.Name], got[originCPU.Name]; math.Abs(s-c.server) > 1e-9 || math.Abs(o-c.origin) > 1e-9 {
				t.Errorf("%s with threads=%s: the gateway used %v of its CPUs and the origin %v, want %v and %v", c.gateway, c.threads, s, o, c.server, c.origin)
			}
		})
	}
}
