package bpf

import "fmt"

// Names of the reasons why a virtual CPU left its guest. A reason missing from the
// tables is unknown_NUMBER: newer hardware has more.

// vmxReasons are the basic exit reasons of Intel's VMX (SDM volume 3, appendix C).
var vmxReasons = [...]string{
	0: "exception_nmi", 1: "external_interrupt", 2: "triple_fault", 3: "init_signal", 4: "sipi_signal",
	7: "interrupt_window", 8: "nmi_window", 9: "task_switch", 10: "cpuid", 12: "hlt", 13: "invd", 14: "invlpg",
	15: "rdpmc", 16: "rdtsc", 18: "vmcall", 19: "vmclear", 20: "vmlaunch", 21: "vmptrld", 22: "vmptrst", 23: "vmread",
	24: "vmresume", 25: "vmwrite", 26: "vmoff", 27: "vmon", 28: "cr_access", 29: "dr_access", 30: "io_instruction",
	31: "msr_read", 32: "msr_write", 33: "invalid_state", 34: "msr_load_fail", 36: "mwait_instruction",
	37: "monitor_trap_flag", 39: "monitor_instruction", 40: "pause_instruction", 41: "mce_during_vmentry",
	43: "tpr_below_threshold", 44: "apic_access", 45: "eoi_induced", 46: "gdtr_idtr", 47: "ldtr_tr", 48: "ept_violation",
	49: "ept_misconfig", 50: "invept", 51: "rdtscp", 52: "preemption_timer", 53: "invvpid", 54: "wbinvd", 55: "xsetbv",
	56: "apic_write", 57: "rdrand", 58: "invpcid", 59: "vmfunc", 60: "encls", 61: "rdseed", 62: "pml_full", 63: "xsaves",
	64: "xrstors", 67: "umwait", 68: "tpause", 74: "bus_lock", 75: "notify", 77: "tdcall", 84: "msr_read_imm",
	85: "msr_write_imm",
}

// svmReasons are the exit codes of AMD's SVM (APM volume 2, appendix C) and the
// software-defined ones for VMGEXIT (GHCB specification, section 4), by cell.
var svmReasons = [...]string{
	0x0: "read_cr0", 0x2: "read_cr2", 0x3: "read_cr3", 0x4: "read_cr4", 0x8: "read_cr8", 0x10: "write_cr0",
	0x12: "write_cr2", 0x13: "write_cr3", 0x14: "write_cr4", 0x18: "write_cr8", 0x20: "read_dr0", 0x21: "read_dr1",
	0x22: "read_dr2", 0x23: "read_dr3", 0x24: "read_dr4", 0x25: "read_dr5", 0x26: "read_dr6", 0x27: "read_dr7",
	0x30: "write_dr0", 0x31: "write_dr1", 0x32: "write_dr2", 0x33: "write_dr3", 0x34: "write_dr4", 0x35: "write_dr5",
	0x36: "write_dr6", 0x37: "write_dr7", 0x40: "exception_de", 0x41: "exception_db", 0x43: "exception_bp",
	0x44: "exception_of", 0x45: "exception_br", 0x46: "exception_ud", 0x47: "exception_nm", 0x48: "exception_df",
	0x4a: "exception_ts", 0x4b: "exception_np", 0x4c: "exception_ss", 0x4d: "exception_gp", 0x4e: "exception_pf",
	0x50: "exception_mf", 0x51: "exception_ac", 0x52: "exception_mc", 0x53: "exception_xf", 0x60: "interrupt",
	0x61: "nmi", 0x62: "smi", 0x63: "init", 0x64: "vintr", 0x65: "cr0_sel_write", 0x66: "read_idtr", 0x67: "read_gdtr",
	0x68: "read_ldtr", 0x69: "read_rt", 0x6a: "write_idtr", 0x6b: "write_gdtr", 0x6c: "write_ldtr", 0x6d: "write_rt",
	0x6e: "rdtsc", 0x6f: "rdpmc", 0x70: "pushf", 0x71: "popf", 0x72: "cpuid", 0x73: "rsm", 0x74: "iret", 0x75: "swint",
	0x76: "invd", 0x77: "pause", 0x78: "hlt", 0x79: "invlpg", 0x7a: "invlpga", 0x7b: "io", 0x7c: "msr",
	0x7d: "task_switch", 0x7e: "ferr_freeze", 0x7f: "shutdown", 0x80: "vmrun", 0x81: "hypercall", 0x82: "vmload",
	0x83: "vmsave", 0x84: "stgi", 0x85: "clgi", 0x86: "skinit", 0x87: "rdtscp", 0x88: "icebp", 0x89: "wbinvd",
	0x8a: "monitor", 0x8b: "mwait", 0x8d: "xsetbv", 0x8f: "write_efer_trap", 0x90: "write_cr0_trap",
	0x94: "write_cr4_trap", 0x98: "write_cr8_trap", 0xa2: "invpcid", 0xa5: "buslock", 0xa6: "idle_halt", 0xc0: "npf",
	0xc1: "avic_incomplete_ipi", 0xc2: "avic_unaccelerated_access", 0xc3: "vmgexit", 0xc9: "mmio_read",
	0xca: "mmio_write", 0xcb: "nmi_complete", 0xcc: "ap_hlt_loop", 0xcd: "ap_jump_table", 0xd8: "page_state_change",
	0xd9: "guest_request", 0xda: "ext_guest_request", 0xdb: "ap_creation", 0xf8: "hypervisor_feature",
}

