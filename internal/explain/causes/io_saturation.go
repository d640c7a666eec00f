package causes

import "github.com/teescope/teescope/internal/explain"

// IOSaturation is threads that wait for disks.
var IOSaturation = explain.Cause{
	Name:  "io_saturation",
	What:  "waiting for disks",
	Fix:   "batch writes, keep what is read often in memory, or use a faster disk",
	Doing: "waiting for disks",
	Remedy: "See who reads and writes with `iotop -o` or `biotop-bpfcc`. Batch writes, synchronise less often, keep what is read often in memory, use a faster disk or one with more " +
		"provisioned operations: cloud disks are throttled by contract. In a confidential VM each transfer is also copied through the bounce buffer.",
	Matches: func(e explain.Event, _ explain.Circumstances) bool { return waits(e, "disk") },
}
