package cli

import (
	"os"
	"runtime/debug"
	"runtime/metrics"
)

// floor is the memory limit of a monitor with an ordinary number of series.
const floor = 120 << 20

// limitMemory keeps garbage from doubling the heap: near the limit the collector runs
// more often. The limit follows the live heap, because below it the collector would run
// without end and take the workload's CPU. So it is not a hard bound. GOMEMLIMIT takes
// precedence.
func limitMemory() {
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	debug.SetMemoryLimit(limitFor(live[0].Value.Uint64()))
}

// limitFor allows half of the live heap as garbage, and 32 MiB for stacks and the like.
func limitFor(live uint64) int64 { return int64(max(floor, live+live/2+32<<20)) }
