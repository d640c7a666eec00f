package causes

import "github.com/teescope/teescope/internal/explain"

// VMExitStorm is a storm of exits of virtual machines to this host.
var VMExitStorm = explain.Cause{
	Name: "vm_exit_storm",
	Remedy: "See what the guest does with `perf kvm stat live -p PID` on the host, and with teescope in the guest: system calls, faults, interrupts. " +
		"For a confidential guest, tee_vm_vmgexits_total and tee_vm_tdvmcalls_total show what it asks its host for.",
}
