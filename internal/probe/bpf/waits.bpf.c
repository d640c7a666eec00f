//go:build ignore
// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What threads wait for: a walk over all threads (iter/task) that writes a
 * record for each one not on a CPU. User space reads the walk at random moments
 * and adds the records up. Kernel threads are left out.
 *
 * The system call that a thread sleeps in, and its arguments, are in the frame
 * at the bottom of its kernel stack.
 */
#include "common.h"

enum {
	/* include/linux/sched.h */
	TASK_INTERRUPTIBLE = 0x1,
	TASK_UNINTERRUPTIBLE = 0x2,
	TASK_WAKING = 0x200, /* woken, but on no run queue yet: another CPU must see it first */
	TASK_NOLOAD = 0x400,
	TASK_ASLEEP = TASK_INTERRUPTIBLE | TASK_UNINTERRUPTIBLE | TASK_WAKING,
	PF_KTHREAD = 0x00200000,
	TS_COMPAT = 2, /* arch/x86/include/asm/thread_info.h */

	NR_COMPAT = 510,
	NR_FUTEX = 202, /* arch/x86/entry/syscalls/syscall_64.tbl */

	/* include/uapi/linux/futex.h */
	FUTEX_WAIT = 0,
	FUTEX_LOCK_PI = 6,
	FUTEX_WAIT_BITSET = 9,
	FUTEX_LOCK_PI2 = 13,
	FUTEX_COMMANDS = 127, /* the others are flags */

	/* The word of a glibc (lowlevellock.h) or Rust mutex with waiters. */
	LOCKED_WITH_WAITERS = 2,
	/* musl's and glibc's robust ones have this bit, and below it the owner; in Go's runtime it is minus the threads that wait. */
	HAS_WAITERS = 1u << 31,
	/* musl's condition variables wait for a 2 as well, which is a variable of the function that waits. */
	FRAME = 1024,
};

/* DISPLACED takes one back that was ON_RUN_QUEUE. */
enum state { ON_RUN_QUEUE, DISK, LOCK, SLEEP, DISPLACED };

struct record {
	char process[COMM];
	int nr; /* of the system call, or -1 */
	__u32 state;
};

struct thread_info___waits {
	unsigned int status;
	unsigned int cpu;
} KERNEL_TYPE;

struct sched_info {
	__u64 last_arrival, last_queued; /* by the clock of its run queue */
} KERNEL_TYPE;

struct task_struct___waits {
	unsigned int __state;
	unsigned int flags;
	unsigned char on_cpu; /* the low byte of an int; since Linux 7.2 all there is */
	int exit_state;
	unsigned int cpu; /* until Linux 5.15 */
	struct thread_info___waits thread_info;
	struct sched_info sched_info;
	struct task_struct *group_leader;
} KERNEL_TYPE;

struct pt_regs {
	unsigned long orig_ax, di, si, dx, r10, sp;
} KERNEL_TYPE;

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
	__u64 seq_num;
} KERNEL_TYPE;

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct___waits *task;
} KERNEL_TYPE;

/* Whether a thread in futex(2) waits for a lock: no timeout, a lock's word. */
static __always_inline int for_lock(struct pt_regs *regs)
{
	__u32 op = regs->si & FUTEX_COMMANDS, value = regs->dx;

	if (op == FUTEX_LOCK_PI || op == FUTEX_LOCK_PI2)
		return 1;
	if ((op != FUTEX_WAIT && op != FUTEX_WAIT_BITSET) || regs->r10)
		return 0;
	if (value == LOCKED_WITH_WAITERS)
		return regs->di - regs->sp >= FRAME;
	return value > HAS_WAITERS;
}

/*
 * The walk has a CPU itself, which without it one of the threads on that run
 * queue would have: the one that it displaced, which was queued when the walk
 * arrived, or else the next. What makes a thread likely to be that one is its
 * rank.
 */
struct record displaced;
__u64 displaced_rank;

static __always_inline __u64 rank_of(struct task_struct___waits *task)
{
	struct task_struct___waits *walk = (void *)bpf_get_current_task_btf();
	__u32 cpu = bpf_core_field_exists(task->thread_info.cpu) ? task->thread_info.cpu : bpf_core_field_exists(task->cpu) ? task->cpu : ~0u;
	__u64 queued;

	if (cpu != bpf_get_smp_processor_id())
		return 0;
	if (!bpf_core_field_exists(task->sched_info.last_queued))
		return 1;
	queued = task->sched_info.last_queued;
	return queued <= walk->sched_info.last_arrival ? 1ull << 63 | queued : (1ull << 63) - queued;
}

SEC("iter/task")
int waits(struct bpf_iter__task *ctx)
{
	struct task_struct___waits *task = ctx->task;
	struct record r = {};
	struct pt_regs *regs;
	unsigned int state;
	__u64 rank = 0;

	if (!ctx->meta->seq_num)
		displaced_rank = 0;
	if (!task) { /* the end */
		if (displaced_rank && displaced.state == DISPLACED)
			bpf_seq_write(ctx->meta->seq, &displaced, sizeof(displaced));
		return 0;
	}
	state = task->__state;
	if (!state) {
		if (!bpf_core_field_exists(task->on_cpu) || task->on_cpu)
			return 0;
		rank = rank_of(task);
		if (rank > displaced_rank) {
			displaced_rank = rank;
			displaced.state = 0;
		} else {
			rank = 0;
		}
	}
	if (task->flags & PF_KTHREAD || task->exit_state)
		return 0;
	if (state && !(state & TASK_ASLEEP))
		return 0; /* stopped, traced, dying */
	regs = (void *)bpf_task_pt_regs((void *)task);
	r.nr = regs->orig_ax;
	if (r.nr >= 0 && bpf_core_field_exists(task->thread_info.status) && task->thread_info.status & TS_COMPAT)
		r.nr = NR_COMPAT;
	if (!state)
		r.state = ON_RUN_QUEUE;
	else if (state & TASK_UNINTERRUPTIBLE)
		r.state = state & TASK_NOLOAD ? SLEEP : DISK;
	else
		r.state = r.nr == NR_FUTEX && for_lock(regs) ? LOCK : SLEEP;
	*(__u64 *)&r.process[0] = *(__u64 *)&task->group_leader->comm[0];
	*(__u64 *)&r.process[8] = *(__u64 *)&task->group_leader->comm[8];
	bpf_seq_write(ctx->meta->seq, &r, sizeof(r));
	if (rank) {
		displaced = r;
		displaced.state = DISPLACED;
	}
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
