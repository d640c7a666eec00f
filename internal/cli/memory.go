//go:build linux

package cli

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// floor is the memory limit of a monitor with an ordinary number of series.
const floor = 120 << 20

// limitMemory keeps garbage from doubling the heap: near the limit the collector runs
// more often. The limit is set anew after each collection, because it follows the live
// heap: below that the collector would run without end and take the workload's CPU. So it
// is not a hard bound. GOMEMLIMIT takes precedence.
var limitMemory = sync.OnceFunc(func() {
	if os.Getenv("GOMEMLIMIT") == "" {
		followHeap()
	}
})

// followHeap sets the limit now and after each collection.
func followHeap() {
	read := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/free:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(read)
	var heap uint64
	for _, part := range read[2:] {
		heap += part.Value.Uint64()
	}
	total := read[1].Value.Uint64()
	debug.SetMemoryLimit(limitFor(read[0].Value.Uint64(), total-min(heap, total)))
	runtime.AddCleanup(&struct{ _ *int }{}, func(struct{}) { followHeap() }, struct{}{})
}

// limitFor allows half of the live heap as garbage, and 32 MiB. Beside objects the limit
// counts stacks, some 36 KiB for each target that is scraped, the runtime's tables, and the
// gaps between objects; pages without any it does not count.
func limitFor(live, beside uint64) int64 { return int64(max(floor, live+live/2+beside+32<<20)) }
