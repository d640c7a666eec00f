//go:build ignore
// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * TLS handshakes by process, on entry to and return from OpenSSL's
 * SSL_do_handshake. A handshake that is re-entered because it would have
 * blocked counts when it succeeds.
 */
#include "process.h"
#include "handshakes.h"

enum {
	STRIDE = PROCESSES,
	SELF = 1, /* cookie of the self-test */
};

COUNTS(STRIDE);

/* arch/x86/include/uapi/asm/ptrace.h */
struct pt_regs {
	unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di;
	unsigned long orig_ax, ip, cs, flags, sp, ss;
};

/* Another thread may run this program on this CPU before it has finished. */
static __always_inline void bump(__u32 cell)
{
	__u32 i = (bpf_get_smp_processor_id() & bank_mask) * STRIDE + cell;
	__u64 *c = bpf_map_lookup_elem(&counts, &i);

	if (c)
		__sync_fetch_and_add(c, 1);
}

static __always_inline int begin(struct pt_regs *regs)
{
	MEASURED struct run run = ran_by_turns(bpf_get_smp_processor_id());
	struct handshake *h = bpf_task_storage_get(&handshakes, bpf_get_current_task_btf(), 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

	/* A frame that the stack has grown back over ended without a return. */
	if (h && regs->sp >= h->sp && bpf_get_attach_cookie(regs) != SELF) {
		h->sp = regs->sp;
		h->at = bpf_ktime_get_ns();
	}
	return 0;
}

static __always_inline int end(struct pt_regs *regs)
{
	MEASURED struct run run = ran_by_turns(bpf_get_smp_processor_id());
	struct task_struct *task = bpf_get_current_task_btf(), *leader = task->group_leader;
	struct handshake *h = bpf_task_storage_get(&handshakes, task, 0, 0);
	union name name;

	if (h && regs->sp > h->sp)
		h->sp = 0;
	if ((int)regs->ax != 1)
		return 0;
	name.word[0] = *(__u64 *)&leader->comm[0];
	name.word[1] = *(__u64 *)&leader->comm[8];
	bump(find_slot(&name, 0));
	return 0;
}

SEC("uprobe.multi")
int begin_multi(struct pt_regs *regs) { return begin(regs); }

SEC("uretprobe.multi")
int end_multi(struct pt_regs *regs) { return end(regs); }

SEC("uprobe")
int begin_single(struct pt_regs *regs) { return begin(regs); }

SEC("uretprobe")
int end_single(struct pt_regs *regs) { return end(regs); }

char LICENSE[] SEC("license") = "Dual BSD/GPL";
