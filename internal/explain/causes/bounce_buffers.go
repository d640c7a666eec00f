package causes

import "github.com/teescope/teescope/internal/explain"

// BounceBuffers is a pool of bounce buffers without room for a request, which then waits or fails. The row of bounce
// buffers has it where mappings failed: no event's time indicates it.
var BounceBuffers = explain.Cause{
	Name: "bounce_buffers",
	Remedy: "Enlarge the pool with the kernel option swiotlb=SLOTS of 2 KiB each (swiotlb=524288 is 1 GiB; the default in a confidential VM is 6 % of its memory, at most 1 GiB). " +
		"Or reduce requests in flight (queue depth, number and size of network queues), or use a kernel with CONFIG_SWIOTLB_DYNAMIC. " +
		"`teescope bench run knob-bounce-fio` (needs qemu-system-x86 and fio) measures the effect of the pool's size.",
}
