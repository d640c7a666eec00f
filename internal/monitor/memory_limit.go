//go:build linux

package monitor

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"

	"github.com/teescope/teescope/internal/quota"
)

// floor is the memory limit of a monitor with an ordinary number of series.
const floor = 120 << 20

// limitMemory keeps garbage from doubling the heap: near the limit the collector runs
// more often. The limit is set anew after each collection, because it follows the live
// heap: below that the collector would run without end and take the workload's CPU. So it
// is not a hard bound; the shares of quota keep the heap below the memory of the process.
// GOMEMLIMIT takes precedence.
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
	debug.SetMemoryLimit(limitFor(read[0].Value.Uint64(), total-min(heap, total), uint64(quota.Own().Limit)))
	runtime.AddCleanup(&struct{ _ *int }{}, func(struct{}) { followHeap() }, struct{}{})
}

// limitFor allows half of the live heap as garbage, and 32 MiB, within seven tenths of the
// memory that the process may use: the rest is for mapped files and the kernel's part, such
// as the maps of eBPF programs. Above that it allows an eighth as garbage, and 4 MiB.
// Beside objects the limit counts stacks, some
// 36 KiB for each target that is scraped, the runtime's tables, and the gaps between objects;
// pages without any it does not count.
func limitFor(live, beside, memory uint64) int64 {
	most := memory / 10 * 7
	return int64(max(min(floor, most), min(live+live/2+beside+32<<20, most), live+live/8+beside+4<<20))
}
