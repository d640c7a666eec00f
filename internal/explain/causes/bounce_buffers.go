package causes

import "github.com/teescope/teescope/internal/explain"

// BounceBuffers are copies of device data, because devices cannot reach the private memory of a confidential guest.
var BounceBuffers = explain.Cause{
	Name:  "bounce_buffers",
	What:  "copying data through bounce buffers",
	Fix:   "move less data, in larger requests, or use devices that reach private memory (TDISP, TDX Connect)",
	Doing: "copying data through bounce buffers",
	Remedy: "Move less data, in larger requests: cache in the guest's memory, compress, and batch. Give the pool room (swiotlb=N on the kernel's command line) where " +
		"tee_swiotlb_mapping_failures_total grows. Devices that reach private memory by themselves (TDISP, TDX Connect, SEV-TIO) need none.",
	Speaks: func(e explain.Event, _ explain.Circumstances) bool {
		return e.Metric == explain.BouncedBytes || e.Metric == explain.BounceTime || e.Metric == explain.ProcessBounceTime
	},
}
