package rules

import (
	"context"
	"fmt"

	"github.com/teescope/teescope/internal/analysis"
	"github.com/teescope/teescope/internal/cause"
)

// strain is a resource that tasks wait for, by the kernel's pressure stall
// information. The value is the share of time in which at least one task waited.
type strain struct {
	threshold, resource, metric string
	severity                    analysis.Severity
	remedy                      string
}

// The thresholds: redis-benchmark with two threads and redis-server, all pinned to one
// CPU, make tasks wait for the CPU 50 to 89 % of the time, unpinned on two CPUs 3 to
// 42 %; so below 90 % the CPU is well used rather than short. Waiting for memory is
// reclaim and never wanted: systemd-oomd begins to kill at 60 % by default, and a
// tenth of the time is felt long before.
var strains = []strain{
	{"memory", "memory", "node_pressure_memory_waiting_seconds_total", analysis.Critical,
		"Memory is short: pages are reclaimed and read again. Make the working set smaller, raise the limit of the container, or give the VM more memory."},
	{"cpu", "the CPU", "node_pressure_cpu_waiting_seconds_total", analysis.Warning,
		cause.CPUPressure.Remedy},
}

var pressure = &analysis.Rule{
	Name:  "pressure",
	Title: "Machine under pressure",
	Doc: "Some task waits for memory at least 10 % of the time, or for the CPU 90 %, by the kernel's pressure stall information, " +
		"over either window and over its newest half minute. The CPU's limit is high since a busy server and its load generator on one CPU reach 89 %. " +
		"Waiting for I/O is io_saturation's business.",
	Needs: []string{"node_pressure_memory_waiting_seconds_total", "node_pressure_cpu_waiting_seconds_total"},
	Thresholds: []analysis.Threshold{
		{Name: "memory", Doc: "share of time in which a task waits for memory", Unit: "ratio", Default: 0.10},
		{Name: "cpu", Doc: "share of time in which a task waits for a CPU", Unit: "ratio", Default: 0.90},
	},
	Remedy:    "Take load off the machine or give it more of what is short.",
	Reference: "https://docs.kernel.org/accounting/psi.html",
	Run:       findPressure,
}

// findPressure makes one finding of all that a machine is short of.
func findPressure(ctx context.Context, p *analysis.Pass) error {
	found := map[string]*analysis.Finding{}
	for _, s := range strains {
		waiting := func(window string) string { return fmt.Sprintf("rate(%s[%s])", s.metric, window) }
		points, err := p.Query(ctx, held(p, waiting, p.Least(s.threshold)), p.To)
		if err != nil {
			return err
		}
		for _, pt := range points {
			subject, err := named(ctx, p, "machine", s.metric, pt.Labels["instance"])
			if err != nil {
				return err
			}
			here := analysis.Selector(s.metric, pt.Labels)
			e := evidence{pass: p}
			share := e.add(ctx, fmt.Sprintf("share of time in which a task waited for %s, mean of the last %s", s.resource, window(p)), "ratio",
				fmt.Sprintf("rate(%s[%s])", here, window(p)))
			now := e.add(ctx, fmt.Sprintf("share of time in which a task waited for %s, mean of the last %s", s.resource, newest(p)), "ratio",
				fmt.Sprintf("rate(%s[%s])", here, newest(p)))
			if e.err != nil {
				return e.err
			}
			if min(share, now) < p.Limit(s.threshold, subject) {
				continue
			}
			if f := found[subject]; f != nil { // the first is the worse one
				f.Evidence = append(f.Evidence, e.list...)
				continue
			}
			found[subject] = &analysis.Finding{
				Subject:  subject,
				Title:    fmt.Sprintf("Tasks of the %s wait for %s %s of the time.", subject, s.resource, percent(share)),
				Severity: s.severity,
				Evidence: e.list,
				Remedy:   s.remedy,
				Cost:     fmt.Sprintf("For %s of the time at least one task does not get on.", percent(share)),
			}
		}
	}
	for _, f := range found {
		p.Report(*f)
	}
	return nil
}
