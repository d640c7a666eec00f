package causes

import "github.com/teescope/teescope/internal/explain"

// VMExits are exits of virtual machines to this host.
var VMExits = explain.Cause{
	Name: "vm_exit_storm",
	Remedy: "See what the guest does with `perf kvm stat live -p PID` on the host, and with teescope in the guest: system calls, faults, interrupts. " +
		"For a confidential guest, tee_vm_vmgexits_total and tee_vm_tdvmcalls_total show what it asks its host for.",
}
