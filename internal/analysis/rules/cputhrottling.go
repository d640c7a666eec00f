package rules

import (
	"cmp"
	"context"
	"fmt"

	"github.com/teescope/teescope/internal/analysis"
)

const (
	cfsPeriods   = "container_cpu_cfs_periods_total"
	cfsThrottled = "container_cpu_cfs_throttled_periods_total"
	cfsSeconds   = "container_cpu_cfs_throttled_seconds_total"
)

var cpuThrottling = &analysis.Rule{
	Name:  "cpu_throttling",
	Title: "CPU throttling",
	Doc: "The CPU quota of a container or unit ran out in at least 25 % of the scheduling periods in which it had work, over either window and over its newest half " +
		"minute; the share is that of Kubernetes' usual alert CPUThrottlingHigh. Three quarters are critical. A group that has work in less than one period " +
		"a second is left out, as its share says little. Groups without a quota are never throttled and show no periods.",
	Needs: []string{cfsPeriods, cfsThrottled},
	Thresholds: []analysis.Threshold{
		{Name: "share", Doc: "share of the periods in which the quota ran out", Unit: "ratio", Default: 0.25},
		{Name: "share_critical", Doc: "such a share that is critical", Unit: "ratio", Default: 0.75},
		{Name: "periods", Doc: "periods in which the group had work", Unit: "1/s", Default: 1},
	},
	Remedy: "Raise the quota (resources.limits.cpu, CPUQuota=, cpu.max), or take it away where nobody else needs the CPU; use as many threads as the quota has cores, " +
		"since many threads use a period's quota up in its first milliseconds (GOMAXPROCS, -XX:ActiveProcessorCount, worker_processes). " +
		"A longer period or cpu.max.burst lets short bursts pass. Do not compare results that were measured meanwhile.",
	Reference: "https://docs.kernel.org/scheduler/sched-bwc.html and https://runbooks.prometheus-operator.dev/runbooks/kubernetes/cputhrottlinghigh/",
	Run:       findCPUThrottling,
}

func findCPUThrottling(ctx context.Context, p *analysis.Pass) error {
	share := func(throttled, periods, w string) string {
		return fmt.Sprintf("rate(%s[%s]) / rate(%s[%s])", throttled, w, periods, w)
	}
	points, err := p.Query(ctx, fmt.Sprintf("%s and rate(%s[%s]) >= %g",
		held(p, func(w string) string { return share(cfsThrottled, cfsPeriods, w) }, p.Least("share")), cfsPeriods, window(p), p.Least("periods")), p.To)
	if err != nil {
		return err
	}
	for _, pt := range points {
		subject, err := named(ctx, p, groupName(pt.Labels), cfsPeriods, pt.Labels["instance"])
		if err != nil {
			return err
		}
		here := func(metric string) string { return analysis.Selector(metric, pt.Labels) }
		e, mean := evidence{pass: p}, ", mean of the last "+window(p)
		ran := e.add(ctx, "share of the periods in which the quota ran out"+mean, "ratio", share(here(cfsThrottled), here(cfsPeriods), window(p)))
		now := e.add(ctx, "share of the periods in which the quota ran out, mean of the last "+newest(p), "ratio", share(here(cfsThrottled), here(cfsPeriods), newest(p)))
		periods := e.add(ctx, "periods in which it had work"+mean, "1/s", sumRate(here(cfsPeriods), window(p)))
		stopped := e.add(ctx, "time for which its tasks were stopped in the last "+window(p)+", summed over CPUs", "seconds", fmt.Sprintf("sum(increase(%s[%s]))", here(cfsSeconds), window(p)))
		e.add(ctx, "CPU time that it used"+mean, "cores", sumRate(here("container_cpu_usage_seconds_total"), window(p)))
		quota := e.add(ctx, "its quota", "cores", here("container_spec_cpu_quota")+" / "+here("container_spec_cpu_period"))
		if e.err != nil {
			return e.err
		}
		if min(ran, now) < p.Limit("share", subject) || periods < p.Limit("periods", subject) {
			continue
		}
		f := analysis.Finding{
			Subject:  subject,
			Title:    fmt.Sprintf("%s is throttled in %s of its scheduling periods.", subject, percent(ran)),
			Severity: analysis.Warning,
			Evidence: e.list,
		}
		if quota > 0 {
			f.Title = fmt.Sprintf("%s is throttled in %s of its scheduling periods: its quota is %s cores.", subject, percent(ran), count(quota))
		}
		if ran >= p.Limit("share_critical", subject) {
			f.Severity = analysis.Critical
		}
		if stopped > 0 {
			f.Cost = fmt.Sprintf("Its tasks were stopped for %s s in the last %s, summed over CPUs.", count(stopped), window(p))
		}
		p.Report(f)
	}
	return nil
}

// groupName is what people call a control group: its container in its pod, the name
// that a container runtime gave it, else its path.
func groupName(labels map[string]string) string {
	if pod := labels["pod"]; pod != "" {
		return labels["namespace"] + "/" + pod + "/" + cmp.Or(labels["container"], "pod")
	}
	return cmp.Or(labels["name"], labels["id"])
}
