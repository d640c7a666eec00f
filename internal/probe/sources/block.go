package sources

import (
	"context"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/probe/bpf"
	"github.com/teescope/teescope/internal/tee"
)

var (
	blockLatency = &metric.Desc{Name: "tee_block_io_latency_seconds", Kind: metric.Histogram, Labels: []string{"device", "operation"},
		Help: "Time in seconds from issuing a request to a block device to its completion, excluding time in the I/O scheduler's queue (tracepoints block:block_rq_issue, block:block_rq_complete)."}
	blockRequests = counter("tee_block_requests_total", "Requests that a block device completed since the monitor started, including failed ones (tracepoint block:block_rq_complete).", "device", "operation")
	blockBytes    = counter("tee_block_bytes_total", "Bytes of the requests that a block device completed without an error since the monitor started (tracepoint block:block_rq_complete).", "device", "operation")
	blockErrors   = counter("tee_block_errors_total", "Requests that a block device completed with an error since the monitor started (tracepoint block:block_rq_complete).", "device", "operation")
)

// block is the only place where the time of encryption and of bounce buffers shows by
// device: a confidential VM's disk answers that much later.
var block = probe.Source{
	Name:    "block",
	Doc:     "Latency, requests and bytes by block device and operation, counted in the kernel",
	Metrics: []*metric.Desc{blockLatency, blockRequests, blockBytes, blockErrors},
	Needs: []probe.Need{
		{Capability: "cap_bpf", For: "to load the programs", Open: true},
		{Capability: "cap_perfmon", For: "to load programs that read the kernel's structures", Open: true},
	},
	Kernels: "Linux 5.15 and later with CONFIG_DEBUG_INFO_BTF",
	Cost:    "per request: see the table of event costs in docs/lab/performance.md; 145 kB for each CPU, at most 8 MiB",
	Blind:   "time in the I/O scheduler's queue and in file systems; requests of drivers without a request queue (device mapper, md), although the requests to their disks are seen; driver commands on queues without a disk; while the budget allows only sampling, latencies longer than a window",
	Open: func(h *host.Host, _ []tee.Facts) (probe.Reader, error) {
		c, err := bpf.Block.Open(h)
		if err != nil {
			return nil, err
		}
		b := &blockReader{counters: counters{Counters: c, labels: map[[3]string][]string{}}}
		b.decode = b.send
		return b, nil
	},
}

// blockReader adds to the missed events the requests without a latency because too many
// were in flight at once.
type blockReader struct {
	counters
	lost uint64
}

// Read implements probe.Reader.
func (b *blockReader) Read(ctx context.Context, emit func(metric.Sample)) error {
	return b.counters.Read(ctx, func(s metric.Sample) {
		if s.Desc == probe.Missed {
			s.Value += float64(b.lost)
		}
		emit(s)
	})
}

func (b *blockReader) send(_ *counters, emit emitter) (folded uint64) {
	folded, b.lost = bpf.BlockCounts{Counters: b.Counters}.ByDevice(func(device string, operation int, io *bpf.BlockIO) {
		l := b.label(device, bpf.BlockOperations[operation])
		emit.send(blockRequests, float64(io.Requests), l...)
		emit.send(blockBytes, float64(io.Bytes), l...)
		emit.send(blockErrors, float64(io.Errors), l...)
		emit(metric.Sample{Desc: blockLatency, Labels: l, Hist: histogram(&io.Latency)})
	})
	return folded
}

// histogram is a latency in the form of samples.
func histogram(l *bpf.Latency) *metric.Hist {
	return &metric.Hist{Bounds: bpf.LatencyBounds, Counts: l.Buckets(), Sum: l.Sum()}
}
