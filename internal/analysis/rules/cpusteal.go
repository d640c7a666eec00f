package rules

import (
	"context"
	"fmt"

	"github.com/teescope/teescope/internal/analysis"
)

var cpuSteal = &analysis.Rule{
	Name:  "cpu_steal",
	Title: "CPU steal",
	Doc: "At least 5 % of a virtual machine's CPU time was given to others by the host while it wanted to run, over either window and over its newest half minute. " +
		"That is more than the costs of a confidential VM that one usually sets out to measure, so results taken meanwhile say little. " +
		"On bare metal steal is always 0.",
	Needs: []string{"node_cpu_seconds_total"},
	Thresholds: []analysis.Threshold{
		{Name: "share", Doc: "share of a machine's CPU time that is stolen", Unit: "ratio", Default: 0.05},
		{Name: "share_critical", Doc: "such a share that is critical", Unit: "ratio", Default: 0.20},
	},
	Remedy: "The host is overcommitted. Ask for dedicated CPUs or another host; do not compare results that were measured meanwhile. " +
		"A guest that is throttled by its own quota (burstable instance types) looks the same.",
	Reference: "https://docs.kernel.org/filesystems/proc.html (steal, under /proc/stat)",
	Run:       findSteal,
}

func findSteal(ctx context.Context, p *analysis.Pass) error {
	const cpu = "node_cpu_seconds_total"
	share := func(selector, window string) string {
		return fmt.Sprintf("sum by (job, instance) (rate(%s[%s])) / sum by (job, instance) (rate(%s[%s]))",
			with(selector, `mode="steal"`), window, selector, window)
	}
	candidates := held(p, func(w string) string { return share(cpu+`{mode!=""}`, w) }, p.Least("share"))
	points, err := p.Query(ctx, candidates, p.To)
	if err != nil {
		return err
	}
	for _, pt := range points {
		subject, err := named(ctx, p, "machine", cpu, pt.Labels["instance"])
		if err != nil {
			return err
		}
		here := analysis.Selector(cpu, pt.Labels)
		e := evidence{pass: p}
		stolen := e.add(ctx, "share of CPU time stolen, mean of the last "+window(p), "ratio", share(here, window(p)))
		now := e.add(ctx, "share of CPU time stolen, mean of the last "+newest(p), "ratio", share(here, newest(p)))
		cores := e.add(ctx, "CPU time stolen, mean of the last "+window(p), "cores", sumRate(with(here, `mode="steal"`), window(p)))
		if e.err != nil {
			return e.err
		}
		if min(stolen, now) < p.Limit("share", subject) {
			continue
		}
		severity := analysis.Warning
		if stolen >= p.Limit("share_critical", subject) {
			severity = analysis.Critical
		}
		p.Report(analysis.Finding{
			Subject:  subject,
			Title:    fmt.Sprintf("The host takes %s of the CPU time away from the %s.", percent(stolen), subject),
			Severity: severity,
			Evidence: e.list,
			Share:    &[2]float64{stolen, stolen},
			Cost:     fmt.Sprintf("The %s loses %s cores that it wanted to use.", subject, count(cores)),
		})
	}
	return nil
}
