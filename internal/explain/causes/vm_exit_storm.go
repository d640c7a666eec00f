package causes

import "github.com/teescope/teescope/internal/explain"

// VMExitStorm is a storm of exits of virtual machines to this host.
var VMExitStorm = explain.Cause{
	Name: "vm_exit_storm",
	Remedy: "See what the guest does with `perf kvm stat live -p PID` on the host, and with teescope in the guest: system calls, faults, interrupts. " +
		"For a confidential guest, tee_vm_vmgexits_total and tee_vm_tdvmcalls_total show the guest's requests to its host.",
	ByReason: ExitRemedy,
}

// ExitRemedy returns what to do about exits for a reason; "" if that is unknown. Intel, AMD and a guest's own view name the same
// reasons differently.
func ExitRemedy(reason string) string { return exitRemedies[exitKinds[reason]] }

var exitRemedies = map[string]string{
	"hlt": "Let virtual CPUs poll before they halt (cpuidle_haltpoll or idle=poll in the guest, halt_poll_ns of KVM), and pass work on in batches: virtual CPUs go idle and wake up again for very little work. " +
		"Polling keeps the host's CPUs busy while the guest is idle: `teescope bench run knob-idle` measures how many CPUs that costs, and knob-idle-redis measures the gain.",
	"timer": "Use tsc or kvm-clock as the guest's clock source, a lower timer frequency, nohz_full, and fewer very short sleeps: the guest sets timers or reads its clock through the host.",
	"io": "Use virtio (modern, with packed rings and vhost) instead of emulated disks, networks and consoles, and larger requests: the guest drives emulated devices through ports or registers. " +
		"`teescope bench run knob-network-redis` measures the effect of vhost.",
	"cpuid": "Find the caller of CPUID with a debugger in the guest and let it run CPUID only once: a program checks for features or serialises with it over and over.",
	"memory": "Populate the guest's memory at the start (prealloc=on, huge pages) and disable the balloon: the guest accesses memory that its host has not mapped. " +
		"`teescope bench run knob-pages-redis` measures the effect of huge pages.",
	"pause": "Pin the virtual CPUs, give the guest fewer, or take load off the host: virtual CPUs spin on locks whose holders do not run, because the host has too few CPUs.",
	"irq":   "Keep the host's interrupts off the CPUs on which the guest runs (irqbalance --banirq, isolcpus), and use posted interrupts where the processor has them.",
	"hostcall": "See in tee_vm_vmgexits_total and tee_vm_tdvmcalls_total why the confidential guest calls its host. page_state_change and map_gpa are memory that is shared and made private again, " +
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
