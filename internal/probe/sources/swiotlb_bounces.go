package sources

import (
	"context"
	"errors"
	"fmt"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/probe/bpf"
	"github.com/teescope/teescope/internal/tee"
)

var (
	bouncedBytes = counter("tee_swiotlb_bounced_bytes_total",
		"Bytes of I/O that requested bounce buffers since the monitor started, by device; other is devices beyond 64. These are not the copied bytes: a mapping is copied in one direction or in both. Includes failed mappings (tracepoint swiotlb:swiotlb_bounced).",
		"device")
	bouncedMappings = counter("tee_swiotlb_mappings_total",
		"Mappings that requested a bounce buffer since the monitor started, by device, including failed ones (tracepoint swiotlb:swiotlb_bounced).", "device")
	bounceFailures = counter("tee_swiotlb_mapping_failures_total",
		"Mappings that got no bounce buffer since the monitor started because the pool was full; the I/O fails or is retried (result of swiotlb_tbl_map_single).")
	bounceTime = counter("tee_swiotlb_seconds_total",
		"Time in the kernel's functions that map, unmap and sync bounce buffers in seconds since the monitor started, copies included, by operation and by context: task is a system call or a kernel thread, interrupt an interrupt or a page fault (kernel functions swiotlb_tbl_map_single, swiotlb_tbl_unmap_single, swiotlb_sync_single_for_*).",
		"operation", "context")
	bounceOperations = counter("tee_swiotlb_operations_total",
		"Calls of the kernel's functions that map, unmap and sync bounce buffers since the monitor started, by operation and context; they are the calls timed in tee_swiotlb_seconds_total.",
		"operation", "context")
	bounceProcessTime = counter("tee_swiotlb_process_seconds_total",
		"Time in the kernel's functions that map, unmap and sync bounce buffers in seconds since the monitor started, by the process in whose context they ran, in a system call (mode kernel, with its name) or as a kernel thread (mode thread, such as the kworker that dispatches requests for others); a part of tee_swiotlb_seconds_total; the rest of that is in interrupts and page faults.",
		"process", "mode", "call")
	bounceProcessOperations = counter("tee_swiotlb_process_operations_total",
		"Calls of the kernel's functions that map, unmap and sync bounce buffers since the monitor started, by the process in whose context they ran, mode and system call; they are the calls timed in tee_swiotlb_process_seconds_total.",
		"process", "mode", "call")
)

var swiotlbBounces = probe.Source{
	Name:    "swiotlb_bounces",
	Doc:     "Bytes through bounce buffers by device, their time, and mappings that failed because the pool was full",
	Metrics: []*metric.Desc{bouncedBytes, bouncedMappings, bounceFailures, bounceTime, bounceOperations, bounceProcessTime, bounceProcessOperations},
	Needs:   functionNeeds,
	Kernels: "Linux 5.17 and later with CONFIG_SWIOTLB and CONFIG_DEBUG_INFO_BTF; failures and times need CONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS, or CONFIG_KPROBES on x86-64, as before 6.4; under lockdown in confidentiality mode all devices are other",
	Cost:    "five runs of programs for each mapping. The run that reads the device's name takes about 0.15 µs (kernel run-time statistics of test runs, Linux 6.18 in a VM); the copy takes at least as long. 5.3 kB for each CPU and 45 kB. No cost if nothing bounces",
	Blind:   "the number of bytes that a sync of a mapped buffer copies again (its time is counted); the process for which an interrupt or a kernel thread works; which page faults need bounce buffers; buffers from pools that belong to one device. The time of a call includes interrupts during it. The time that the measurement adds is measured on an empty function and subtracted",
	Open: func(h *host.Host, facts []tee.Facts) (probe.Reader, error) {
		if err := findSwiotlb(h, facts); errors.Is(err, errNoPool) {
			return nil, err
		}
		c, err := bpf.Bounce.Open(h)
		if err != nil {
			return nil, err
		}
		if _, outside := confidentialGuest(facts); outside != nil {
			// If a pool is rarely used, it does not matter that its failures and times
			// cannot be counted.
			c.Lost = nil
		}
		b := &bounceReader{counters: counters{Counters: c, labels: map[[3]string][]string{}}}
		b.decode = b.send
		// If it is unknown, nothing is subtracted: times are then upper bounds.
		b.cost, _ = bpf.BounceCounts{Counters: c}.TimingCost()
		return b, nil
	},
}

// bounceReader reads the counters, and reports unreadable device names.
type bounceReader struct {
	counters
	nameless uint64
	// untimed and timed are the numbers of calls without and with a known time.
	untimed, timed uint64
	// cost is what timing adds to a call, in seconds by operation.
	cost [len(bpf.BounceOperations)]float64
}

func (b *bounceReader) send(_ *counters, emit emitter) (folded uint64) {
	counts := bpf.BounceCounts{Counters: b.Counters}
	folded, b.nameless = counts.ByDevice(func(device string, mappings, bytes uint64) {
		l := b.label(device)
		emit.send(bouncedMappings, float64(mappings), l...)
		emit.send(bouncedBytes, float64(bytes), l...)
	})
	if n, ok := counts.Full(); ok {
		emit.send(bounceFailures, float64(n))
	}
	b.timed, b.untimed = 0, counts.Untimed()
	var inTask, added float64
	counts.Times(func(op bpf.BounceOperation, context int, calls uint64, seconds float64) {
		own := float64(calls) * b.cost[op]
		if seconds = max(0, seconds-own); context == 0 {
			inTask, added = inTask+float64(calls), added+own
		}
		l := b.label(bpf.BounceOperations[op], bpf.BounceContexts[context])
		emit.send(bounceTime, seconds, l...)
		emit.send(bounceOperations, float64(calls), l...)
		b.timed += calls
	})
	if !counts.Timed() {
		return folded
	}
	return folded + counts.ByTask(func(process string, in bpf.Activity, call string, calls uint64, seconds float64) {
		l := b.label(process, string(in), call)
		emit.send(bounceProcessTime, max(0, seconds-float64(calls)*added/inTask), l...)
		emit.send(bounceProcessOperations, float64(calls), l...)
	})
}

// mostUntimed is the share of calls whose time may be unknown without an error.
const mostUntimed = 0.01

// Read implements probe.Reader.
func (b *bounceReader) Read(ctx context.Context, emit func(metric.Sample)) error {
	err := b.counters.Read(ctx, emit)
	if all := b.timed + b.untimed; float64(b.untimed) > mostUntimed*float64(all) {
		err = errors.Join(err, fmt.Errorf("the time of %d calls of %d is not known: tee_swiotlb_seconds_total is too low", b.untimed, all))
	}
	if b.nameless == 0 {
		return err
	}
	return errors.Join(err, &probe.Problem{
		Err:    fmt.Errorf("the names of devices cannot be read: %d mappings are counted as %s; sums stay exact", b.nameless, bpf.Other),
		Remedy: "kernel lockdown in confidentiality mode forbids it; boot with lockdown=integrity or none",
	})
}
