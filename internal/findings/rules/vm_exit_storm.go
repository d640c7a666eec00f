package rules

import (
	"context"
	"fmt"

	"github.com/teescope/teescope/internal/explain/causes"
	"github.com/teescope/teescope/internal/explain/prices"
	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/query"
)

const vmExits = "tee_vm_exits_total"

var vmExitStorm = &findings.Rule{
	Name:  "vm_exit_storm",
	Title: "VM exit storm",
	Doc: "A virtual machine exits to this host at least 50,000 times a second for one reason, over each window and over its newest half minute. " +
		"Leaving a plain guest and returning costs about 1,350 cycles, without the work in between. For a confidential guest it costs more: registers are saved, scrubbed and loaded (SEV-ES), or the TDX module takes part.",
	Needs: []string{vmExits},
	Thresholds: []findings.Threshold{
		{Name: "exits", Doc: "exits of one virtual machine for one reason", Unit: "1/s", Default: 50_000},
		{Name: "critical", Doc: "the same exits, for a critical finding", Unit: "1/s", Default: 500_000},
	},
	Remedy:    causes.VMExitStorm.Remedy,
	Reference: "https://www.qemu.org/2019/11/15/micro-optimizing-kvm-vmexits/ and " + prices.VMExit.Source,
	Run:       findVMExitStorms,
}

func findVMExitStorms(ctx context.Context, p *findings.Pass) error {
	points, err := p.Query(ctx, "sort_desc("+sustainedQuery(p, func(window string) string {
		return "sum by (job, instance, vm, type, reason) (" + query.Rate(vmExits, window) + ")"
	}, p.Least("exits"))+")", p.To)
	if err != nil {
		return err
	}
	seen := map[of]bool{}
	for _, pt := range points {
		vm, kind, reason := pt.Labels["vm"], pt.Labels["type"], pt.Labels["reason"]
		subject, err := named(ctx, p, "vm "+vm, vmExits, pt.Labels["instance"])
		if err != nil {
			return err
		}
		if vm == "other" || vm == "ended" || seen[of{query.MachineOf(pt.Labels), subject}] {
			continue // folds of many, and machines whose most frequent reason is already named
		}
		one := query.Selector(vmExits, pt.Labels)
		e := evidence{pass: p}
		rate := e.add(ctx, fmt.Sprintf("exits for %s, mean of the last %s", reason, newest(p)), "1/s", query.SumRate(one, newest(p)))
		mean := e.add(ctx, fmt.Sprintf("exits for %s, mean of the last %s", reason, window(p)), "1/s", query.SumRate(one, window(p)))
		if min(rate, mean) < p.Limit("exits", subject) {
			continue
		}
		seen[of{query.MachineOf(pt.Labels), subject}] = true
		machine := query.Narrow(onMachine(vmExits, pt.Labels), fmt.Sprintf("vm=%q", vm))
		e.add(ctx, "all exits of the virtual machine, whatever the reason", "1/s", query.SumRate(machine, newest(p)))
		f := findings.Finding{
			Machine:  query.MachineOf(pt.Labels),
			Life:     lifeOf(pt.Labels),
			Subject:  subject,
			Title:    fmt.Sprintf("%s (%s) exits to this host %s times a second for %s.", subject, kind, metric.Count(rate), reason),
			Severity: findings.Warning,
			Cost:     prices.VMExit.Cost(rate, rate),
			Remedy:   causes.ExitRemedy(reason),
		}
		if rate >= p.Limit("critical", subject) {
			f.Severity = findings.Critical
		}
		if f.Remedy != "" {
			f.Remedy += " " + p.Rule.Remedy
		}
		// The time outside guests is measured for all machines of a type together.
		away := e.add(ctx, "time that virtual CPUs of type "+kind+" spend outside their guests and not halted", "cores",
			query.SumRate(query.Narrow(onMachine("tee_vm_exit_duration_seconds_sum", pt.Labels), fmt.Sprintf("type=%q", kind), `handled!="halted"`), newest(p)))
		if away > 0 {
			f.Cost += fmt.Sprintf(" Virtual CPUs of type %s spend %s outside their guests (measured).", kind, metric.Value(away, "cores"))
		}
		f.Confidence = e.trust(ctx, pt.Labels, "kvm")
		if f.Evidence = e.list; e.err != nil {
			return e.err
		}
		p.Report(f)
	}
	return nil
}
