package sources

import (
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/probe/bpf"
)

var (
	contextSwitches = counter("tee_context_switches_total",
		"Switches of a CPU away from a thread since the monitor started, by process name and kind, as the kernel's own nvcsw and nivcsw; kernel threads go by the part of their name before the slash (tracepoint sched:sched_switch).",
		"process", "kind")
	processCPU = counter("tee_process_cpu_seconds_total",
		"CPU time in seconds since the monitor started, by process name, from the scheduler's sum_exec_runtime; added when a thread leaves the CPU (tracepoint sched:sched_switch).",
		"process")
)

var switches = probe.Source{
	Name:    "switches",
	Doc:     "context switches and CPU time by process, counted in the kernel",
	Metrics: []*metric.Desc{contextSwitches, processCPU},
	Open: openProgram(bpf.Switches, func(c *counters, emit emitter) uint64 {
		return c.Switches(func(process string, voluntary, involuntary, ns uint64) {
			emit.send(contextSwitches, float64(voluntary), c.label(process, "voluntary")...)
			emit.send(contextSwitches, float64(involuntary), c.label(process, "involuntary")...)
			emit.send(processCPU, float64(ns)/1e9, c.label(process)...)
		})
	}),
}
