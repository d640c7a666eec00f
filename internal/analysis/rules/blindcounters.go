package rules

import (
	"context"
	"fmt"

	"github.com/teescope/teescope/internal/analysis"
)

// budgetReason is the reason of a source that the monitor's own budget blinds, which
// is over_budget's business.
const budgetReason = "budget"

var blindCounters = &analysis.Rule{
	Name:  "blind_counters",
	Title: "Blind counters",
	Doc: "Hardware or hypervisor hides what a source that is switched on would read, as performance counters in a production enclave, a trust domain or a plain " +
		"virtual machine: what is not seen here is not 0. It is information, since no setting on this machine brings the values, and it must have been so in all of " +
		"either window. What the monitor's budget leaves out is not meant. No threshold: there is nothing to compare.",
	Needs: []string{"teescope_source_up"},
	Remedy: "Read the machine's other sources with that in mind, or measure on a machine that shows the counters: bare metal, a virtual machine with a virtual PMU, " +
		"an enclave in debug mode (not for production), a trust domain with the attribute PERFMON. Where the values are not wanted, switch the source off.",
	Reference: "docs/metrics.md, \"Cannot see\" of each source; Intel SDM volume 3D, Enclave Code Debug and Profiling, Interaction with Performance Monitoring",
	Run:       findBlindCounters,
}

func findBlindCounters(ctx context.Context, p *analysis.Pass) error {
	const blind = "teescope_source_blind"
	matchers := fmt.Sprintf("reason!=%q", budgetReason)
	points, err := p.Query(ctx, fmt.Sprintf("min_over_time(%s[%s]) == 1 and %s == 1", with(blind, matchers), window(p), with(blind, matchers)), p.To)
	if err != nil {
		return err
	}
	for _, pt := range points {
		source := pt.Labels["source"]
		subject, err := named(ctx, p, source, "teescope_source_up", pt.Labels["instance"])
		if err != nil {
			return err
		}
		of := func(metric string) string { return onMachine(metric, pt.Labels, fmt.Sprintf("source=%q", source)) }
		e := evidence{pass: p}
		share := e.add(ctx, "share of the readings in the last "+window(p)+" in which it was blind", "ratio",
			fmt.Sprintf("sum(count_over_time(%s[%s])) / sum(count_over_time(%s[%s]))", of(blind), window(p), of("teescope_source_up"), window(p)))
		e.add(ctx, "1 where it delivers what is left", "", "sum("+of("teescope_source_up")+")")
		if e.err != nil {
			return e.err
		}
		if !(share >= 0.5) {
			continue // it has just begun, or comes and goes
		}
		p.Report(analysis.Finding{
			Subject:  subject,
			Title:    fmt.Sprintf("The source %s was blind in %s of the readings of the last %s: %s.", subject, percent(min(share, 1)), window(p), pt.Labels["reason"]),
			Severity: analysis.Info,
			Evidence: e.list,
		})
	}
	return nil
}
