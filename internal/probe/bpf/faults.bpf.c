//go:build ignore
// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Page faults by process, space and cause, on exceptions:page_fault_user and
 * page_fault_kernel. The cause is read from the error code that the processor
 * pushed (Intel SDM volume 3, "Page-Fault Exceptions"; x86 only).
 */
#include "process.h"

enum {
	/* arch/x86/include/asm/trap_pf.h */
	PRESENT = 1 << 0,
	WRITE = 1 << 1,
	USER = 1 << 2,
	INSTRUCTION = 1 << 4,
};

enum cause {
	NO_PAGE_FOUND,
	WRITE_NO_PAGE,
	INSTRUCTION_FETCH,
	WRITE_PROTECTION,
	PROTECTION,
	OTHER_CAUSE,
	CAUSES,
};

enum { SPACES = 2, STRIDE = SLOTS * SPACES * CAUSES };

COUNTS(STRIDE);

static __always_inline enum cause cause_of(__u64 code)
{
	/* A reserved bit, a protection key, a shadow stack, SGX, SNP: not only about presence or access. */
	if (code & ~(PRESENT | WRITE | USER | INSTRUCTION))
		return OTHER_CAUSE;
	if (code & PRESENT)
		return code & WRITE ? WRITE_PROTECTION : PROTECTION;
	if (code & INSTRUCTION)
		return INSTRUCTION_FETCH;
	return code & WRITE ? WRITE_NO_PAGE : NO_PAGE_FOUND;
}

static __always_inline int count(__u32 space, __u64 code)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 cpu = bpf_get_smp_processor_id(), cause = cause_of(code), slot, own;
	/* Each program has cells and a half of the cache of its own: a fault in the kernel may interrupt the other program. */
	MEASURED struct run run = ran(cpu, space, SPACES);

	if (outside(task->group_leader, FAULTS, &own))
		return 0;
	slot = process_slot(task->group_leader, !!(task->flags & PF_KTHREAD), cpu * SPACES + space);
	add(&counts, STRIDE, cpu, (slot * SPACES + space) * CAUSES + cause, 1);
	if (own)
		add(&counts, STRIDE, cpu, (own * SPACES + space) * CAUSES + cause, 1);
	return 0;
}

SEC("tp_btf/page_fault_user")
int page_fault_user_btf(__u64 *args) { return count(0, args[2]); }

SEC("tp_btf/page_fault_kernel")
int page_fault_kernel_btf(__u64 *args) { return count(1, args[2]); }

SEC("raw_tp/page_fault_user")
int page_fault_user_raw(__u64 *args) { return count(0, args[2]); }

SEC("raw_tp/page_fault_kernel")
int page_fault_kernel_raw(__u64 *args) { return count(1, args[2]); }

/* The tracepoints' record, by its name in Linux 6.16 and in 6.12. */
struct trace_event_raw_exceptions {
	unsigned long error_code;
} KERNEL_TYPE;

struct trace_event_raw_x86_exceptions {
	unsigned long error_code;
} KERNEL_TYPE;

static __always_inline int count_record(int kernel, void *record)
{
	struct trace_event_raw_exceptions *r = record;
	struct trace_event_raw_x86_exceptions *older = record;

	if (bpf_core_type_exists(struct trace_event_raw_exceptions))
		return count(kernel, r->error_code);
	return count(kernel, older->error_code);
}

SEC("tracepoint/exceptions/page_fault_user")
int page_fault_user_classic(void *record) { return count_record(0, record); }

SEC("tracepoint/exceptions/page_fault_kernel")
int page_fault_kernel_classic(void *record) { return count_record(1, record); }

char LICENSE[] SEC("license") = "Dual BSD/GPL";