// armReasons are the exception classes of the Arm architecture's ESR_EL2, and from 64
// on the exits without a trap (asm/kvm_asm.h).
var armReasons = [...]string{
	0x00: "unknown_class", 0x01: "wfx", 0x07: "fp_simd", 0x08: "vmrs", 0x09: "pauth", 0x0e: "illegal_state", 0x11: "svc32", 0x12: "hvc32",
	0x13: "smc32", 0x15: "svc64", 0x16: "hvc64", 0x17: "smc64", 0x18: "system_register", 0x19: "sve", 0x1a: "eret", 0x1d: "sme",
	0x20: "instruction_abort", 0x22: "pc_alignment", 0x24: "data_abort", 0x26: "sp_alignment", 0x2f: "serror", 0x30: "breakpoint",
	0x32: "software_step", 0x34: "watchpoint", 0x38: "bkpt32", 0x3c: "brk64",
	64: "interrupt", 65: "serror_at_el1", 67: "illegal_return",
}

// userReasons are the KVM_EXIT_* of include/uapi/linux/kvm.h, and the returns of
// KVM_RUN without one: an error, or a signal to be handled first.
var userReasons = [...]string{
	0: "unknown", 1: "exception", 2: "io", 3: "hypercall", 4: "debug", 5: "hlt", 6: "mmio", 7: "irq_window_open", 8: "shutdown",
	9: "fail_entry", 10: "intr", 11: "set_tpr", 12: "tpr_access", 13: "s390_sieic", 14: "s390_reset", 15: "dcr", 16: "nmi",
	17: "internal_error", 18: "osi", 19: "papr_hcall", 20: "s390_ucontrol", 21: "watchdog", 22: "s390_tsch", 23: "epr",
	24: "system_event", 25: "s390_stsi", 26: "ioapic_eoi", 27: "hyperv", 28: "arm_nisv", 29: "x86_rdmsr", 30: "x86_wrmsr",
	31: "dirty_ring_full", 32: "ap_reset_hold", 33: "x86_bus_lock", 34: "xen", 35: "riscv_sbi", 36: "riscv_csr", 37: "notify",
	38: "loongarch_iocsr", 39: "memory_fault", 40: "tdx",
	userError: "error", userRestart: "signal",
}

// tdvmcalls are the calls of a TDX guest to its host (Intel TDX Guest-Host
// Communication Interface, section 3); a call that stands for an instruction has the
// name of the corresponding exit reason.
var tdvmcalls = [...]string{
	10: "cpuid", 12: "hlt", 30: "io_instruction", 31: "msr_read", 32: "msr_write", 36: "mwait_instruction", 48: "mmio", 54: "wbinvd",
	64: "get_info", 65: "map_gpa", 66: "get_quote", 67: "report_fatal_error", 68: "setup_event_notify", 69: "service",
	tdvmcallKVM: "kvm_hypercall", tdvmcallCells - 1: "unknown",
}

// reason is a table's name for a cell.
func reason(table []string, cell int) string {
	if cell < len(table) && table[cell] != "" {
		return table[cell]
	}
	return fmt.Sprintf("unknown_%d", cell)
}

// exitReason names a cell of exits.
func exitReason(table []string, cell int) string {
	switch cell {
	case exitUntold:
		return NotTold
	case exitUntold - 1:
		return "unknown"
	}
	return reason(table, cell)
}
