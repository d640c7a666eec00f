package rules

import (
	"context"
	"fmt"

	"github.com/teescope/teescope/internal/analysis"
)

const poolSize, poolUsed = "tee_swiotlb_size_bytes", "tee_swiotlb_used_bytes"

var bounceBuffers = &analysis.Rule{
	Name:  "bounce_buffers",
	Title: "Bounce buffers run out",
	Doc: "At least 70 % of the pool of bounce buffers (SWIOTLB), through which a confidential VM does all its I/O, was in use at a reading of the last half minute, or the pool had no room for a mapping at all. " +
		"A mapping needs neighbouring slots, so the pool can have no room for it long before it is full; then I/O waits or fails. " +
		"A pool that was 90 % full at some time since boot is information.",
	Needs: []string{poolSize, poolUsed},
	Thresholds: []analysis.Threshold{
		{Name: "used", Doc: "share of the pool that is in use", Unit: "ratio", Default: 0.7},
		{Name: "high_water", Doc: "share of the pool that was in use at some time", Unit: "ratio", Default: 0.9},
		{Name: "failures", Doc: "mappings that found no room", Unit: "1/s", Default: 0.001},
	},
	Remedy: "Make the pool larger with the kernel option swiotlb=SLOTS of 2 KiB each (swiotlb=524288 is 1 GiB; the default in a confidential VM is 6 % of its memory, at most 1 GiB), " +
		"have fewer requests in flight (queue depth, number and size of network queues), or use a kernel with CONFIG_SWIOTLB_DYNAMIC.",
	Reference: "https://docs.kernel.org/core-api/swiotlb.html",
	Run:       findBounceBuffers,
}

func findBounceBuffers(ctx context.Context, p *analysis.Pass) error {
	points, err := p.Query(ctx, fmt.Sprintf("sum by (job, instance) (%s) > 0", poolSize), p.To)
	if err != nil {
		return err
	}
	for _, pt := range points {
		subject, err := named(ctx, p, "machine", poolSize, pt.Labels["instance"])
		if err != nil {
			return err
		}
		here := func(metric string) string { return onMachine(metric, pt.Labels) }
		size := "max(" + here(poolSize) + ")"
		e := evidence{pass: p}
		used := e.add(ctx, "most of the pool that a reading of the last "+newest(p)+" found in use", "ratio",
			fmt.Sprintf("max(max_over_time(%s[%s])) / %s", here(poolUsed), newest(p), size))
		mark := e.add(ctx, "most of the pool in use at once since boot, by the kernel's own mark", "ratio", "max("+here("tee_swiotlb_used_max_bytes")+") / "+size)
		bytes := e.add(ctx, "size of the pool", "bytes", size)
		failures := e.add(ctx, "mappings that found no room, mean of the last "+newest(p), "1/s", sumRate(here("tee_swiotlb_mapping_failures_total"), newest(p)))
		f := analysis.Finding{Subject: subject, Severity: analysis.Warning}
		switch {
		case failures >= p.Limit("failures", subject):
			f.Severity = analysis.Critical
			f.Title = fmt.Sprintf("%s mappings a second find no room in the bounce buffers of the %s, %s MiB: I/O waits or fails.", count(failures), subject, count(bytes/(1<<20)))
			f.Cost = fmt.Sprintf("%s requests a second to disks or networks are put off or lost (measured).", count(failures))
		case used >= p.Limit("used", subject):
			f.Title = fmt.Sprintf("%s of the bounce buffers of the %s are in use, of %s MiB.", percent(used), subject, count(bytes/(1<<20)))
			f.Cost = fmt.Sprintf("Nothing is lost yet; with another %s MiB in flight I/O waits or fails.", count((1-used)*bytes/(1<<20)))
		case mark >= p.Limit("high_water", subject):
			f.Severity = analysis.Info
			f.Title = fmt.Sprintf("The bounce buffers of the %s were %s full at some time since boot.", subject, percent(mark))
		default:
			continue
		}
		e.add(ctx, "bytes that ask for bounce buffers", "bytes/s", sumRate(here(bounced), newest(p)))
		if f.Evidence = e.list; e.err != nil {
			return e.err
		}
		p.Report(f)
	}
	return nil
}
