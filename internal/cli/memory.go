package cli

import (
	"os"
	"runtime/debug"
	"runtime/metrics"
)

// floor is the memory limit of a monitor with an ordinary number of series.
const floor = 120 << 20

// limitMemory keeps garbage from doubling the heap: near the limit the
// collector runs more often. A limit below what is really in use would make it
// run without end and take the workload's CPU, so the limit follows the live
// heap; it saves memory where there is some to save and is no hard bound. A
// GOMEMLIMIT in the environment is left alone.
func limitMemory() {
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	debug.SetMemoryLimit(limitFor(live[0].Value.Uint64()))
}

// limitFor leaves room for half of the live heap and for stacks and the like.
func limitFor(live uint64) int64 { return int64(max(floor, live+live/2+32<<20)) }
