package rules

import (
	"context"
	"fmt"
	"math"

	"github.com/teescope/teescope/internal/analysis"
)

const bounced = "tee_swiotlb_bounced_bytes_total"

var bouncedIO = &analysis.Rule{
	Name:  "bounced_io",
	Title: "I/O through bounce buffers",
	Doc: "At least 100 MB a second go through bounce buffers, over either window and over its newest half minute: the kernel copies each byte once more, since devices of the host " +
		"cannot reach the private memory of a confidential VM. What a copy costs is calibrated on this machine; at 100 MB a second it is a few percent of a core. " +
		"It is the price of confidential I/O, so it is information until the copies alone take 5 % of the CPU time that is used.",
	Needs: []string{bounced},
	Thresholds: []analysis.Threshold{
		{Name: "bounced", Doc: "bytes that ask for bounce buffers", Unit: "bytes/s", Default: 100e6},
		{Name: "share", Doc: "share of the CPU time used that copies take, for a warning", Unit: "ratio", Default: 0.05},
	},
	Remedy: "Move less: compress, cache, keep data in memory, do not read what is not needed. Encrypt once: disk encryption below and TLS above a bounce buffer make three passes over each byte. " +
		"Devices that can be trusted with private memory (TDISP, trusted I/O) need no bounce buffers.",
	Reference: "https://docs.kernel.org/core-api/swiotlb.html and Li et al.: Bifrost: Analysis and Optimization of Network I/O Tax in Confidential Virtual Machines (USENIX ATC 2023), " +
		"https://www.usenix.org/conference/atc23/presentation/lidingji",
	Run: findBouncedIO,
}

func findBouncedIO(ctx context.Context, p *analysis.Pass) error {
	points, err := p.Query(ctx, held(p, func(window string) string {
		return fmt.Sprintf("sum by (job, instance) (rate(%s[%s]))", bounced, window)
	}, p.Least("bounced")), p.To)
	if err != nil {
		return err
	}
	for _, pt := range points {
		subject, err := named(ctx, p, "machine", bounced, pt.Labels["instance"])
		if err != nil {
			return err
		}
		here := func(metric string, matchers ...string) string { return onMachine(metric, pt.Labels, matchers...) }
		e := evidence{pass: p}
		now := sumRate(here(bounced), newest(p))
		rate := e.add(ctx, "bytes that ask for bounce buffers, mean of the last "+newest(p), "bytes/s", now)
		mean := e.add(ctx, "bytes that ask for bounce buffers, mean of the last "+window(p), "bytes/s", sumRate(here(bounced), window(p)))
		if min(rate, mean) < p.Limit("bounced", subject) {
			continue
		}
		f := analysis.Finding{
			Subject:  subject,
			Title:    fmt.Sprintf("%s MB a second of the %s's I/O are copied through bounce buffers.", count(rate/1e6), subject),
			Severity: analysis.Info,
			Cost:     "What the copies cost is not known here; others found that bounce buffers and packets may take more than 50 % of the CPU cycles of network servers in confidential VMs (from literature, Bifrost).",
		}
		e.add(ctx, "bytes of networks and disks in the same time", "bytes/s", "("+
			sumRate(here("node_network_receive_bytes_total", `device!="lo"`), newest(p))+" + "+sumRate(here("node_network_transmit_bytes_total", `device!="lo"`), newest(p))+
			") + (("+sumRate(here("node_disk_read_bytes_total"), newest(p))+" + "+sumRate(here("node_disk_written_bytes_total"), newest(p))+") or vector(0))")
		copies := func(bound string) string {
			return fmt.Sprintf("%s / 4096 * avg(%s)", now, here("tee_unit_cost_seconds", `event="copy_page"`, fmt.Sprintf("bound=%q", bound)))
		}
		cores := e.add(ctx, "CPU time of one copy of them, by the calibrated cost of a page", "cores", copies("median"))
		if !math.IsNaN(cores) {
			f.Cost = fmt.Sprintf("One copy of each byte, the least that it takes, is %s of a core by the cost that was calibrated on this machine.", percent(cores))
			low := e.shareOf(ctx, "that as a share of all CPU time used, at least", copies("low"), pt.Labels)
			high := e.shareOf(ctx, "that as a share of all CPU time used, at most", copies("high"), pt.Labels)
			if low != nil && high != nil {
				f.Share = &[2]float64{low[0], high[0]}
				if low[0] >= p.Limit("share", subject) {
					f.Severity = analysis.Warning
				}
			}
		}
		f.Confidence = e.trust(ctx, pt.Labels, "swiotlb_bounces")
		if f.Evidence = e.list; e.err != nil {
			return e.err
		}
		p.Report(f)
	}
	return nil
}
