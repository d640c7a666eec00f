package rules

import (
	"context"
	"fmt"

	"github.com/teescope/teescope/internal/analysis"
)

// slowClocks are the clock sources of x86 that only the kernel can read, each time
// through a device or the hypervisor (drivers/clocksource/acpi_pm.c,
// arch/x86/kernel/hpet.c, kernel/time/jiffies.c, drivers/clocksource/hyperv_timer.c).
const slowClocks = "hpet|acpi_pm|pit|jiffies|refined-jiffies|hyperv_clocksource_msr"

var clockSource = &analysis.Rule{
	Name:  "clock_source",
	Title: "Slow clock source",
	Doc: "The kernel's clock source is one that user space cannot read, such as hpet or acpi_pm, so that every program that asks for the time enters the " +
		"kernel, and in a virtual machine mostly leaves the guest as well. Often the kernel has dropped tsc because it found it unstable. A clock source " +
		"that is neither known to be fast (tsc, kvm-clock, hyperv_clocksource_tsc_page, arch_sys_counter) nor known to be slow is information only. " +
		"It must have been so in all of either window. No threshold: there is nothing to compare.",
	Needs: []string{"tee_clocksource_info"},
	Remedy: "Look for the reason with `dmesg | grep -i -e clocksource -e tsc`. Where tsc is available and the host keeps it stable, select it with " +
		"`clocksource=tsc tsc=reliable` on the kernel's command line; in a virtual machine ask for a paravirtual clock (kvm-clock, Hyper-V's page) or for an " +
		"invariant TSC. TDX gives its guests a stable TSC, SEV-SNP with Secure TSC.",
	Reference: "https://docs.kernel.org/virt/kvm/x86/timekeeping.html and https://docs.kernel.org/timers/timekeeping.html",
	Run:       findClockSource,
}

func findClockSource(ctx context.Context, p *analysis.Pass) error {
	const info = "tee_clocksource_info"
	all := fmt.Sprintf("count_over_time(%s[%s])", info, window(p))
	points, err := p.Query(ctx, fmt.Sprintf("count_over_time(%s[%s]) / on (job, instance) group_left sum by (job, instance) (%s)",
		with(info, fmt.Sprintf("name!~%q", fastClocks)), window(p), all), p.To)
	if err != nil {
		return err
	}
	for _, pt := range points {
		if pt.Value < 1 {
			continue // it was changed meanwhile
		}
		name := pt.Labels["name"]
		subject, err := named(ctx, p, "machine", info, pt.Labels["instance"])
		if err != nil {
			return err
		}
		here := onMachine(info, pt.Labels)
		e := evidence{pass: p}
		share := e.add(ctx, fmt.Sprintf("share of the readings in the last %s in which it was %s", window(p), name), "ratio",
			fmt.Sprintf("sum(count_over_time(%s[%s])) / sum(count_over_time(%s[%s]))", with(here, fmt.Sprintf("name=%q", name)), window(p), here, window(p)))
		changes := e.add(ctx, "changes of the clock source that the monitor has seen", "", "sum("+onMachine("tee_clocksource_changes_total", pt.Labels)+")")
		tsc := e.add(ctx, "1 where tsc could be selected", "", "sum("+onMachine("tee_clocksource_available", pt.Labels, `name="tsc"`)+")")
		asked := e.add(ctx, "system calls that ask for the time, mean of the last "+window(p), "1/s",
			sumRate(onMachine("tee_syscalls_total", pt.Labels, `syscall=~"clock_gettime|gettimeofday|time"`), window(p)))
		f := analysis.Finding{
			Subject:  subject,
			Title:    fmt.Sprintf("The clock source of the %s is %s, in %s of the last %s: reading the time enters the kernel.", subject, name, percent(share), window(p)),
			Severity: analysis.Warning,
			Remedy:   p.Rule.Remedy,
		}
		if !isOneOf(name, slowClocks) {
			f.Title = fmt.Sprintf("The clock source of the %s is %s, in %s of the last %s, which user space may be unable to read.", subject, name, percent(share), window(p))
			f.Severity, f.Confidence = analysis.Info, analysis.Low
		}
		switch {
		case changes > 0:
			f.Remedy = fmt.Sprintf("The monitor has seen the clock source change %s times. ", count(changes)) + f.Remedy
		case tsc == 1:
			f.Remedy = "The kernel offers tsc and does not use it. " + f.Remedy
		}
		if asked > 0 {
			f.Cost = fmt.Sprintf("%s calls a second enter the kernel to ask for the time.", count(asked))
		}
		if f.Evidence = e.list; e.err != nil {
			return e.err
		}
		p.Report(f)
	}
	return nil
}
