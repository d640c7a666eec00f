//go:build ignore
// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What threads wait for: a walk over all threads (iter/task) that writes a
 * record for each one. User space reads the walk at random moments and adds the
 * records up. Kernel threads are left out, and so is the process that walks: its
 * runtime wakes threads for the walk, so the moments are not random for them.
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
	/* arch/x86/entry/syscalls/syscall_64.tbl */
	NR_READ = 0,
	NR_WRITE = 1,
	NR_PREAD64 = 17,
	NR_PWRITE64 = 18,
	NR_READV = 19,
	NR_WRITEV = 20,
	NR_FSYNC = 74,
	NR_FDATASYNC = 75,
	NR_FUTEX = 202,
	NR_SYNC_FILE_RANGE = 277,
	NR_PREADV = 295,
	NR_PWRITEV = 296,
	NR_SYNCFS = 306,
	NR_PREADV2 = 327,
	NR_PWRITEV2 = 328,

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

/*
 * WALKER is a thread of the process that walks which has a CPU, KERNEL_THREAD
 * one of the kernel on a run queue. User space needs them to tell who would have
 * the CPUs without the walk.
 */
enum state { ON_RUN_QUEUE, DISK, LOCK, SLEEP, RUNNING, WALKER, KERNEL_THREAD };

struct record {
	char process[COMM];
	int nr; /* of the system call, or -1 */
	__u32 state;
	/*
	 * What a thread in LOCK or DISK waits for, where that is known: the address
	 * of the futex in the process, or the inode of the file on the device.
	 * Of a thread on a run queue and of a WALKER: when it was queued, or arrived
	 * at its CPU, by the clock of that run queue.
	 */
	__u64 object;
	__u32 device; /* or the CPU */
	/* Unless in SLEEP: the process, and its control group (cgroup v2). */
	__u32 tgid;
	__u64 group;
};

struct thread_info___waits {
	unsigned int status;
	unsigned int cpu;
} KERNEL_TYPE;

struct sched_info {
	__u64 last_arrival, last_queued; /* by the clock of its run queue */
} KERNEL_TYPE;

struct super_block {
	__u32 s_dev;
} KERNEL_TYPE;

struct inode {
	struct super_block *i_sb;
	unsigned long i_ino;
} KERNEL_TYPE;

struct file {
	struct inode *f_inode;
} KERNEL_TYPE;

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
} KERNEL_TYPE;

struct files_struct {
	struct fdtable *fdt;
} KERNEL_TYPE;

struct kernfs_node {
	__u64 id;
} KERNEL_TYPE;

struct cgroup {
	struct kernfs_node *kn;
} KERNEL_TYPE;

