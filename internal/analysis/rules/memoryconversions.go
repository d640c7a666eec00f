package rules

import (
	"context"
	"fmt"
	"math"

	"github.com/teescope/teescope/internal/analysis"
)

const conversions = "tee_private_memory_conversions_total"

var memoryConversions = &analysis.Rule{
	Name:  "memory_conversions",
	Title: "Memory converted to and fro",
	Doc: "Memory of this confidential VM is made shared with the hypervisor and private again at least 100 times a second each, over either window and over its newest half minute. " +
		"Each conversion calls the hypervisor, changes page tables of guest and host and flushes TLBs; buffers that are kept need it once. Memory that is shared and stays so is no churn.",
	Needs: []string{conversions},
	Thresholds: []analysis.Threshold{
		{Name: "conversions", Doc: "conversions in the rarer direction", Unit: "1/s", Default: 100},
		{Name: "share", Doc: "share of the CPU time used that conversions take, which is critical", Unit: "ratio", Default: 0.1},
	},
	Remedy: "Find the driver with `bpftrace -e 'kprobe:set_memory_decrypted { @[kstack] = count(); }'`. Drivers that allocate coherent DMA buffers for each request are the usual cause: " +
		"load them with larger pools, keep queues and devices open, and use kernels whose drivers take buffers from the bounce pool instead.",
	Reference: tdxDocument + " (shared memory conversions) and https://docs.kernel.org/arch/x86/amd-memory-encryption.html",
	Run:       findMemoryConversions,
}

func findMemoryConversions(ctx context.Context, p *analysis.Pass) error {
	points, err := p.Query(ctx, fmt.Sprintf("count by (job, instance) (%s)", conversions), p.To)
	if err != nil {
		return err
	}
	for _, pt := range points {
		subject, err := named(ctx, p, "machine", conversions, pt.Labels["instance"])
		if err != nil {
			return err
		}
		here := func(metric string, matchers ...string) string { return onMachine(metric, pt.Labels, matchers...) }
		e := evidence{pass: p}
		rarer := math.Inf(1)
		for _, direction := range []string{"to_shared", "to_private"} {
			for _, w := range []string{newest(p), window(p)} {
				n := e.add(ctx, fmt.Sprintf("conversions %s, mean of the last %s", direction, w), "1/s", sumRate(here(conversions, fmt.Sprintf("direction=%q", direction)), w))
				rarer = min(rarer, n)
			}
		}
		if !(rarer >= p.Limit("conversions", subject)) { // NaN where one direction cannot be seen
			continue
		}
		f := analysis.Finding{
			Subject:  subject,
			Title:    fmt.Sprintf("Memory of the %s is made shared and private again %s times a second.", subject, count(rarer)),
			Severity: analysis.Warning,
		}
		e.add(ctx, "memory converted", "bytes/s", sumRate(here("tee_private_memory_converted_bytes_total"), newest(p)))
		time := sumRate(here("tee_private_memory_conversion_duration_seconds_sum"), newest(p))
		if cores := e.add(ctx, "time in conversions", "cores", time); cores > 0 {
			f.Cost = fmt.Sprintf("Conversions take %s of a core (measured).", percent(cores))
			f.Share = e.shareOf(ctx, "that as a share of all CPU time used", time, pt.Labels)
			if f.Share != nil && f.Share[0] >= p.Limit("share", subject) {
				f.Severity = analysis.Critical
			}
		}
		e.add(ctx, "conversions that failed, after which the kernel does not use the memory again", "1/s", sumRate(here("tee_private_memory_conversion_failures_total"), newest(p)))
		f.Confidence = e.trust(ctx, pt.Labels, "conversions")
		if f.Evidence = e.list; e.err != nil {
			return e.err
		}
		p.Report(f)
	}
	return nil
}
