package rules

import (
	"context"
	"fmt"

	"github.com/teescope/teescope/internal/explain/causes"
	"github.com/teescope/teescope/internal/explain/prices"
	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/metric"
)

const vmExits = "tee_vm_exits_total"

var vmExitStorm = &findings.Rule{
	Name:  "vm_exit_storm",
	Title: "VM exit storm",
	Doc: "A virtual machine exits to this host at least 50,000 times a second for one reason, over either window and over its newest half minute. " +
		"The bare switch out of a plain guest and back costs about 1,350 cycles, without the work in between; a confidential guest costs more, " +
		"because registers are saved, scrubbed and loaded (SEV-ES) or the TDX module is in between.",
	Needs: []string{vmExits},
	Thresholds: []findings.Threshold{
		{Name: "exits", Doc: "exits of one machine for one reason", Unit: "1/s", Default: 50_000},
		{Name: "critical", Doc: "the same exits, for a critical finding", Unit: "1/s", Default: 500_000},
	},
	Remedy:    causes.VMExitStorm.Remedy,
	Reference: "https://www.qemu.org/2019/11/15/micro-optimizing-kvm-vmexits/ and " + prices.VMExit.Source,
	Run:       findVMExitStorms,
}

// exitRemedies are keyed by kind of reason. Intel, AMD and a guest's own view name the same reasons differently.
var exitRemedies = map[string]string{
	"hlt":    "Let virtual CPUs poll before they halt (cpuidle_haltpoll or idle=poll in the guest, halt_poll_ns of KVM), and hand work over in batches: they go idle and wake up again for very little work.",
	"timer":  "Use tsc or kvm-clock as the guest's clock source, a lower timer frequency, nohz_full, and fewer very short sleeps: the guest sets timers or reads its clock through the host.",
	"io":     "Use virtio (modern, with packed rings and vhost) instead of emulated disks, networks and consoles, and larger requests: the guest drives emulated devices through ports or registers.",
	"cpuid":  "Find the caller of CPUID with a debugger in the guest and have it ask once: a program checks for features or serialises with it over and over.",
	"memory": "Populate the guest's memory at the start (prealloc=on, huge pages) and disable the balloon: the guest accesses memory that its host has not mapped.",
	"pause":  "Pin the virtual CPUs, give the guest fewer, or take load off the host: they spin on locks whose holders do not run, because the host has too few CPUs.",
	"irq":    "Keep the host's interrupts off the CPUs on which the guest runs (irqbalance --banirq, isolcpus), and use posted interrupts where the processor has them.",
	"hostcall": "See what the confidential guest calls its host for in tee_vm_vmgexits_total and tee_vm_tdvmcalls_total; page_state_change and map_gpa are memory that is shared and taken back, " +
		"which larger or longer-lived buffers avoid.",
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

func findVMExitStorms(ctx context.Context, p *findings.Pass) error {
	points, err := p.Query(ctx, "sort_desc("+held(p, func(window string) string {
		return fmt.Sprintf("sum by (job, instance, vm, type, reason) (rate(%s[%s]))", vmExits, window)
	}, p.Least("exits"))+")", p.To)
	if err != nil {
		return err
	}
	seen := map[of]bool{}
	for _, pt := range points {
		vm, kind, reason := pt.Labels["vm"], pt.Labels["type"], pt.Labels["reason"]
		subject, err := named(ctx, p, "vm "+vm, vmExits, pt.Labels["instance"])
		if err != nil {
			return err
		}
		if vm == "other" || vm == "ended" || seen[of{findings.MachineOf(pt.Labels), subject}] {
			continue // folds of many, and machines whose most frequent reason is already named
		}
		one := findings.Selector(vmExits, pt.Labels)
		e := evidence{pass: p}
		rate := e.add(ctx, fmt.Sprintf("exits for %s, mean of the last %s", reason, newest(p)), "1/s", sumRate(one, newest(p)))
		mean := e.add(ctx, fmt.Sprintf("exits for %s, mean of the last %s", reason, window(p)), "1/s", sumRate(one, window(p)))
		if min(rate, mean) < p.Limit("exits", subject) {
			continue
		}
		seen[of{findings.MachineOf(pt.Labels), subject}] = true
		machine := with(onMachine(vmExits, pt.Labels), fmt.Sprintf("vm=%q", vm))
		e.add(ctx, "its exits for any reason", "1/s", sumRate(machine, newest(p)))
		f := findings.Finding{
			Machine:  findings.MachineOf(pt.Labels),
			Subject:  subject,
			Title:    fmt.Sprintf("%s (%s) exits to this host %s times a second for %s.", subject, kind, metric.Count(rate), reason),
			Severity: findings.Warning,
			Cost:     prices.VMExit.Cost(rate, rate),
			Remedy:   exitRemedies[exitKinds[reason]],
		}
		if rate >= p.Limit("critical", subject) {
			f.Severity = findings.Critical
		}
		if f.Remedy != "" {
			f.Remedy += " " + p.Rule.Remedy
		}
		// The time outside guests is measured for all machines of a type together.
		away := e.add(ctx, "time that virtual CPUs of type "+kind+" spend outside their guests and not halted", "cores",
			sumRate(with(onMachine("tee_vm_exit_duration_seconds_sum", pt.Labels), fmt.Sprintf("type=%q", kind), `handled!="halted"`), newest(p)))
		if away > 0 {
			f.Cost += fmt.Sprintf(" Virtual CPUs of type %s spend %s outside their guests (measured).", kind, metric.Value(away, "cores"))
		}
		f.Confidence = e.trust(ctx, pt.Labels, "kvm")
		if f.Evidence = e.list; e.err != nil {
			return e.err
		}
		p.Report(f)
	}
	return nil
}
