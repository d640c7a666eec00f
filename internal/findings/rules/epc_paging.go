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

const (
	pagesBack    = "tee_sgx_epc_pages_loaded_back_total"
	pagesEvicted = "tee_sgx_epc_pages_evicted_total"
)

var epcPaging = &findings.Rule{
	Name:  "epc_paging",
	Title: "EPC paging",
	Topic: enclaveMemoryFull,
	Role:  findings.RoleEffect,
	Doc: "Enclaves need more protected memory than there is, so the kernel writes pages of the Enclave Page Cache out, encrypted, and loads them back " +
		"when they are accessed. At least 1,000 pages a second are loaded back, over each window and over its newest half minute; at 40,000 cycles each, " +
		"as published, that is 1.3 % of a core at 3 GHz, and a thread waits during all of that time. A finding about pages that are written out but not loaded back is for information only, because a new enclave evicts pages of other enclaves once.",
	Needs: []string{pagesBack, pagesEvicted},
	Thresholds: []findings.Threshold{
		{Name: "loaded_back", Doc: "pages loaded back, for a warning", Unit: "1/s", Default: 1_000},
		{Name: "loaded_back_critical", Doc: "pages loaded back, for a critical finding", Unit: "1/s", Default: 20_000},
		{Name: "evicted", Doc: "pages written out, for an info finding", Unit: "1/s", Default: 1_000},
	},
	Remedy:    causes.EPCPaging.Remedy,
	Reference: sgxDocument + " (EPC, and the reclaimer ksgxd) and " + prices.EPCSwap.Source,
	Run:       findEPCPaging,
}

func findEPCPaging(ctx context.Context, p *findings.Pass) error {
	rate := func(metric string) func(string) string {
		return func(window string) string {
			return "sum by (job, instance) (" + query.Rate(metric, window) + ")"
		}
	}
	points, err := p.Query(ctx, "("+sustainedQuery(p, rate(pagesBack), p.Least("loaded_back"))+") or ("+sustainedQuery(p, rate(pagesEvicted), p.Least("evicted"))+")", p.To)
	if err != nil {
		return err
	}
	for _, pt := range points {
		subject, err := named(ctx, p, findings.WholeMachine, pagesBack, pt.Labels["instance"])
		if err != nil {
			return err
		}
		e := evidence{pass: p}
		back := e.add(ctx, "pages loaded back, mean of the last "+newest(p), "1/s", query.SumRate(onMachine(pagesBack, pt.Labels), newest(p)))
		out := e.add(ctx, "pages written out, mean of the last "+newest(p), "1/s", query.SumRate(onMachine(pagesEvicted, pt.Labels), newest(p)))
		meanBack := e.add(ctx, "pages loaded back, mean of the last "+window(p), "1/s", query.SumRate(onMachine(pagesBack, pt.Labels), window(p)))
		meanOut := e.add(ctx, "pages written out, mean of the last "+window(p), "1/s", query.SumRate(onMachine(pagesEvicted, pt.Labels), window(p)))
		f := findings.Finding{Machine: query.MachineOf(pt.Labels), Subject: subject, Severity: findings.Warning}
		switch limit := p.Limit("loaded_back", subject); {
		case min(back, meanBack) >= limit:
			f.Title = fmt.Sprintf("The %s loads back %s EPC pages a second, because the EPC is too small for its enclaves.", subject, metric.Count(back))
			if back >= p.Limit("loaded_back_critical", subject) {
				f.Severity = findings.Critical
			}
			f.Cost = prices.EPCSwap.Cost(back, back)
		case min(out, meanOut) >= p.Limit("evicted", subject):
			f.Severity = findings.Info
			f.Title = fmt.Sprintf("The %s writes out %s EPC pages a second and loads back %s.", subject, metric.Count(out), metric.Count(back))
		default:
			continue
		}
		const faults = "tee_sgx_enclave_fault_duration_seconds_sum"
		waited := e.add(ctx, "CPU time of the SGX driver for page faults on enclave memory, including loading back", "cores", query.SumRate(onMachine(faults, pt.Labels), newest(p)))
		if waited > 0 {
			f.Cost = fmt.Sprintf("The SGX driver uses %s for page faults on enclave memory (measured).", metric.Value(waited, "cores"))
			f.Share = e.shareOf(ctx, "this time as a share of all CPU time in use on the machine", query.SumRate(onMachine(faults, pt.Labels), newest(p)), pt.Labels)
		}
		e.add(ctx, "time that threads spend reclaiming pages for themselves (direct)", "cores",
			query.SumRate(onMachine("tee_sgx_epc_reclaim_duration_seconds_sum", pt.Labels, `context="direct"`), newest(p)))
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

// topProcess adds the process with the most pages loaded back.
func (e *evidence) topProcess(ctx context.Context, labels map[string]string) error {
	loads := onMachine("tee_sgx_process_epc_pages_total", labels, `operation="loaded_back"`)
	points, err := e.pass.Query(ctx, "topk(1, sum by (process) ("+query.Rate(loads, newest(e.pass))+") > 0)", e.pass.To)
	if err != nil || len(points) == 0 {
		return err
	}
	process := points[0].Labels["process"]
	e.add(ctx, "pages loaded back for the process "+process+", the most of any process", "1/s", query.SumRate(query.Narrow(loads, fmt.Sprintf("process=%q", process)), newest(e.pass)))
	return nil
}
