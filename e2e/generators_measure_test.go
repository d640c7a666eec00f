//go:build measure

package e2e

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/teescope/teescope/internal/measured"
	"github.com/teescope/teescope/internal/result"
)

// TestLoadGeneratorsAgree compares our load generator with another in pairs of runs on the same server. Client and server share the machine,
// so a generator that needs more CPU time per request leaves the server less: then the report has to name the load generator as the limit.
func TestLoadGeneratorsAgree(t *testing.T) {
	var apart []float64
	for _, c := range []struct{ workload, generator, pkg string }{
		{"redis", "redis-benchmark", "redis-tools"},
		{"postgres", "pgbench", "postgresql-contrib"},
		{"nginx", "wrk", "wrk"},
		{"nginx", "h2load", "nghttp2-client"},
	} {
		tool(t, c.generator, c.pkg)
		path := filepath.Join(t.TempDir(), "r.json")
		_, errs, code := run(t, "bench", "run", c.workload, "--param", "connections=8", "--env", "ours=native", "--env", "other=native,load="+c.generator, "--pairs", "8",
			"--out", path, "--data", t.TempDir())
		if code != 0 && code != 2 && code != 3 {
			t.Fatalf("%s with %s: exit status %d: %s", c.workload, c.generator, code, errs)
		}
		e := whole(t, path)
		i := slices.IndexFunc(e.Comparisons, func(c result.Comparison) bool { return c.Primary })
		if i < 0 || e.Comparisons[i].CostLow == nil || e.Comparisons[i].CostHigh == nil {
			t.Fatalf("%s with %s has no ratio", c.workload, c.generator)
		}
		x := &e.Comparisons[i]
		distance := max(0, *x.CostLow-1, 1 / *x.CostHigh - 1)
		limited := slices.ContainsFunc(e.Guards, func(g result.Guard) bool { return g.ID == "client-limited" || g.ID == "bottleneck" })
		t.Logf("%s with %s: %.3f [%.3f, %.3f], the load generator is named as the limit: %v", c.workload, c.generator, *x.Cost, *x.CostLow, *x.CostHigh, limited)
		if limited {
			distance = 0
		}
		apart = append(apart, distance)
	}
	measured.EachAtMost(t, "our load generator and redis-benchmark, pgbench, wrk and h2load find the same rate within 10 %, or the report names the load generator as the limit", "ratio", 0.1, apart)
}
