package rules

import (
	"context"
	"fmt"
	"strings"

	"github.com/teescope/teescope/internal/explain/causes"
	"github.com/teescope/teescope/internal/explain/prices"
	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/query"
)

const guestExceptions = "tee_guest_exceptions_total"

var guestExitStorm = &findings.Rule{
	Name:  "guest_exit_storm",
	Title: "Exits of this confidential VM",
	Doc: "The kernel of this TDX guest handles at least 10,000 virtualization exceptions (#VE) a second for one reason, over each window and over its newest half minute. " +
		"Each exception leads to a call to the hypervisor, through the TDX module and back. Exits without an exception, for interrupts and most halts, are not included; " +
		"guests of other kinds do not see their exits at all: use the rule vm_exit_storm on their host.",
	Needs: []string{guestExceptions},
	Thresholds: []findings.Threshold{
		{Name: "exceptions", Doc: "virtualization exceptions for one reason", Unit: "1/s", Default: 10_000},
		{Name: "critical", Doc: "the same exceptions, for a critical finding", Unit: "1/s", Default: 100_000},
	},
	Remedy:    causes.GuestExitStorm.Remedy,
	Reference: tdxDocument + " (#VE) and " + prices.VMExit.Source,
	Run:       findGuestExitStorms,
}

func findGuestExitStorms(ctx context.Context, p *findings.Pass) error {
	points, err := p.Query(ctx, "sort_desc("+sustainedQuery(p, func(window string) string {
		return "sum by (job, instance, kind, reason) (" + query.Rate(guestExceptions, window) + ")"
	}, p.Least("exceptions"))+")", p.To)
	if err != nil {
		return err
	}
	seen := map[of]bool{}
	for _, pt := range points {
		subject, err := named(ctx, p, findings.WholeMachine, guestExceptions, pt.Labels["instance"])
		if err != nil {
			return err
		}
		reason, one := pt.Labels["reason"], query.Selector(guestExceptions, pt.Labels)
		e := evidence{pass: p}
		rate := e.add(ctx, fmt.Sprintf("virtualization exceptions for %s, mean of the last %s", reason, newest(p)), "1/s", query.SumRate(one, newest(p)))
		mean := e.add(ctx, fmt.Sprintf("virtualization exceptions for %s, mean of the last %s", reason, window(p)), "1/s", query.SumRate(one, window(p)))
		if seen[of{query.MachineOf(pt.Labels), subject}] || min(rate, mean) < p.Limit("exceptions", subject) {
			continue // its most frequent reason is already named
		}
		seen[of{query.MachineOf(pt.Labels), subject}] = true
		e.add(ctx, "all virtualization exceptions", "1/s", query.SumRate(onMachine(guestExceptions, pt.Labels), newest(p)))
		f := findings.Finding{
			Machine:  query.MachineOf(pt.Labels),
			Subject:  subject,
			Title:    fmt.Sprintf("The %s, a %s guest, calls its hypervisor %s times a second because of %s.", subject, strings.ToUpper(pt.Labels["kind"]), metric.Count(rate), reason),
			Severity: findings.Warning,
			Cost:     prices.VMExit.Cost(rate, rate),
			Remedy:   causes.ExitRemedy(guestExitReason(reason)),
		}
		if rate >= p.Limit("critical", subject) {
			f.Severity = findings.Critical
		}
		if f.Remedy != "" {
			f.Remedy += " " + p.Rule.Remedy
		}
		f.Confidence = e.trust(ctx, pt.Labels, "guest_exits")
		if f.Evidence = e.list; e.err != nil {
			return e.err
		}
		p.Report(f)
	}
	return nil
}

// guestExitReason returns a reason as a host would name it. An EPT violation that a TDX guest can see is an access
// to a device: one in its private memory ends the guest (arch/x86/coco/tdx/tdx.c,
// virt_exception_kernel).
func guestExitReason(reason string) string {
	if reason == "ept_violation" {
		return "ept_misconfig"
	}
	return reason
}
