package rules

import (
	"context"
	"fmt"

	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/query"
)

var cacheThrash = &findings.Rule{
	Name:  "cache_thrash",
	Title: "Last-level cache misses",
	Doc: "A process that the source llc is limited to, or else the whole machine, misses the last-level cache at least 20 times per 1,000 instructions and " +
		"completes at most 0.5 instructions per cycle, while it uses at least a billion cycles a second, over each window and over its newest half minute. " +
		"At 0.5 instructions per cycle, 1,000 instructions need 2,000 cycles. At 100 cycles each, 20 misses explain all of them: a miss takes 200 to 300 cycles, and two or three misses overlap. Memory encryption makes misses more expensive, but not hits, so a TEE slows down such programs most. " +
		"The rule needs performance counters, and SGX hides the counts of production enclaves. On AMD Zen the kernel's two cache events count the " +
		"second-level cache.",
	Needs: []string{"tee_llc_misses_total", "tee_llc_references_total", "tee_instructions_total", "tee_cycles_total"},
	Thresholds: []findings.Threshold{
		{Name: "misses", Doc: "misses per 1,000 instructions", Unit: "", Default: 20},
		{Name: "ipc", Doc: "largest number of instructions per cycle", Unit: "", Default: 0.5},
		{Name: "cycles", Doc: "cycles; below this rate there is too little work", Unit: "1/s", Default: 1e9},
	},
	Remedy: "Find the data with `perf mem record -p PID` or `perf c2c record -p PID` (lines that cores take from each other). Make the working set smaller or " +
		"its layout denser, process it in blocks, use huge pages, keep threads on their node, and keep other tenants out of the cache (resctrl).",
	Reference: "https://man7.org/linux/man-pages/man2/perf_event_open.2.html (PERF_COUNT_HW_CACHE_MISSES) and https://docs.kernel.org/filesystems/resctrl.html",
	Run:       findCacheThrash,
}

// cacheScopes are the counters of single processes, where the source is limited to some, and those of the machine.
var cacheScopes = []struct{ prefix, by string }{
	{"tee_process_", "job, instance, process"},
	{"tee_", "job, instance"},
}

func findCacheThrash(ctx context.Context, p *findings.Pass) error {
	told := map[string]bool{} // machines with a named process
	for _, scope := range cacheScopes {
		rate := func(metric string, labels map[string]string, w string) string {
			selector := onMachine(scope.prefix+metric, labels)
			if process, ok := labels["process"]; ok {
				selector = query.Narrow(selector, fmt.Sprintf("process=%q", process))
			}
			return fmt.Sprintf("sum by (%s) (%s)", scope.by, query.Rate(selector, w))
		}
		misses := func(labels map[string]string, w string) string {
			return "1000 * " + rate("llc_misses_total", labels, w) + " / " + rate("instructions_total", labels, w)
		}
		points, err := p.Query(ctx, fmt.Sprintf("%s and %s >= %g", sustainedQuery(p, func(w string) string { return misses(nil, w) }, p.Least("misses")),
			rate("cycles_total", nil, window(p)), p.Least("cycles")), p.To)
		if err != nil {
			return err
		}
		for _, pt := range points {
			machine := onMachine("", pt.Labels)
			name, isProcess := pt.Labels["process"]
			if !isProcess {
				if name = findings.WholeMachine; told[machine] {
					continue
				}
			}
			subject, err := named(ctx, p, name, "tee_llc_misses_total", pt.Labels["instance"])
			if err != nil {
				return err
			}
			ipc := func(w string) string {
				return rate("instructions_total", pt.Labels, w) + " / " + rate("cycles_total", pt.Labels, w)
			}
			e, mean := evidence{pass: p}, ", mean of the last "+window(p)
			missed := e.add(ctx, "last-level cache misses per 1,000 instructions, mean of the last "+window(p), "", misses(pt.Labels, window(p)))
			missedNow := e.add(ctx, "last-level cache misses per 1,000 instructions, mean of the last "+newest(p), "", misses(pt.Labels, newest(p)))
			done := e.add(ctx, "instructions per cycle, mean of the last "+window(p), "", ipc(window(p)))
			doneNow := e.add(ctx, "instructions per cycle, mean of the last "+newest(p), "", ipc(newest(p)))
			e.add(ctx, "share of its cache references that missed"+mean, "ratio", rate("llc_misses_total", pt.Labels, window(p))+" / "+rate("llc_references_total", pt.Labels, window(p)))
			lost := e.add(ctx, "last-level cache misses"+mean, "1/s", rate("llc_misses_total", pt.Labels, window(p)))
			cycles := e.add(ctx, "cycles"+mean, "1/s", rate("cycles_total", pt.Labels, window(p)))
			if e.err != nil {
				return e.err
			}
			if !(min(missed, missedNow) >= p.Limit("misses", subject)) || !(max(done, doneNow) <= p.Limit("ipc", subject)) || cycles < p.Limit("cycles", subject) {
				continue
			}
			told[machine] = true
			who := subject
			if !isProcess {
				who = "The " + subject
			}
			p.Report(findings.Finding{
				Machine:    query.MachineOf(pt.Labels),
				Subject:    subject,
				Life:       lifeOf(pt.Labels),
				Title:      fmt.Sprintf("%s completes only %s instructions per cycle: %s of 1,000 instructions miss the last-level cache.", who, metric.Count(done), metric.Count(missed)),
				Severity:   findings.Warning,
				Confidence: findings.Medium,
				Evidence:   e.list,
				Cost: fmt.Sprintf("%s cache lines a second come from memory. Each extra nanosecond per miss, for example by memory encryption, costs up to %s.",
					metric.Count(lost), metric.Value(lost*1e-9, "cores")),
			})
		}
	}
	return nil
}
