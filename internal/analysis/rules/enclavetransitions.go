package rules

import (
	"context"
	"fmt"
	"math"

	"github.com/teescope/teescope/internal/analysis"
)

const (
	enclaveEntries    = "tee_sgx_enclave_entries_total"
	enclaveExits      = "tee_sgx_enclave_exits_total"
	enclaveAsyncExits = "tee_sgx_enclave_async_exits_total"
)

var enclaveTransitions = &analysis.Rule{
	Name:  "enclave_transitions",
	Title: "Enclave transitions",
	Doc: "A process enters and leaves its enclaves at least 10,000 times a second, asynchronous exits (interrupts, faults) among them, and at least 20,000 times " +
		"for each second of its CPU time where that is known, over either window and over the newest half minute. Others measured 8,200 to 17,000 cycles for a call into or out of " +
		"an enclave: 20,000 of them in a second are 5 % of a core at 3 GHz and more. Calls that use no transition (switchless, exitless) are not counted and cost nothing of this.",
	Needs: []string{enclaveEntries, enclaveExits},
	Thresholds: []analysis.Threshold{
		{Name: "transitions", Doc: "entries, exits and asynchronous exits of a process", Unit: "1/s", Default: 10_000},
		{Name: "per_cpu_second", Doc: "the same for each second of CPU time of the process", Unit: "1/s", Default: 20_000},
		{Name: "critical", Doc: "transitions that are critical", Unit: "1/s", Default: 100_000},
	},
	Remedy: "See what the enclave asks its host for: the process's system calls are mostly calls out of the enclave. Let it do more for each call (larger buffers, batches, a clock and " +
		"locks inside the enclave), and use calls without transitions: switchless calls of the Intel SDK, sgx.insecure__rpc_thread_num in Gramine.",
	Reference: "https://gramine.readthedocs.io/en/stable/performance.html and " + hotCalls,
	Run:       findEnclaveTransitions,
}

// asyncRemedy is for processes that leave their enclaves because they are made to.
const asyncRemedy = "Most of them are asynchronous: interrupts and page faults throw the threads out of the enclave. Keep interrupts off their CPUs (irqbalance --banirq, isolcpus, nohz_full), " +
	"use fewer threads than CPUs, touch memory before it is needed, and see epc_paging."

func findEnclaveTransitions(ctx context.Context, p *analysis.Pass) error {
	const by = "job, instance, process"
	points, err := p.Query(ctx, held(p, func(window string) string {
		entries := fmt.Sprintf("sum by (%s) (rate(%s[%s]))", by, enclaveEntries, window)
		others := ""
		for _, metric := range []string{enclaveExits, enclaveAsyncExits} { // which some runtimes do not show
			others += fmt.Sprintf(" + (sum by (%s) (rate(%s[%s])) or %s * 0)", by, metric, window, entries)
		}
		return "(" + entries + others + ")"
	}, p.Least("transitions")), p.To)
	if err != nil {
		return err
	}
	for _, pt := range points {
		process := pt.Labels["process"]
		if process == "other" {
			continue // a fold of many
		}
		subject, err := named(ctx, p, process, enclaveEntries, pt.Labels["instance"])
		if err != nil {
			return err
		}
		e := evidence{pass: p}
		add := func(what, metric, window string) float64 {
			n := e.add(ctx, fmt.Sprintf("%s of %s, mean of the last %s", what, process, window), "1/s", sumRate(analysis.Selector(metric, pt.Labels), window))
			if math.IsNaN(n) {
				return 0 // such are not known of this runtime
			}
			return n
		}
		entries, exits, async := add("entries", enclaveEntries, newest(p)), add("exits", enclaveExits, newest(p)), add("asynchronous exits", enclaveAsyncExits, newest(p))
		all := entries + exits + async
		if limit := p.Limit("transitions", subject); all < limit || pt.Value < limit {
			continue
		}
		cpu := e.add(ctx, "CPU time of "+process, "cores", sumRate(analysis.Selector("tee_process_cpu_seconds_total", pt.Labels), newest(p)))
		if all < p.Limit("per_cpu_second", subject)*cpu { // false where the CPU time is not known
			continue
		}
		add("entries", enclaveEntries, window(p))
		// Some runtimes show calls into an enclave as entries and calls out of it as
		// exits, others both halves of each call: the number of calls lies between.
		f := analysis.Finding{
			Subject:  subject,
			Title:    fmt.Sprintf("%s enters and leaves its enclaves %s times a second.", subject, count(all)),
			Severity: analysis.Warning,
			Cost: fmt.Sprintf("Asynchronous exits left out, of whose cost nothing is known here, at 8,200 to 17,000 cycles a call (from literature, HotCalls, not measured here): %s.",
				cycles(max(entries, exits)*callCyclesLow, (entries+exits)*callCyclesHigh)),
		}
		if all >= p.Limit("critical", subject) {
			f.Severity = analysis.Critical
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
