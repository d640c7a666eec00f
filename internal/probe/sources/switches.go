package sources

import (
	"strconv"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/probe/bpf"
)

var (
	contextSwitches = counter("tee_context_switches_total",
		"Switches of a CPU away from a thread since the monitor started, by process name and kind, as the kernel's own nvcsw and nivcsw; kernel threads are named by the part before the slash (tracepoint sched:sched_switch).",
		"process", "kind")
	processCPU = counter("tee_process_cpu_seconds_total",
		"CPU time in seconds since the monitor started, by process name, from the scheduler's sum_exec_runtime; added when a thread leaves the CPU (tracepoint sched:sched_switch).",
		"process")
	pidSwitches = counter("tee_pid_context_switches_total",
		"Switches of a CPU away from a thread since the source was narrowed to process ids, by id, name of the process now and kind; also included in tee_context_switches_total (tracepoint sched:sched_switch).",
		"pid", "process", "kind")
	pidCPU = counter("tee_pid_cpu_seconds_total",
		"CPU time in seconds since the source was narrowed to process ids, by id and name of the process now; also included in tee_process_cpu_seconds_total (tracepoint sched:sched_switch).",
		"pid", "process")
	runQueueLatency = &metric.Desc{Name: "tee_runqueue_latency_seconds", Kind: metric.Histogram,
		Help: "Time in seconds that runnable threads waited for a CPU: from being woken up, started or preempted until being switched in; level latency only (tracepoints sched:sched_wakeup, sched_wakeup_new and sched_switch)."}
)

var switchLevels = []probe.Level{
	{Name: "count", Doc: "numbers of switches, and CPU time"},
	{Name: "latency", Doc: "also how long threads wait for a CPU"},
}

var switches = probe.Source{
	Name:    "switches",
	Doc:     "Context switches and CPU time by process, counted in the kernel",
	Metrics: []*metric.Desc{contextSwitches, processCPU, runQueueLatency, pidSwitches, pidCPU, retiredEvents},
	Levels:  switchLevels,
	Needs:   processNeeds,
	Kernels: "Linux 5.15 and later with CONFIG_DEBUG_INFO_BTF",
	Cost: "per switch: see the table of event costs in docs/performance.md. " +
		"26 kB for each CPU, at most 8 MiB",
	Blind: "CPU time of a thread that is still on its CPU. While the budget has it count only part of the time, turns on a CPU that began before a window are left out: the CPU time of threads that are seldom switched, as busy loops are, is then far too low, by more than the stated error; tee_sampled_cpu_seconds_total is right. Time that the hypervisor takes from a guest counts as CPU time of the interrupted thread; in a guest, run-queue latency excludes the wait for a physical CPU",
	Open: openByProcess(bpf.Switches, switchLevels, func(c *counters, emit emitter) uint64 {
		counts := bpf.SwitchCounts{Counters: c.Counters}
		folded := counts.ByProcess(func(process string, voluntary, involuntary, ns uint64) {
			emit.send(contextSwitches, float64(voluntary), c.label(process, "voluntary")...)
			emit.send(contextSwitches, float64(involuntary), c.label(process, "involuntary")...)
			emit.send(processCPU, float64(ns)/1e9, c.label(process)...)
		})
		counts.Own(func(pid int, process string, voluntary, involuntary, ns uint64) {
			id := strconv.Itoa(pid)
			emit.send(pidSwitches, float64(voluntary), c.label(id, process, "voluntary")...)
			emit.send(pidSwitches, float64(involuntary), c.label(id, process, "involuntary")...)
			emit.send(pidCPU, float64(ns)/1e9, c.label(id, process)...)
		})
		if c.Level() > 0 {
			emit(metric.Sample{Desc: runQueueLatency, Hist: histogram(counts.RunQueue())})
		}
		return folded
	}),
}
