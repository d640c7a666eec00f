package rules

import (
	"context"
	"fmt"
	"math"

	"github.com/teescope/teescope/internal/explain/causes"
	"github.com/teescope/teescope/internal/explain/prices"
	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/query"
)

const (
	enclaveEntries    = "tee_sgx_enclave_entries_total"
	enclaveExits      = "tee_sgx_enclave_exits_total"
	enclaveAsyncExits = "tee_sgx_enclave_async_exits_total"
)

var enclaveTransitions = &findings.Rule{
	Name:  "enclave_transitions",
	Title: "Enclave transitions",
	Doc: "A process enters and leaves its enclaves at least 10,000 times a second, including asynchronous exits (interrupts, faults), and at least 20,000 times " +
		"for each second of its CPU time (if that time is known), over each window and over its newest half minute. A call into or out of " +
		"an enclave costs 8,200 to 17,000 cycles, as published: 20,000 calls a second are at least 5 % of a core at 3 GHz. Calls without a transition (switchless, exitless) are not counted and do not have this cost.",
	Needs: []string{enclaveEntries, enclaveExits},
	Thresholds: []findings.Threshold{
		{Name: "transitions", Doc: "entries, exits and asynchronous exits of a process", Unit: "1/s", Default: 10_000},
		{Name: "per_cpu_second", Doc: "the same transitions per second of the process's CPU time", Unit: "1/s", Default: 20_000},
		{Name: "critical", Doc: "the same transitions, for a critical finding", Unit: "1/s", Default: 100_000},
	},
	Remedy:    causes.EnclaveTransitions.Remedy,
	Reference: "https://gramine.readthedocs.io/en/stable/performance.html and " + prices.EnclaveTransition.Source,
	Run:       findEnclaveTransitions,
}

// asyncRemedy is for processes that interrupts and faults force out of their enclaves.
const asyncRemedy = "Keep interrupts off the CPUs of the enclave's threads (irqbalance --banirq, isolcpus, nohz_full), use fewer threads than CPUs, and touch memory before it is needed: " +
	"most of these exits are asynchronous, caused by interrupts and page faults. See also the rule epc_paging."

func findEnclaveTransitions(ctx context.Context, p *findings.Pass) error {
	const by = "job, instance, process"
	points, err := holding(ctx, p, func(window string) string {
		entries := fmt.Sprintf("sum by (%s) (%s)", by, query.Rate(enclaveEntries, window))
		others := ""
		for _, metric := range []string{enclaveExits, enclaveAsyncExits} { // some runtimes do not report these
			others += fmt.Sprintf(" + (sum by (%s) (%s) or %s * 0)", by, query.Rate(metric, window), entries)
		}
		return "(" + entries + others + ")"
	}, p.Least("transitions"), "")
	if err != nil {
		return err
	}
	for _, pt := range points {
		process := pt.Labels["process"]
		if process == "other" {
			continue // the fold of many processes
		}
		subject, err := named(ctx, p, process, enclaveEntries, pt.Labels["instance"])
		if err != nil {
			return err
		}
		e := evidence{pass: p}
		add := func(what, metric, window string) float64 {
			n := e.add(ctx, fmt.Sprintf("%s of %s, mean of the last %s", what, process, window), "1/s", query.SumRate(query.Selector(metric, pt.Labels), window))
			if math.IsNaN(n) {
				return 0 // not reported by this runtime
			}
			return n
		}
		entries, exits, async := add("entries", enclaveEntries, newest(p)), add("exits", enclaveExits, newest(p)), add("asynchronous exits", enclaveAsyncExits, newest(p))
		all := entries + exits + async
		if limit := p.Limit("transitions", subject); all < limit || pt.Value < limit {
			continue
		}
		cpu := e.add(ctx, "CPU time of "+process, "cores", query.SumRate(query.Selector("tee_process_cpu_seconds_total", pt.Labels), newest(p)))
		if all < p.Limit("per_cpu_second", subject)*cpu { // false if the CPU time is unknown
			continue
		}
		add("entries", enclaveEntries, window(p))
		// Some runtimes report calls into an enclave as entries and calls out of it as exits,
		// others both halves of each call: the number of calls lies between the two.
		f := findings.Finding{
			Machine:  query.MachineOf(pt.Labels),
			Subject:  subject,
			Life:     lifeOf(pt.Labels),
			Title:    fmt.Sprintf("%s enters and leaves its enclaves %s times a second.", subject, metric.Count(all)),
			Severity: findings.Warning,
			Cost:     prices.EnclaveTransition.Cost(max(entries, exits), entries+exits) + " Asynchronous exits are not included; their cost is unknown here.",
		}
		if all >= p.Limit("critical", subject) {
			f.Severity = findings.Critical
		}
		if async > entries+exits {
			f.Remedy = asyncRemedy
		}
		f.Confidence = e.trust(ctx, pt.Labels, "runtimes")
		if f.Evidence = e.list; e.err != nil {
			return e.err
		}
		p.Report(f)
	}
	return nil
}
