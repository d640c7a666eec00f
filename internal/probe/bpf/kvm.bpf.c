//go:build ignore
// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * KVM by virtual machine: exits by hardware reason, returns to the process that
 * runs it by reason, requests of confidential guests, faults of the reverse map
 * table and lookups of private memory.
 *
 * Since Linux 5.16 an exit's reason is in the record of the tracepoint kvm_exit
 * but not in its arguments, so perf builds the record first; without tracefs
 * exits are counted without a reason.
 */
#include "kvm.h"

/* Cells of a slot. */
enum {
	EXIT = 0,             /* by exit_cell */
	EXIT_CELLS = 256,
	EXIT_UNTOLD = 255,    /* the reason is unavailable */
	VMGEXIT = EXIT + EXIT_CELLS, /* requests of a guest by VMGEXIT, the same codes */
	USER = VMGEXIT + EXIT_CELLS,
	USER_CELLS = 64,
	USER_ERROR = 62,
	USER_RESTART = 63,
	TDVMCALL = USER + USER_CELLS,
	TDVMCALL_CELLS = 80,
	TDVMCALL_KVM = 78,    /* not in the TDX specification: a KVM hypercall */
	RMP = TDVMCALL + TDVMCALL_CELLS,
	RMP_FAILED,           /* the huge page could not be split */
	PRIVATE,              /* a page of guest_memfd was looked up */
	KVM_CELLS,
	STRIDE = VM_SLOTS * KVM_CELLS,
};

enum { ISA_VMX = 1, ISA_SVM = 2 };

COUNTS(STRIDE);

static __always_inline int add_cell(__u32 cell)
{
	add(&counts, STRIDE, bpf_get_smp_processor_id(), vm_slot() * KVM_CELLS + cell, 1);
	return 0;
}

static __always_inline int count(__u32 cell)
{
	MEASURED struct run run = ran(bpf_get_smp_processor_id(), 0, 1);

	return add_cell(cell);
}

/*
 * svm_cell makes AMD's codes dense: up to 0xbf unchanged, then the nested page
 * faults and their neighbours at 0x400, then software-defined ones at
 * 0x80000000 (AMD APM volume 2 appendix C; GHCB specification section 4).
 */
static __always_inline __u32 svm_cell(__u64 code)
{
	if (code < 0xc0)
		return code;
	if (code >= 0x400 && code < 0x408)
		return 0xc0 + (code - 0x400);
	if (code >= 0x80000000 && code < 0x80000030)
		return 0xc8 + (code - 0x80000000);
	if (code == 0x8000fffd)
		return 0xf8;
	return EXIT_UNTOLD - 1;
}

static __always_inline __u32 vmx_cell(__u32 reason)
{
	reason &= 0xffff; /* above it are flags, such as a failed entry */
	return reason < EXIT_UNTOLD - 1 ? reason : EXIT_UNTOLD - 1;
}

/* events/kvm/kvm_exit/format on x86, unchanged since isa is in it (2.6.36). */
struct kvm_exit_record {
	__u64 common;
	__u32 exit_reason;
	__u32 pad;
	__u64 guest_rip;
	__u32 isa;
};

SEC("tracepoint/kvm/kvm_exit")
int kvm_exit_x86(struct kvm_exit_record *r)
{
	return count(EXIT + (r->isa == ISA_VMX ? vmx_cell(r->exit_reason) : svm_cell(r->exit_reason)));
}

/* The same on arm64: the exit code, and for a trap its exception class. */
struct kvm_exit_arm_record {
	__u64 common;
	__u32 ret;
	__u32 esr_ec;
};

SEC("tracepoint/kvm/kvm_exit")
int kvm_exit_arm(struct kvm_exit_arm_record *r)
{
	/* ARM_EXCEPTION_TRAP of arch/arm64/include/asm/kvm_asm.h is 2; the class has 6 bits. */
	return count(EXIT + ((r->ret & 0xff) == 2 ? r->esr_ec & 63 : 64 + (r->ret & 63)));
}

SEC("raw_tp/kvm_exit")
int kvm_exit_raw(__u64 *args) { return count(EXIT + EXIT_UNTOLD); }

static __always_inline int user_exit(__u32 reason, int err)
{
	if (err == -4) /* EINTR: a signal */
		return count(USER + USER_RESTART);
	if (err < 0)
		return count(USER + USER_ERROR);
	return count(USER + (reason < USER_ERROR - 1 ? reason : USER_ERROR - 1));
}

SEC("tp_btf/kvm_userspace_exit")
int kvm_userspace_exit_btf(__u64 *args) { return user_exit(args[0], args[1]); }

SEC("raw_tp/kvm_userspace_exit")
int kvm_userspace_exit_raw(__u64 *args) { return user_exit(args[0], args[1]); }

/* events/kvm/kvm_vmgexit_enter/format. */
struct kvm_vmgexit_record {
	__u64 common;
	__u32 vcpu_id;
	__u32 pad;
	__u64 exit_reason;
};

SEC("tracepoint/kvm/kvm_vmgexit_enter")
int kvm_vmgexit_enter_record(struct kvm_vmgexit_record *r) { return count(VMGEXIT + svm_cell(r->exit_reason)); }

SEC("raw_tp/kvm_vmgexit_enter")
int kvm_vmgexit_enter_raw(__u64 *args) { return count(VMGEXIT + EXIT_UNTOLD); }

/* Arguments: virtual CPU, address, frame, error code, level, result of PSMASH. */
SEC("raw_tp/kvm_rmp_fault")
int kvm_rmp_fault_raw(__u64 *args) { return count((int)args[5] ? RMP_FAILED : RMP); }

struct tdx_module_args {
	__u64 r10;
	__u64 r11;
} KERNEL_TYPE;

struct vcpu_tdx {
	struct tdx_module_args vp_enter_args;
} KERNEL_TYPE;

/*
 * handle_tdvmcall of arch/x86/kvm/vmx/tdx.c; its argument is the first member
 * of vcpu_tdx. R10 says whose call it is (0: TDX's own), R11 which one (Intel
 * TDX Guest-Host Communication Interface, section 3).
 */
static __always_inline __u32 tdvmcall_cell(struct vcpu_tdx *t)
{
	__u64 leaf;

	if (!bpf_core_field_exists(t->vp_enter_args.r11))
		return TDVMCALL_CELLS - 1;
	if (BPF_CORE_READ(t, vp_enter_args.r10))
		return TDVMCALL_KVM;
	leaf = BPF_CORE_READ(t, vp_enter_args.r11);
	if (leaf < 64)
		return leaf;
	if (leaf >= 0x10000 && leaf < 0x10008)
		return 64 + (leaf - 0x10000);
	return TDVMCALL_CELLS - 1;
}

SEC("fentry/handle_tdvmcall")
int handle_tdvmcall(__u64 *args)
{
	MEASURED struct run run = ran(bpf_get_smp_processor_id(), 0, 1);

	return add_cell(TDVMCALL + tdvmcall_cell((void *)args[0]));
}

SEC("fentry/kvm_gmem_get_pfn")
int kvm_gmem_get_pfn(__u64 *args) { return count(PRIVATE); }

SEC("kprobe/kvm_gmem_get_pfn")
int kvm_gmem_get_pfn_kprobe(void *regs) { return count(PRIVATE); }

char LICENSE[] SEC("license") = "Dual BSD/GPL";
