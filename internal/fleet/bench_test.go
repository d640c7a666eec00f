package fleet

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/store/storetest"
)

// BenchmarkRows makes the list of 6,000 machines.
func BenchmarkRows(b *testing.B) {
	f, now := watched(b, storetest.Load(b, agents(6000)), 3*time.Minute)
	for b.Loop() {
		*now = now.Add(fresh + 6000*perRow)
		if rows, err := f.Rows(b.Context()); err != nil || len(rows) != 6000 {
			b.Fatal(len(rows), err)
		}
	}
}

// seriesOfAgent is how many series agents gives each machine, without those that a list need not read.
const seriesOfAgent = 1 + 1 + 1 + 1 + 3 + 15 + 4

// agents are machines with 15 sources each, in PromQL's test notation.
func agents(machines int) string {
	var load strings.Builder
	load.WriteString("load 15s\n")
	for i := range machines {
		on := fmt.Sprintf("job=\"agents\",instance=\"node-%d\"", i)
		fmt.Fprintf(&load, "  up{%s} 1x12\n  teescope_info{%s,version=\"1.2\",hostname=\"node-%d\"} 1x12\n  tee_info{%s,kind=\"sev\",variant=\"sev-snp\",role=\"guest\",active=\"true\"} 1x12\n", on, on, i, on)
		fmt.Fprintf(&load, "  node_pressure_cpu_waiting_seconds_total{%s} 0+1x12\n", on)
		for _, part := range []string{"userspace", "body", "dispatch"} {
			fmt.Fprintf(&load, "  teescope_overhead_cpu_seconds_total{%s,part=%q} 0+0.1x12\n", on, part)
		}
		for s := range 15 {
			fmt.Fprintf(&load, "  teescope_source_up{%s,source=\"s%d\"} 1x12\n", on, s)
		}
		for s := range 4 {
			fmt.Fprintf(&load, "  teescope_source_coverage_ratio{%s,source=\"s%d\"} 1x12\n", on, s)
		}
	}
	return load.String()
}
