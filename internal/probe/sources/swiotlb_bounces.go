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
		"Bytes of I/O that requested bounce buffers since the monitor started, by device, other for devices beyond 64; not the bytes copied: a mapping is copied in one direction or both. Includes failed mappings (tracepoint swiotlb:swiotlb_bounced).",
		"device")
	bouncedMappings = counter("tee_swiotlb_mappings_total",
		"Mappings that requested a bounce buffer since the monitor started, by device, including failed ones (tracepoint swiotlb:swiotlb_bounced).", "device")
	bounceFailures = counter("tee_swiotlb_mapping_failures_total",
		"Mappings that got no bounce buffer since the monitor started because the pool was full; the I/O fails or is retried (result of swiotlb_tbl_map_single).")
)

var swiotlbBounces = probe.Source{
	Name:    "swiotlb_bounces",
	Doc:     "Bytes through bounce buffers by device, and mappings that found the pool full",
	Metrics: []*metric.Desc{bouncedBytes, bouncedMappings, bounceFailures},
	Needs:   functionNeeds,
	Kernels: "Linux 5.17 and later with CONFIG_SWIOTLB and CONFIG_DEBUG_INFO_BTF; failures need CONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS, or CONFIG_KPROBES on x86-64, as before 6.4; under lockdown in confidentiality mode all devices are other",
	Cost:    "two runs for each mapping, the one that reads the device's name about 0.15 us (kernel run-time statistics of runs on request, Linux 6.18 in a VM), while the copy takes at least as long; 1.1 kB for each CPU and 6 kB; nothing where nothing bounces",
	Blind:   "the copies themselves, so not what a sync of a mapped buffer copies again; buffers from pools that belong to one device",
	Open: func(h *host.Host, facts []tee.Facts) (probe.Reader, error) {
		if err := findSwiotlb(h, facts); errors.Is(err, errNoPool) {
			return nil, err
		}
		c, err := bpf.Bounce.Open(h)
		if err != nil {
			return nil, err
		}
		if _, outside := confidentialGuest(facts); outside != nil {
			// If a pool is rarely used, it does not matter that its failures cannot be
			// counted.
			c.Lost = nil
		}
		b := &bounceReader{counters: counters{Counters: c, labels: map[[3]string][]string{}}}
		b.decode = b.send
		return b, nil
	},
}

// bounceReader reports when device names are unreadable.
type bounceReader struct {
	counters
	nameless uint64
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
	return folded
}

// Read implements probe.Reader.
func (b *bounceReader) Read(ctx context.Context, emit func(metric.Sample)) error {
	err := b.counters.Read(ctx, emit)
	if b.nameless == 0 {
		return err
	}
	return errors.Join(err, &probe.Problem{
		Err:    fmt.Errorf("the names of devices cannot be read: %d mappings are counted as %s; sums stay exact", b.nameless, bpf.Other),
		Remedy: "kernel lockdown in confidentiality mode forbids it; boot with lockdown=integrity or none",
	})
}
