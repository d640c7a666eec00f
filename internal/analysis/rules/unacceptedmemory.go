package rules

import (
	"context"
	"fmt"

	"github.com/teescope/teescope/internal/analysis"
)

const unaccepted = "tee_unaccepted_memory_bytes"

var unacceptedMemory = &analysis.Rule{
	Name:  "unaccepted_memory",
	Title: "Memory still being accepted",
	Doc: "This confidential VM accepts memory, at least 16 MiB a second over either window, and has more to accept. A guest accepts memory when it first needs it, " +
		"each time with calls to the hypervisor or to the TDX module, so what runs soon after boot is slower than it will be. What is measured meanwhile includes that. " +
		"Memory that nobody needs stays unaccepted and costs nothing.",
	Needs: []string{unaccepted, "tee_memory_accepted_bytes_total"},
	Thresholds: []analysis.Threshold{
		{Name: "accepted", Doc: "memory accepted", Unit: "bytes/s", Default: 16 << 20},
	},
	Remedy: "Wait, or accept all memory before the work begins: boot with accept_memory=eager, or touch it once (`stress-ng --vm`, mlock, prealloc of the application). " +
		"Do not compare results that were measured meanwhile.",
	Reference: "https://docs.kernel.org/admin-guide/kernel-parameters.html (accept_memory) and Shutemov: Implement support for unaccepted memory, http://mail.spinics.net/lists/linux-efi/msg23652.html",
	Run:       findUnacceptedMemory,
}

func findUnacceptedMemory(ctx context.Context, p *analysis.Pass) error {
	const accepted = "tee_memory_accepted_bytes_total"
	points, err := p.Query(ctx, held(p, func(window string) string {
		return fmt.Sprintf("sum by (job, instance) (rate(%s[%s]))", accepted, window)
	}, p.Least("accepted"))+fmt.Sprintf(" and sum by (job, instance) (%s) > 0", unaccepted), p.To)
	if err != nil {
		return err
	}
	for _, pt := range points {
		subject, err := named(ctx, p, "machine", unaccepted, pt.Labels["instance"])
		if err != nil {
			return err
		}
		here := func(metric string) string { return onMachine(metric, pt.Labels) }
		e := evidence{pass: p}
		left := e.add(ctx, "memory that is not accepted yet", "bytes", "sum("+here(unaccepted)+")")
		rate := e.add(ctx, "memory accepted, mean of the last "+newest(p), "bytes/s", sumRate(here(accepted), newest(p)))
		mean := e.add(ctx, "memory accepted, mean of the last "+window(p), "bytes/s", sumRate(here(accepted), window(p)))
		if min(rate, mean) < p.Limit("accepted", subject) {
			continue
		}
		e.add(ctx, "time until all is accepted if it goes on", "seconds", "sum("+here(unaccepted)+") / "+sumRate(here(accepted), newest(p)))
		f := analysis.Finding{
			Subject:  subject,
			Title:    fmt.Sprintf("The %s still accepts memory, %s MiB a second; %s MiB are left.", subject, count(rate/(1<<20)), count(left/(1<<20))),
			Severity: analysis.Info,
			Cost:     "What accepting costs here is not known; its author saw guests of 4 GB boot 2.5 times and of 64 GB 4 times as fast when it is put off (from literature), which is the work that is being done now.",
		}
		const duration = "tee_memory_acceptance_duration_seconds_sum"
		if cores := e.add(ctx, "time of those who have to accept memory first", "cores", sumRate(here(duration), newest(p))); cores > 0 {
			f.Cost = fmt.Sprintf("Accepting takes %s of a core (measured).", percent(cores))
			f.Share = e.shareOf(ctx, "that as a share of all CPU time used", sumRate(here(duration), newest(p)), pt.Labels)
		}
		if f.Evidence = e.list; e.err != nil {
			return e.err
		}
		p.Report(f)
	}
	return nil
}
