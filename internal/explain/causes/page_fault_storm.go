package causes

import (
	"strings"

	"github.com/teescope/teescope/internal/explain"
)

// memoryCalls take memory from the kernel or return it. Memory that is used again after that causes page faults.
var memoryCalls = strings.Fields("mmap munmap mremap madvise mprotect brk")

// MemoryCalls are those calls, separated by spaces.
var MemoryCalls = strings.Join(memoryCalls, " ")

// PageFaultStorm is memory that is repeatedly allocated, touched and freed.
var PageFaultStorm = explain.Cause{
	Name:  "page_fault_storm",
	What:  "taking memory from the kernel, and the page faults that follow",
	Fix:   "keep memory instead of giving it back, touch it before it is needed, or use huge pages",
	Doing: "taking memory and giving it back, and in the page faults that follow",
	Remedy: "Find the place with `perf record -e page-faults -g -p PID`. Keep memory instead of giving it back, touch it before it is needed " +
		"(MAP_POPULATE, an allocator that does not trim), use huge pages, and keep the working set smaller than the protected memory.",
	Matches: func(e explain.Event, _ explain.Circumstances) bool {
		return called(e, memoryCalls) || e.Metric == explain.FaultCount && e.Labels() != nil
	},
}
