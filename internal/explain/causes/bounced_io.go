package causes

import "github.com/teescope/teescope/internal/explain"

// BouncedIO is copying device data, because devices cannot reach the private memory of a confidential guest.
var BouncedIO = explain.Cause{
	Name:  "bounced_io",
	What:  "copying data through bounce buffers",
	Fix:   "move less data, in larger requests, or use devices that reach private memory (TDISP, TDX Connect)",
	Doing: "copying data through bounce buffers",
	Remedy: "Move fewer bytes: compress, cache, keep data in memory, read only what you need. Encrypt once: disk encryption below and TLS above a bounce buffer make three passes over each byte. " +
		"Devices that are trusted with private memory (TDISP, trusted I/O) need no bounce buffers. " +
		"Before Linux 6.0 one lock protects the pool: use a later kernel, whose pool has an area for each CPU (`teescope bench run knob-bounce-areas`, which needs qemu-system-x86 and fio, measures the effect).",
	Matches: func(e explain.Event, _ explain.Circumstances) bool {
		return e.Metric == explain.BouncedBytes || e.Metric == explain.BounceTime || e.Metric == explain.ProcessBounceTime
	},
}
