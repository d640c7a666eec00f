//go:build ignore
// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The exits of a TDX guest that it sees itself.
 *
 *   ve         virtualization exceptions by VMX exit reason: instructions that
 *              the TDX module does not run for the guest, so that its kernel has
 *              to ask the hypervisor; tdx_handle_virt_exception, or in kernels of
 *              some vendors tdx:tdg_virtualization_exception
 *   hypercall  calls to the hypervisor by sub-function, which below 0x10000 is
 *              the exit reason; only tdx:tdx_hypercall_enter of some vendors
 */
#include "runs.h"

enum {
	REASONS = 96, /* the last one is all above, arch/x86/include/uapi/asm/vmx.h ends at 77 */
	CALLS = 16,   /* sub-functions from 0x10000, the last one is all above */
	FIRST_CALL = 0x10000,
	VE = 0,
	HYPERCALL = REASONS,
	STRIDE = HYPERCALL + REASONS + CALLS,
};

enum { EXCEPTION, CALL, EVENTS };

COUNTS(STRIDE);

struct ve_info {
	__u64 exit_reason;
} KERNEL_TYPE;

struct pt_regs {
	unsigned long si;
} KERNEL_TYPE;

static __always_inline int ve(__u64 reason)
{
	__u32 cpu = bpf_get_smp_processor_id();
	MEASURED struct run run = ran(cpu, EXCEPTION, EVENTS);

	if (reason >= REASONS)
		reason = REASONS - 1;
	add(&counts, STRIDE, cpu, VE + reason, 1);
	return 0;
}

static __always_inline int hypercall(__u64 function)
{
	__u64 cell = function;
	__u32 cpu = bpf_get_smp_processor_id();
	MEASURED struct run run = ran(cpu, CALL, EVENTS);

	if (function >= FIRST_CALL + CALLS)
		cell = REASONS + CALLS - 1;
	else if (function >= FIRST_CALL)
		cell = REASONS + function - FIRST_CALL;
	else if (function >= REASONS)
		cell = REASONS - 1;
	add(&counts, STRIDE, cpu, HYPERCALL + cell, 1);
	return 0;
}

SEC("fentry/tdx_handle_virt_exception")
int ve_fentry(__u64 *args) { return ve(((struct ve_info *)args[1])->exit_reason); }

SEC("tp_btf/tdg_virtualization_exception")
int ve_btf(__u64 *args) { return ve((__u32)args[1]); }

SEC("raw_tp/tdg_virtualization_exception")
int ve_raw(__u64 *args) { return ve((__u32)args[1]); }

SEC("kprobe/tdx_handle_virt_exception")
int ve_kprobe(struct pt_regs *regs)
{
	struct ve_info *info = (void *)regs->si;

	return ve(BPF_CORE_READ(info, exit_reason));
}

SEC("tp_btf/tdx_hypercall_enter")
int hypercall_btf(__u64 *args) { return hypercall(args[0]); }

SEC("raw_tp/tdx_hypercall_enter")
int hypercall_raw(__u64 *args) { return hypercall(args[0]); }

char LICENSE[] SEC("license") = "Dual BSD/GPL";