struct css_set {
	struct cgroup *dfl_cgrp;
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
	struct files_struct *files;
	struct css_set *cgroups; /* with CONFIG_CGROUPS */
	__u32 tgid;
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

/* Whether the first argument of a system call is the file that it waits for. */
static __always_inline int for_file(int nr)
{
	switch (nr) {
	case NR_READ:
	case NR_WRITE:
	case NR_PREAD64:
	case NR_PWRITE64:
	case NR_READV:
	case NR_WRITEV:
	case NR_FSYNC:
	case NR_FDATASYNC:
	case NR_SYNC_FILE_RANGE:
	case NR_PREADV:
	case NR_PWRITEV:
	case NR_SYNCFS:
	case NR_PREADV2:
	case NR_PWRITEV2:
		return 1;
	}
	return 0;
}

/* The file of a descriptor. It may be closed during the look; reads of freed memory give another number or none. */
static __always_inline void find_file(struct record *r, struct task_struct___waits *task, __u32 descriptor)
{
	struct fdtable *table = BPF_CORE_READ(task, files, fdt);
	struct file **files, *file = 0;
	struct inode *inode;

	if (!table || descriptor >= BPF_CORE_READ(table, max_fds))
		return;
	files = BPF_CORE_READ(table, fd);
	if (bpf_probe_read_kernel(&file, sizeof(file), files + descriptor) || !file)
		return;
	inode = BPF_CORE_READ(file, f_inode);
	r->object = BPF_CORE_READ(inode, i_ino);
	r->device = BPF_CORE_READ(inode, i_sb, s_dev);
}

static __always_inline __u32 cpu_of(struct task_struct___waits *task)
{
	if (bpf_core_field_exists(task->thread_info.cpu))
		return task->thread_info.cpu;
	return bpf_core_field_exists(task->cpu) ? task->cpu : ~0u;
}

/* Writes a record without a process: that a CPU is used by the walk, or a kernel thread waits for one. */
static __always_inline void write_place(struct seq_file *seq, struct task_struct___waits *task, enum state state)
{
	struct record r = { .nr = -1, .state = state, .device = cpu_of(task) };

	if (bpf_core_field_exists(task->sched_info.last_queued))
		r.object = state == WALKER ? task->sched_info.last_arrival : task->sched_info.last_queued;
	bpf_seq_write(seq, &r, sizeof(r));
}

static __always_inline int walk(struct bpf_iter__task *ctx, int files)
{
	struct task_struct___waits *task = ctx->task;
	struct record r = {};
	struct pt_regs *regs;
	unsigned int state;
	int running = 0;

	if (!task) /* the end */
		return 0;
	state = task->__state;
	if (!state && !bpf_core_field_exists(task->on_cpu))
		return 0;
	running = !state && task->on_cpu;
	if (task->tgid == bpf_get_current_pid_tgid() >> 32) {
		/* It has the CPU until another one comes, also if it is about to sleep. */
		if (bpf_core_field_exists(task->on_cpu) && task->on_cpu)
			write_place(ctx->meta->seq, task, WALKER);
		return 0;
	}
	if (task->exit_state)
		return 0;
	if (task->flags & PF_KTHREAD) {
		if (!state && !running)
			write_place(ctx->meta->seq, task, KERNEL_THREAD);
		return 0;
	}
	if (state && !(state & TASK_ASLEEP))
		return 0; /* stopped, traced, dying */
	regs = (void *)bpf_task_pt_regs((void *)task);
	r.nr = regs->orig_ax;
	if (r.nr >= 0 && bpf_core_field_exists(task->thread_info.status) && task->thread_info.status & TS_COMPAT)
		r.nr = NR_COMPAT;
	if (running)
		r.state = RUNNING;
	else if (!state)
		r.state = ON_RUN_QUEUE;
	else if (state & TASK_UNINTERRUPTIBLE)
		r.state = state & TASK_NOLOAD ? SLEEP : DISK;
	else
		r.state = r.nr == NR_FUTEX && for_lock(regs) ? LOCK : SLEEP;
	if (r.state != SLEEP) {
		r.tgid = task->tgid;
		if (bpf_core_field_exists(task->cgroups))
			r.group = task->cgroups->dfl_cgrp->kn->id;
	}
	if (r.state == LOCK) {
		r.object = regs->di;
	} else if (r.state == ON_RUN_QUEUE) {
		r.device = cpu_of(task);
		if (bpf_core_field_exists(task->sched_info.last_queued))
			r.object = task->sched_info.last_queued;
	} else if (files && r.state == DISK && for_file(r.nr)) {
		find_file(&r, task, regs->di);
	}
	*(__u64 *)&r.process[0] = *(__u64 *)&task->group_leader->comm[0];
	*(__u64 *)&r.process[8] = *(__u64 *)&task->group_leader->comm[8];
	bpf_seq_write(ctx->meta->seq, &r, sizeof(r));
	return 0;
}

SEC("iter/task")
int waits(struct bpf_iter__task *ctx) { return walk(ctx, 1); }

/* Without the files, which may not be found where the kernel is locked down. */
SEC("iter/task")
int waits_plain(struct bpf_iter__task *ctx) { return walk(ctx, 0); }

char LICENSE[] SEC("license") = "Dual BSD/GPL";
