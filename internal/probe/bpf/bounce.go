package bpf

//go:generate go tool bpf2go -cc clang -strip llvm-strip -target bpfel -go-package bpf bounce bounce.bpf.c -- -O2 -g -Wall -Werror -mcpu=v3

import (
	"bytes"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
)

// Sizes and cells of bounce.bpf.c.
const (
	bounceDevices  = 65
	bounceNameLen  = 48
	bounceMappings = 0
	bounceBytes    = 1
	bounceCells    = 2
	bounceReturns  = bounceDevices * bounceCells
	bounceFull     = bounceReturns + 1
)

// Names of the hooks of Bounce.
const (
	hookBounced = "swiotlb:swiotlb_bounced"
	hookFull    = "swiotlb_tbl_map_single"
)

// Bounce counts the bounce buffers that devices request, and those they do not get.
var Bounce = &Program{
	Name: "bounce",
	spec: spec{
		load: loadBounce,
		hooks: []hook{
			{name: hookBounced, variants: []variant{
				{"bounced_btf", typed},
				{"bounced_raw", raw("swiotlb_bounced")},
				{"bounced_nameless", raw("swiotlb_bounced")},
			}},
			// Linux 6.1 has seven arguments here, one more than fexit takes.
			{name: hookFull, variants: []variant{{"full_fexit", typed}, {"full_kretprobe", returnOf(hookFull)}}},
		},
	},
	layout: layout{
		row:  bounceFull + 1,
		read: []string{"counts", "names"},
		events: func(row counts) uint64 {
			n := row.sum(bounceReturns)
			for slot := range bounceDevices {
				n += row.sum(slot*bounceCells + bounceMappings)
			}
			return n
		},
	},
}

// returnOf attaches to the return of a kernel function by a breakpoint or ftrace.
func returnOf(symbol string) func(*host.Host, *ebpf.Program) (link.Link, error) {
	return func(_ *host.Host, p *ebpf.Program) (link.Link, error) { return link.Kretprobe(symbol, p, nil) }
}

// BounceCounts reads the counters of Bounce.
type BounceCounts struct{ *Counters }

// ByDevice emits for each device the mappings that requested a bounce buffer and their
// bytes, since the program was attached; those in BounceFull did not get one. Of those
// under Other, folded are of devices for which the table had no room, and nameless of
// devices whose name the kernel did not let us read.
func (c BounceCounts) ByDevice(emit func(device string, mappings, bytes uint64)) (folded, nameless uint64) {
	if !c.has(hookBounced) {
		return 0, 0
	}
	type total struct {
		device          string
		mappings, bytes uint64
	}
	cells, raw := c.counts(), c.maps["names"]
	var totals []total
	for slot := range bounceDevices {
		n := cells.sum(slot*bounceCells + bounceMappings)
		if n == 0 {
			continue
		}
		name := deviceName(raw, slot)
		// Two names may become the same text, because bytes that are not UTF-8 are
		// replaced.
		i := slices.IndexFunc(totals, func(t total) bool { return t.device == name })
		if i < 0 {
			i = len(totals)
			totals = append(totals, total{device: name})
		}
		totals[i].mappings += n
		totals[i].bytes += cells.sum(slot*bounceCells + bounceBytes)
	}
	for _, t := range totals {
		emit(t.device, t.mappings, t.bytes)
	}
	n := cells.sum(bounceMappings)
	if deviceName(raw, bounceDevices-1) == Other {
		return 0, n
	}
	return n, 0
}

// deviceName is the name in a slot, or Other for slot 0 and for invalid names.
func deviceName(raw []byte, slot int) string {
	at := slot * bounceNameLen
	if slot == 0 || at+bounceNameLen > len(raw) {
		return Other
	}
	text, _, _ := bytes.Cut(raw[at:at+bounceNameLen], []byte{0})
	if len(text) == 0 {
		return Other
	}
	return metric.Label(string(text))
}

// Full is the number of mappings that got no bounce buffer because the pool was full,
// since the program was attached; false if that is not counted.
func (c BounceCounts) Full() (uint64, bool) {
	return c.counts().sum(bounceFull), c.has(hookFull)
}
