package rules

import (
	"context"
	"fmt"
	"strings"

	"github.com/teescope/teescope/internal/explain/causes"
	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/query"
)

// vdsoCalls are the calls that the vDSO of x86-64 can answer without entering the kernel
// (vdso(7)).
var vdsoCalls = causes.VDSOCalls

// fastClocks are the clock sources that the vDSO reads (arch/x86/kernel/tsc.c,
// arch/x86/kernel/pvclock.c, drivers/clocksource/hyperv_timer.c,
// drivers/clocksource/arm_arch_timer.c; those of other architectures have one only).
const fastClocks = "tsc|tsc-early|kvm-clock|hyperv_clocksource_tsc_page|arch_sys_counter|tod|timebase|riscv_clocksource"

var vdsoBypass = &findings.Rule{
	Name:  "vdso_bypass",
	Title: "Calls around the vDSO",
	Doc: "A process asks the kernel for the time or for its CPU number at least 10,000 times a second, by a system call that the vDSO can answer in user space. A server that uses the vDSO makes almost no such calls at any load. The rate must hold as the mean of each window and in " +
		"every reading of the last 20 s; at 100,000 calls a second the finding opens early, after five readings. If entering the kernel takes about 200 ns, 10,000 calls a second use 0.2 % of a core; if leaving an enclave takes 8,200 cycles, they use 2.3 % of a core at 3.5 GHz. The share of these calls in the active time decides the severity. If the share is unknown, ten times the rate is critical. The rule syscall_storm does not report these calls. Clocks of CPU time (CLOCK_PROCESS_CPUTIME_ID and the like) are counted too, although no vDSO answers them: the calls look the same.",
	Needs: []string{"tee_syscalls_total"},
	Early: earlyStorm,
	Thresholds: []findings.Threshold{
		{Name: "rate", Doc: "calls of one kind by a process", Unit: "1/s", Default: 10_000, Early: 100_000},
		{Name: "rate_critical", Doc: "calls of one kind by a process, for a critical finding", Unit: "1/s", Default: 100_000},
	},
	Remedy:    causes.VDSOBypass.Remedy,
	Reference: "https://man7.org/linux/man-pages/man7/vdso.7.html and " + teemon,
	Run:       findVDSOBypass,
}

func findVDSOBypass(ctx context.Context, p *findings.Pass) error {
	found, err := storms(ctx, p, "tee_syscalls_total", `process!="other",syscall=~"`+vdsoCalls+`"`, "rate", "syscall")
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, s := range found {
		who := s.siblingCounter("")
		if seen[who] {
			continue // its most frequent call is already named
		}
		seen[who] = true
		call := s.labels["syscall"]
		e := evidence{pass: p}
		rate := e.add(ctx, fmt.Sprintf("%s calls of %s, %s", call, s.labels["process"], s.spanText()), "1/s", s.rate(s.series))
		useful := e.add(ctx, "its read, write, send and receive calls in the same time", "1/s", s.useful())
		e.add(ctx, "share of "+call+" in all its calls", "ratio", s.rate(s.series)+" / "+s.rate(s.siblingCounter("tee_syscalls_total")))
		e.add(ctx, fmt.Sprintf("%s calls, mean of the last %s", call, window(p)), "1/s", query.SumRate(s.series, window(p)))
		why, err := whyAround(ctx, p, &e, s.labels)
		if err != nil {
			return err
		}
		f := findings.Finding{
			Machine:    query.MachineOf(s.labels),
			Subject:    s.subject,
			Life:       lifeOf(s.labels),
			Title:      fmt.Sprintf("%s asks the kernel %s times a second with %s, which the vDSO could answer.", s.subject, metric.Count(rate), call),
			Severity:   findings.Warning,
			Confidence: e.trust(ctx, s.labels, "syscalls"),
			Remedy:     p.Rule.Remedy + " " + why + " " + insideEnclave,
		}
		if useful > 0 {
			f.Title = strings.TrimSuffix(f.Title, ".") + fmt.Sprintf(": %s times as often as it reads, writes, sends and receives.", metric.Count(rate/useful))
		}
		if rate >= p.Limit("rate_critical", s.subject) {
			f.Severity = findings.Critical
		}
		f.Cost, f.Share = s.callCost(ctx, &e, call)
		f.ShareOf = findings.ActiveTime
		if f.Evidence = e.list; e.err != nil {
			return e.err
		}
		p.Report(f)
	}
	return nil
}

// whyAround returns the reason why the vDSO does not answer, as far as the machine's clock source shows it.
func whyAround(ctx context.Context, p *findings.Pass, e *evidence, labels map[string]string) (string, error) {
	const bypass = "a static binary that does not look for the vDSO, a sandbox or tracer that removes it, or an enclave runtime without its own clock"
	points, err := p.Query(ctx, onMachine("tee_clocksource_info", labels), p.To)
	if err != nil {
		return "", err
	}
	if len(points) > 0 {
		name := points[0].Labels["name"]
		e.add(ctx, "1 if the machine's clock source is "+name, "", onMachine("tee_clocksource_info", labels, fmt.Sprintf("name=%q", name)))
		if !isOneOf(name, fastClocks) {
			return fmt.Sprintf("User space may be unable to read the machine's clock source, %s, so every reading of the time enters the kernel: see the rule clock_source.", name), nil
		}
		return fmt.Sprintf("User space can read the machine's clock source, %s, so something bypasses the vDSO: %s.", name, bypass), nil
	}
	return "Either something bypasses the vDSO (" + bypass + ") or user space cannot read the clock source: see " +
		"/sys/devices/system/clocksource/clocksource0/current_clocksource.", nil
}

// isOneOf reports whether the name is one of the alternatives of a matcher.
func isOneOf(name, alternatives string) bool {
	for a := range strings.SplitSeq(alternatives, "|") {
		if a == name {
			return true
		}
	}
	return false
}
