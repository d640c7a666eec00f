package sources

import (
	"strconv"

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
	pidSwitches = counter("tee_pid_context_switches_total",
		"Switches of a CPU away from a thread since the source was narrowed to process ids, by id, name of the process now and kind; they are part of tee_context_switches_total too (tracepoint sched:sched_switch).",
		"pid", "process", "kind")
	pidCPU = counter("tee_pid_cpu_seconds_total",
		"CPU time in seconds since the source was narrowed to process ids, by id and name of the process now; it is part of tee_process_cpu_seconds_total too (tracepoint sched:sched_switch).",
		"pid", "process")
	runQueueLatency = &metric.Desc{Name: "tee_runqueue_latency_seconds", Kind: metric.Histogram,
		Help: "Time in seconds that threads which could run waited for a CPU: from being woken up, started or preempted until being switched in; level latency only (tracepoints sched:sched_wakeup, sched_wakeup_new and sched_switch)."}
)

var switchLevels = []probe.Level{
	{Name: "count", Doc: "numbers of switches, and CPU time"},
	{Name: "latency", Doc: "how long threads wait for a CPU, too"},
}

var switches = probe.Source{
	Name:    "switches",
	Doc:     "context switches and CPU time by process, counted in the kernel",
	Metrics: []*metric.Desc{contextSwitches, processCPU, runQueueLatency, pidSwitches, pidCPU, retiredEvents},
	Levels:  switchLevels,
	Needs:   processNeeds,
	Kernels: "Linux 5.15 and later with CONFIG_DEBUG_INFO_BTF",
	Cost: "170 ns a switch at level count, 55 of them in the program, and 385 ns at level latency, wakeups included, on a machine where a switch takes 2.5 us (CPU time of two pinned threads with a pipe, Linux 6.18 in a VM, make bench). " +
		"26 kB for each CPU, at most 8 MiB",
	Blind: "CPU time of a thread that is still on its CPU; what a hypervisor does instead of running the guest counts as CPU time of the thread that it interrupted, and in a guest the wait for a physical CPU is no part of the run-queue latency",
	Open: openByProcess(bpf.Switches, switchLevels, func(c *counters, emit emitter) uint64 {
		folded := c.Switches(func(process string, voluntary, involuntary, ns uint64) {
			emit.send(contextSwitches, float64(voluntary), c.label(process, "voluntary")...)
			emit.send(contextSwitches, float64(involuntary), c.label(process, "involuntary")...)
			emit.send(processCPU, float64(ns)/1e9, c.label(process)...)
		})
		c.OwnSwitches(func(pid int, process string, voluntary, involuntary, ns uint64) {
			id := strconv.Itoa(pid)
			emit.send(pidSwitches, float64(voluntary), c.label(id, process, "voluntary")...)
			emit.send(pidSwitches, float64(involuntary), c.label(id, process, "involuntary")...)
			emit.send(pidCPU, float64(ns)/1e9, c.label(id, process)...)
		})
		if c.Level() > 0 {
			emit(metric.Sample{Desc: runQueueLatency, Hist: histogram(c.RunQueue())})
		}
		return folded
	}),
}
