package causes

import "github.com/teescope/teescope/internal/explain"

// CPUStarvation is threads that wait for a CPU because other threads use them all.
var CPUStarvation = explain.Cause{
	Name:    explain.Queueing,
	Doing:   "waiting for a free CPU",
	Remedy:  "More threads want to run than there are CPUs. Move or limit the processes that use the CPUs (CPUWeight=, CPUQuota=, nice, cpu.max), or use fewer threads or more CPUs.",
	Matches: func(e explain.Event, _ explain.Circumstances) bool { return waits(e, "cpu") },
}
