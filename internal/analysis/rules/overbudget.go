package rules

import (
	"context"
	"fmt"

	"github.com/teescope/teescope/internal/analysis"
)

var overBudget = &analysis.Rule{
	Name:  "over_budget",
	Title: "Monitor over budget",
	Doc: "The monitor's own CPU time, in user space and in its eBPF programs, is above what --budget allows for each CPU times the number of CPUs, " +
		"over either window and over its newest half minute. What is measured meanwhile includes that cost.",
	Needs: []string{"teescope_overhead_cpu_seconds_total", "teescope_budget_ratio", "node_cpu_seconds_total"},
	Thresholds: []analysis.Threshold{
		{Name: "factor", Doc: "CPU time of the monitor as a multiple of its budget", Unit: "ratio", Default: 1},
	},
	Remedy: "What programs in the kernel cost is kept within the budget by itself: sources lose detail, then count a part of the time. What is left is user space: " +
		"switch off sources that you do not need, on the page or in the configuration file; read less often (--interval); ask for less history at once; or allow more with --budget.",
	Reference: "https://docs.kernel.org/admin-guide/sysctl/kernel.html#bpf-stats-enabled",
	Run:       findOverBudget,
}

func findOverBudget(ctx context.Context, p *analysis.Pass) error {
	const overhead = "teescope_overhead_cpu_seconds_total"
	used := func(matchers, window string) string {
		return fmt.Sprintf("sum by (job, instance) (rate(%s%s[%s]))", overhead, matchers, window)
	}
	allowed := func(matchers, cpus string) string {
		return fmt.Sprintf("sum by (job, instance) (teescope_budget_ratio%s) * count by (job, instance) (node_cpu_seconds_total%s)", matchers, cpus)
	}
	limit := fmt.Sprintf("%g * %s", p.Least("factor"), allowed("", `{mode="idle"}`))
	points, err := p.Query(ctx, fmt.Sprintf("%s > %s and %s > %s", used("", window(p)), limit, used("", newest(p)), limit), p.To)
	if err != nil {
		return err
	}
	for _, pt := range points {
		here := analysis.Selector("", pt.Labels)
		e := evidence{pass: p}
		total := e.add(ctx, "CPU time of the monitor, mean of the last "+window(p), "cores", used(here, window(p)))
		now := e.add(ctx, "CPU time of the monitor, mean of the last "+newest(p), "cores", used(here, newest(p)))
		limit := e.add(ctx, "what its budget allows on this machine", "cores", allowed(here, with(here, `mode="idle"`)))
		parts, err := p.Query(ctx, fmt.Sprintf("sort(sum by (part) (rate(%s%s[%s])))", overhead, here, newest(p)), p.To)
		if err != nil {
			return err
		}
		for _, part := range parts {
			name := part.Labels["part"]
			e.add(ctx, "CPU time of its part "+name+", mean of the last "+newest(p), "cores", used(with(here, fmt.Sprintf("part=%q", name)), newest(p)))
		}
		if e.err != nil {
			return e.err
		}
		subject, err := named(ctx, p, "teescope", overhead, pt.Labels["instance"])
		if err != nil {
			return err
		}
		if min(total, now) <= p.Limit("factor", subject)*limit {
			continue
		}
		p.Report(analysis.Finding{
			Subject:  subject,
			Title:    fmt.Sprintf("%s itself takes %s of a core; its budget here is %s.", subject, percent(total), percent(limit)),
			Severity: analysis.Warning,
			Evidence: e.list,
			Cost:     fmt.Sprintf("It takes %s of a core more than was allowed.", percent(total-limit)),
		})
	}
	return nil
}
