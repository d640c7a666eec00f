package rules

import (
	"context"
	"fmt"

	"github.com/teescope/teescope/internal/analysis"
)

// strain is a resource that tasks wait for, by the kernel's pressure stall
// information. The value is the share of time in which at least one task waited.
type strain struct {
	resource, metric string
	floor            float64
	severity         analysis.Severity
	remedy           string
}

// The floors: redis-benchmark with two threads and redis-server, all pinned to one
// CPU, make tasks wait for the CPU 50 to 89 % of the time, unpinned on two CPUs 3 to
// 42 %; so below 90 % the CPU is well used rather than short. Waiting for memory is
// reclaim and never wanted: systemd-oomd begins to kill at 60 % by default, and a
// tenth of the time is felt long before.
var strains = []strain{
	{"memory", "node_pressure_memory_waiting_seconds_total", 0.10, analysis.Critical,
		"Memory is short: pages are reclaimed and read again. Make the working set smaller, raise the limit of the container, or give the VM more memory."},
	{"I/O", "node_pressure_io_waiting_seconds_total", 0.60, analysis.Warning,
		"Tasks wait for the disk. See who with `iotop` or the disk charts; batch writes, sync less often, use a faster disk. " +
			"In a confidential VM each transfer is also copied through the bounce buffer."},
	{"the CPU", "node_pressure_cpu_waiting_seconds_total", 0.90, analysis.Warning,
		"More threads want to run than there are CPUs. Use fewer threads, fewer workloads or more CPUs; do not compare results that were measured meanwhile."},
}

var pressure = &analysis.Rule{
	Name:  "pressure",
	Title: "Machine under pressure",
	Doc: "Some task waits for memory at least 10 % of the time, for I/O 60 % or for the CPU 90 %, by the kernel's pressure stall information, " +
		"over either window and over its newest half minute. The CPU's limit is high since a busy server and its load generator on one CPU reach 89 %.",
	Needs:     []string{"node_pressure_memory_waiting_seconds_total", "node_pressure_io_waiting_seconds_total", "node_pressure_cpu_waiting_seconds_total"},
	Remedy:    "Take load off the machine or give it more of what is short.",
	Reference: "https://docs.kernel.org/accounting/psi.html",
	Run:       findPressure,
}

// findPressure makes one finding of all that a machine is short of.
func findPressure(ctx context.Context, p *analysis.Pass) error {
	type machine struct {
		instance string
		worst    strain
		share    float64
		evidence
	}
	var machines []*machine
	byTarget := map[[2]string]*machine{}
	for _, s := range strains {
		points, err := p.Query(ctx, fmt.Sprintf("rate(%s[%s]) >= %g and rate(%s[%s]) >= %g",
			s.metric, window(p), s.floor, s.metric, newest(p), s.floor), p.To)
		if err != nil {
			return err
		}
		for _, pt := range points {
			id := [2]string{pt.Labels["job"], pt.Labels["instance"]}
			m := byTarget[id]
			if m == nil {
				m = &machine{instance: id[1], worst: s, share: pt.Value, evidence: evidence{pass: p}}
				byTarget[id] = m
				machines = append(machines, m)
			}
			here := analysis.Selector(s.metric, pt.Labels)
			m.add(ctx, fmt.Sprintf("share of time in which a task waited for %s, mean of the last %s", s.resource, window(p)), "ratio",
				fmt.Sprintf("rate(%s[%s])", here, window(p)))
			m.add(ctx, fmt.Sprintf("share of time in which a task waited for %s, mean of the last %s", s.resource, newest(p)), "ratio",
				fmt.Sprintf("rate(%s[%s])", here, newest(p)))
		}
	}
	for _, m := range machines {
		if m.err != nil {
			return m.err
		}
		subject, err := named(ctx, p, "machine", m.worst.metric, m.instance)
		if err != nil {
			return err
		}
		p.Report(analysis.Finding{
			Subject:  subject,
			Title:    fmt.Sprintf("Tasks of the %s wait for %s %s of the time.", subject, m.worst.resource, percent(m.share)),
			Severity: m.worst.severity,
			Evidence: m.list,
			Remedy:   m.worst.remedy,
		})
	}
	return nil
}
