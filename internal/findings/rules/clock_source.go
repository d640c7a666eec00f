package rules

import (
	"context"
	"fmt"

	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/query"
)

// slowClocks are the x86 clock sources that only the kernel can read, through a device or the hypervisor
// (drivers/clocksource/acpi_pm.c, arch/x86/kernel/hpet.c, kernel/time/jiffies.c, drivers/clocksource/hyperv_timer.c).
const slowClocks = "hpet|acpi_pm|pit|jiffies|refined-jiffies|hyperv_clocksource_msr"

var clockSource = &findings.Rule{
	Name:  "clock_source",
	Title: "Slow clock source",
	Doc: "User space cannot read the kernel's clock source, such as hpet or acpi_pm, so every program that asks for the time enters the " +
		"kernel, and in a virtual machine usually leaves the guest too. Often the kernel has dropped tsc because it found tsc unstable. A clock source " +
		"that is neither known to be fast (tsc, kvm-clock, hyperv_clocksource_tsc_page, arch_sys_counter) nor known to be slow is for information only. " +
		"The clock source must be in use for the whole of each window. No threshold: there is nothing to compare.",
	Needs: []string{"tee_clocksource_info"},
	Remedy: "Find the reason with `dmesg | grep -i -e clocksource -e tsc`. Where tsc is available and the host keeps it stable, select it with " +
		"`clocksource=tsc tsc=reliable` on the kernel's command line; in a virtual machine ask for a paravirtual clock (kvm-clock, Hyper-V's page) or for an " +
		"invariant TSC. TDX guests have a stable TSC, SEV-SNP guests with Secure TSC.",
	Reference: "https://docs.kernel.org/virt/kvm/x86/timekeeping.html and https://docs.kernel.org/timers/timekeeping.html",
	Run:       findClockSource,
}

func findClockSource(ctx context.Context, p *findings.Pass) error {
	const info = "tee_clocksource_info"
	all := fmt.Sprintf("count_over_time(%s[%s])", info, window(p))
	points, err := p.Query(ctx, fmt.Sprintf("count_over_time(%s[%s]) / on (job, instance) group_left sum by (job, instance) (%s)",
		query.Narrow(info, fmt.Sprintf("name!~%q", fastClocks)), window(p), all), p.To)
	if err != nil {
		return err
	}
	for _, pt := range points {
		if pt.Value < 1 {
			continue // it changed within the window
		}
		name := pt.Labels["name"]
		subject, err := named(ctx, p, findings.WholeMachine, info, pt.Labels["instance"])
		if err != nil {
			return err
		}
		here := onMachine(info, pt.Labels)
		e := evidence{pass: p}
		share := e.add(ctx, fmt.Sprintf("share of the readings in the last %s with %s", window(p), name), "ratio",
			fmt.Sprintf("sum(count_over_time(%s[%s])) / sum(count_over_time(%s[%s]))", query.Narrow(here, fmt.Sprintf("name=%q", name)), window(p), here, window(p)))
		changes := e.add(ctx, "changes of the clock source since the monitor started", "", "sum("+onMachine("tee_clocksource_changes_total", pt.Labels)+")")
		tsc := e.add(ctx, "1 if tsc is available", "", "sum("+onMachine("tee_clocksource_available", pt.Labels, `name="tsc"`)+")")
		asked := e.add(ctx, "system calls that ask for the time, mean of the last "+window(p), "1/s",
			query.SumRate(onMachine("tee_syscalls_total", pt.Labels, `syscall=~"clock_gettime|gettimeofday|time"`), window(p)))
		f := findings.Finding{
			Machine:  query.MachineOf(pt.Labels),
			Subject:  subject,
			Title:    fmt.Sprintf("The %s uses the clock source %s (%s of the last %s): each reading of the time enters the kernel.", subject, name, metric.Percent(share), window(p)),
			Severity: findings.Warning,
			Remedy:   p.Rule.Remedy,
		}
		if !isOneOf(name, slowClocks) {
			f.Title = fmt.Sprintf("The %s uses the clock source %s (%s of the last %s): user space may be unable to read it.", subject, name, metric.Percent(share), window(p))
			f.Severity, f.Confidence = findings.Info, findings.Low
		}
		switch {
		case changes > 0:
			f.Remedy = f.Remedy + fmt.Sprintf(" The clock source has changed %s times since the monitor started.", metric.Count(changes))
		case tsc == 1:
			f.Remedy = f.Remedy + " The kernel offers tsc but does not use it."
		}
		if asked > 0 {
			f.Cost = fmt.Sprintf("%s calls a second enter the kernel to ask for the time.", metric.Count(asked))
		}
		if f.Evidence = e.list; e.err != nil {
			return e.err
		}
		p.Report(f)
	}
	return nil
}
