package rules

import (
	"context"
	"fmt"

	"github.com/teescope/teescope/internal/analysis"
)

const (
	pagesBack    = "tee_sgx_epc_pages_loaded_back_total"
	pagesEvicted = "tee_sgx_epc_pages_evicted_total"
)

var epcPaging = &analysis.Rule{
	Name:  "epc_paging",
	Title: "EPC paging",
	Doc: "Enclaves need more protected memory than there is, so the kernel writes pages of the Enclave Page Cache out, encrypted, and loads them back " +
		"when they are touched. At least 1,000 pages a second are loaded back, over either window and over its newest half minute; at 40,000 cycles each, " +
		"which is what others measured, that is 1.3 % of a core at 3 GHz, all of it time that a thread waits. Pages that are written out and not loaded " +
		"back are information only: enclaves that are being built push others out once.",
	Needs: []string{pagesBack, pagesEvicted},
	Thresholds: []analysis.Threshold{
		{Name: "loaded_back", Doc: "pages loaded back that are a warning", Unit: "1/s", Default: 1_000},
		{Name: "loaded_back_critical", Doc: "pages loaded back that are critical", Unit: "1/s", Default: 20_000},
		{Name: "evicted", Doc: "pages written out that are worth a line", Unit: "1/s", Default: 1_000},
	},
	Remedy: "Make the working sets of the enclaves fit: fewer or smaller enclaves at a time, a smaller heap (sgx.enclave_size in Gramine, kernel_heap_size in Occlum), " +
		"data outside the enclave that need not be inside, encrypted there by the application. Reserve more EPC in the firmware (PRMRR size), where the processor allows it.",
	Reference: sgxDocument + " (EPC, and the reclaimer ksgxd) and " + vault,
	Run:       findEPCPaging,
}

func findEPCPaging(ctx context.Context, p *analysis.Pass) error {
	rate := func(metric string) func(string) string {
		return func(window string) string {
			return fmt.Sprintf("sum by (job, instance) (rate(%s[%s]))", metric, window)
		}
	}
	points, err := p.Query(ctx, "("+held(p, rate(pagesBack), p.Least("loaded_back"))+") or ("+held(p, rate(pagesEvicted), p.Least("evicted"))+")", p.To)
	if err != nil {
		return err
	}
	for _, pt := range points {
		subject, err := named(ctx, p, "machine", pagesBack, pt.Labels["instance"])
		if err != nil {
			return err
		}
		e := evidence{pass: p}
		back := e.add(ctx, "pages loaded back, mean of the last "+newest(p), "1/s", sumRate(onMachine(pagesBack, pt.Labels), newest(p)))
		out := e.add(ctx, "pages written out, mean of the last "+newest(p), "1/s", sumRate(onMachine(pagesEvicted, pt.Labels), newest(p)))
		meanBack := e.add(ctx, "pages loaded back, mean of the last "+window(p), "1/s", sumRate(onMachine(pagesBack, pt.Labels), window(p)))
		meanOut := e.add(ctx, "pages written out, mean of the last "+window(p), "1/s", sumRate(onMachine(pagesEvicted, pt.Labels), window(p)))
		f := analysis.Finding{Subject: subject, Severity: analysis.Warning}
		switch limit := p.Limit("loaded_back", subject); {
		case min(back, meanBack) >= limit:
			f.Title = fmt.Sprintf("The enclaves of the %s page: %s EPC pages a second are loaded back.", subject, count(back))
			if back >= p.Limit("loaded_back_critical", subject) {
				f.Severity = analysis.Critical
			}
			f.Cost = fmt.Sprintf("At 40,000 cycles for a page written out and one loaded back (from literature, VAULT, not measured here): %s.", cycles(back*swapCycles, back*swapCycles))
		case min(out, meanOut) >= p.Limit("evicted", subject):
			f.Severity = analysis.Info
			f.Title = fmt.Sprintf("%s EPC pages a second of the %s are written out, and %s loaded back.", count(out), subject, count(back))
		default:
			continue
		}
		const faults = "tee_sgx_enclave_fault_duration_seconds_sum"
		waited := e.add(ctx, "CPU time of the SGX driver for page faults on enclave memory, loading back included", "cores", sumRate(onMachine(faults, pt.Labels), newest(p)))
		if waited > 0 {
			f.Cost = fmt.Sprintf("Page faults on enclave memory take the driver %s of a core (measured).", percent(waited))
			f.Share = e.shareOf(ctx, "that as a share of all CPU time used on the machine", sumRate(onMachine(faults, pt.Labels), newest(p)), pt.Labels)
		}
		e.add(ctx, "time that threads spend reclaiming pages for themselves (direct)", "cores",
			sumRate(onMachine("tee_sgx_epc_reclaim_duration_seconds_sum", pt.Labels, `context="direct"`), newest(p)))
		if err := e.topProcess(ctx, pt.Labels); err != nil {
			return err
		}
		f.Confidence = e.trust(ctx, pt.Labels, "sgx")
		if f.Evidence = e.list; e.err != nil {
			return e.err
		}
		p.Report(f)
	}
	return nil
}

// topProcess adds the process for which most pages are loaded back.
func (e *evidence) topProcess(ctx context.Context, labels map[string]string) error {
	loads := onMachine("tee_sgx_process_epc_pages_total", labels, `operation="loaded_back"`)
	points, err := e.pass.Query(ctx, fmt.Sprintf("topk(1, sum by (process) (rate(%s[%s])) > 0)", loads, newest(e.pass)), e.pass.To)
	if err != nil || len(points) == 0 {
		return err
	}
	process := points[0].Labels["process"]
	e.add(ctx, "pages loaded back for the process "+process+", the most of all", "1/s", sumRate(with(loads, fmt.Sprintf("process=%q", process)), newest(e.pass)))
	return nil
}
