package rules

import (
	"context"
	"fmt"

	"github.com/teescope/teescope/internal/analysis"
)

const vmExits = "tee_vm_exits_total"

var vmExitStorm = &analysis.Rule{
	Name:  "vm_exit_storm",
	Title: "VM exit storm",
	Doc: "A virtual machine exits to this host at least 50,000 times a second for one and the same reason, over either window and over its newest half minute. " +
		"The switch out of a plain guest and back takes some 1,350 cycles by itself, without what is done in between; out of a confidential one it takes more, " +
		"as registers are saved, scrubbed and loaded (SEV-ES) or the TDX module stands in between.",
	Needs: []string{vmExits},
	Thresholds: []analysis.Threshold{
		{Name: "exits", Doc: "exits of one machine for one reason", Unit: "1/s", Default: 50_000},
		{Name: "critical", Doc: "the same that are critical", Unit: "1/s", Default: 500_000},
	},
	Remedy: "See what the guest does with `perf kvm stat live -p PID` on the host, and with teescope in the guest: system calls, faults, interrupts. " +
		"Where the machine is confidential, tee_vm_vmgexits_total and tee_vm_tdvmcalls_total say what it asks its host for.",
	Reference: "https://www.qemu.org/2019/11/15/micro-optimizing-kvm-vmexits/ and " + vmrun,
	Run:       findVMExitStorms,
}

// exitRemedies by the reason, under the names of both makers' processors and for
// a guest's own view; what they are about is the same.
var exitRemedies = map[string]string{
	"hlt":    "Its virtual CPUs go idle and are woken up again for very little: let them wait a little before they halt (cpuidle_haltpoll or idle=poll in the guest, halt_poll_ns of KVM), and hand work over in batches.",
	"timer":  "The guest sets timers or reads its clock through the host: use tsc or kvm-clock as its clock source, a lower timer frequency, nohz_full, and fewer very short sleeps.",
	"io":     "The guest drives emulated devices through ports or registers: use virtio (modern, with packed rings and vhost) instead of emulated disks, networks and consoles, and larger requests.",
	"cpuid":  "The guest executes CPUID over and over: a program asks for features or serialises with it. Have it ask once; in the guest `perf trace` or a debugger finds the caller.",
	"memory": "The guest touches memory that its host has not mapped: populate it at the start (prealloc=on, huge pages), and let no balloon take it away.",
	"pause":  "Its virtual CPUs spin on locks whose holders do not run: the host has fewer CPUs than virtual ones want. Pin them, give the machine fewer, or take load off the host.",
	"irq":    "Interrupts of the host hit the CPUs on which the guest runs: keep them on other CPUs (irqbalance --banirq, isolcpus), and use posted interrupts where the processor has them.",
	"hostcall": "The confidential guest calls its host: tee_vm_vmgexits_total and tee_vm_tdvmcalls_total say for what; page_state_change and map_gpa are memory that is shared and taken back, " +
		"which larger or kept buffers avoid.",
}

// exitKinds maps reasons to remedies.
var exitKinds = map[string]string{
	"hlt": "hlt", "mwait": "hlt", "mwait_instruction": "hlt", "idle_halt": "hlt", "wfx": "hlt", "umwait": "hlt", "tpause": "hlt",
	"preemption_timer": "timer", "msr_write": "timer", "wrmsr": "timer", "msr": "timer", "rdtsc": "timer", "rdtscp": "timer", "apic_write": "timer", "apic_access": "timer",
	"io_instruction": "io", "io": "io", "ept_misconfig": "io", "mmio": "io", "mmio_read": "io", "mmio_write": "io", "data_abort": "io",
	"cpuid": "cpuid", "ept_violation": "memory", "npf": "memory",
	"pause": "pause", "pause_instruction": "pause",
	"external_interrupt": "irq", "interrupt": "irq", "interrupt_window": "irq", "vintr": "irq",
	"tdcall": "hostcall", "vmgexit": "hostcall", "map_gpa": "hostcall", "page_state_change": "hostcall",
}

func findVMExitStorms(ctx context.Context, p *analysis.Pass) error {
	points, err := p.Query(ctx, "sort_desc("+held(p, func(window string) string {
		return fmt.Sprintf("sum by (job, instance, vm, type, reason) (rate(%s[%s]))", vmExits, window)
	}, p.Least("exits"))+")", p.To)
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, pt := range points {
		vm, kind, reason := pt.Labels["vm"], pt.Labels["type"], pt.Labels["reason"]
		subject, err := named(ctx, p, "vm "+vm, vmExits, pt.Labels["instance"])
		if err != nil {
			return err
		}
		if vm == "other" || vm == "ended" || seen[subject] {
			continue // folds of many; and of a machine the most frequent reason is named
		}
		one := analysis.Selector(vmExits, pt.Labels)
		e := evidence{pass: p}
		rate := e.add(ctx, fmt.Sprintf("exits for %s, mean of the last %s", reason, newest(p)), "1/s", sumRate(one, newest(p)))
		mean := e.add(ctx, fmt.Sprintf("exits for %s, mean of the last %s", reason, window(p)), "1/s", sumRate(one, window(p)))
		if min(rate, mean) < p.Limit("exits", subject) {
			continue
		}
		seen[subject] = true
		machine := with(onMachine(vmExits, pt.Labels), fmt.Sprintf("vm=%q", vm))
		e.add(ctx, "all its exits", "1/s", sumRate(machine, newest(p)))
		f := analysis.Finding{
			Subject:  subject,
			Title:    fmt.Sprintf("%s (%s) exits to this host %s times a second for %s.", subject, kind, count(rate), reason),
			Severity: analysis.Warning,
			Cost:     exitCost(rate),
			Remedy:   exitRemedies[exitKinds[reason]],
		}
		if rate >= p.Limit("critical", subject) {
			f.Severity = analysis.Critical
		}
		if f.Remedy != "" {
			f.Remedy += " " + p.Rule.Remedy
		}
		// Only for all machines of a type together is it measured how long they are away.
		away := e.add(ctx, "time that virtual CPUs of type "+kind+" are out of their guests and not halted", "cores",
			sumRate(with(onMachine("tee_vm_exit_duration_seconds_sum", pt.Labels), fmt.Sprintf("type=%q", kind), `handled!="halted"`), newest(p)))
		if away > 0 {
			f.Cost += fmt.Sprintf(" Virtual CPUs of type %s are out of their guests %s of a CPU's time (measured).", kind, percent(away))
		}
		f.Confidence = e.trust(ctx, pt.Labels, "kvm")
		if f.Evidence = e.list; e.err != nil {
			return e.err
		}
		p.Report(f)
	}
	return nil
}

// exitCost is the least that exits cost.
func exitCost(rate float64) string {
	return fmt.Sprintf("At 1,350 cycles for the bare switch out of a plain guest and back (from literature, a kernel developer's measurement on AMD in 2020), the least that it can be: %s.",
		cycles(rate*exitCycles, rate*exitCycles))
}
