package causes

import "github.com/teescope/teescope/internal/explain"

// MemoryConversions are changes of a confidential guest's memory from private to shared with the hypervisor, and back.
var MemoryConversions = explain.Cause{
	Name:  "memory_conversions",
	What:  "converting memory between private and shared",
	Fix:   "keep shared buffers instead of making and freeing them",
	Doing: "converting memory between private and shared{often}",
	Remedy: "Find the driver with `bpftrace -e 'kprobe:set_memory_decrypted { @[kstack] = count(); }'`. The usual cause is a driver that allocates coherent DMA buffers for each request: " +
		"load it with larger pools, keep its queues and devices open, or use a kernel whose driver takes buffers from the bounce pool instead.",
	Matches: func(e explain.Event, _ explain.Circumstances) bool { return e.Metric == explain.Conversions },
}
