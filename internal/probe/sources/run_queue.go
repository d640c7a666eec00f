package sources

import (
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/probe/bpf"
)

var runQueueLatency = &metric.Desc{Name: "tee_runqueue_latency_seconds", Kind: metric.Histogram,
	Help: "Time in seconds that runnable threads waited for a CPU: from being woken up, started or preempted until being switched in (tracepoints sched:sched_wakeup, sched_wakeup_new and sched_switch)."}

var runQueue = probe.Source{
	Name:    "run_queue",
	Doc:     "How long runnable threads waited for a CPU, timed in the kernel",
	Metrics: []*metric.Desc{runQueueLatency, retiredEvents},
	OptIn:   true,
	Needs:   processNeeds,
	Kernels: "Linux 5.15 and later with CONFIG_DEBUG_INFO_BTF",
	Cost:    "per switch and wake-up: see the table of event costs in docs/lab/performance.md",
	Blind:   "in a guest, the wait for a physical CPU",
	Open: openByProcess(bpf.RunQueue, nil, func(c *counters, emit emitter) uint64 {
		emit(metric.Sample{Desc: runQueueLatency, Hist: histogram(bpf.QueueTimes{Counters: c.Counters}.Waits())})
		return 0
	}),
}
