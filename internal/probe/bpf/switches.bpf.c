//go:build ignore
// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Context switches by process and kind, CPU time by process, and calls that read and write.
 *
 * Nothing runs on a switch or a call: the kernel counts all of them for each thread
 * (kernel/sched/core.c and fair.c, fs/read_write.c). Before each reading user space has every
 * thread visited (an iterator, kernel/bpf/task_iter.c), and a thread that ends is
 * visited on sched_process_exit. A visit adds what the thread's counters have
 * gained since the last one, so nothing is lost or estimated.
 *
 * A visit also says which names have living processes, whatever the program is narrowed to:
 * a finding about a process ends with it.
 */
#include "process.h"

enum {
	VOLUNTARY,
	INVOLUNTARY,
	CPU_NS,
	READS,
	WRITES,
	COUNTED,
	/* Start (CLOCK_BOOTTIME) of the oldest living process, 0 without one; user space clears it before a visit. */
	OLDEST = COUNTED,
	/* Start of the youngest process that has ended. */
	YOUNGEST_ENDED,
	KINDS,
	STRIDE = SLOTS * KINDS,
};

/* Events: of a thread that ends. Visits are time of the process that reads. */
enum { EXIT, FREE, EVENTS };

/* The caches of names: a thread may end in the middle of a visit. */
enum { VISITING, ENDING, USERS };

/* When the program was opened, CLOCK_BOOTTIME: a thread that is older has its counters until then subtracted. */
const volatile __u64 opened = 0;

COUNTS(STRIDE);

struct thread {
	__u64 seen[COUNTED]; /* at the last visit */
	__u32 slot, own;   /* of its process, since it began to end; one more than the slot, or 0 */
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread);
} threads SEC(".maps");

/* Its fields are present with CONFIG_TASK_XACCT. */
struct task_io_accounting {
	__u64 syscr;
	__u64 syscw;
} KERNEL_TYPE;

struct task_struct___io {
	struct task_io_accounting ioac;
} KERNEL_TYPE;

/* The number of threads of a process that have not ended. */
typedef struct {
	int counter;
} atomic_t;

struct signal_struct {
	atomic_t live;
} KERNEL_TYPE;

struct task_struct___group {
	struct signal_struct *signal;
} KERNEL_TYPE;

static __always_inline int lives(struct task_struct *leader)
{
	struct task_struct___group *t = (void *)leader;

	return t->signal->live.counter > 0;
}

static __always_inline __u64 reads(struct task_struct *task)
{
	struct task_struct___io *t = (void *)task;

	return bpf_core_field_exists(t->ioac.syscr) ? t->ioac.syscr : 0;
}

static __always_inline __u64 writes(struct task_struct *task)
{
	struct task_struct___io *t = (void *)task;

	return bpf_core_field_exists(t->ioac.syscw) ? t->ioac.syscw : 0;
}

static __always_inline struct thread *thread(struct task_struct *task)
{
	struct thread *t = bpf_task_storage_get(&threads, task, 0, 0), first = {};

	if (t)
		return t;
	if (task->start_boottime < opened) {
		first.seen[VOLUNTARY] = task->nvcsw;
		first.seen[INVOLUNTARY] = task->nivcsw;
		first.seen[CPU_NS] = task->se.sum_exec_runtime;
		first.seen[READS] = reads(task);
		first.seen[WRITES] = writes(task);
	}
	return bpf_task_storage_get(&threads, task, &first, BPF_LOCAL_STORAGE_GET_F_CREATE);
}

/* gain adds what a counter gained. Of visits at the same time each adds what the ones before it did not see. */
static __always_inline void gain(struct thread *t, __u32 kind, __u64 now, int counted, __u32 slot, __u32 own)
{
	__u64 was = t->seen[kind];

	for (int tries = 0; now > was && tries < 4; tries++) {
		__u64 found = __sync_val_compare_and_swap(&t->seen[kind], was, now);

		if (found == was) {
			if (counted)
				add(&counts, STRIDE, 0, slot * KINDS + kind, now - was);
			if (counted && own)
				add(&counts, STRIDE, 0, own * KINDS + kind, now - was);
			return;
		}
		was = found;
	}
}

static __always_inline void gains(struct thread *t, struct task_struct *task, __u32 last, int counted, __u32 slot, __u32 own)
{
	gain(t, VOLUNTARY, task->nvcsw + last, counted, slot, own);
	gain(t, INVOLUNTARY, task->nivcsw, counted, slot, own);
	gain(t, CPU_NS, task->se.sum_exec_runtime, counted, slot, own);
	gain(t, READS, reads(task), counted, slot, own);
	gain(t, WRITES, writes(task), counted, slot, own);
}

/* idle reports whether task did nothing since the last visit: then its name gets no slot. */
static __always_inline int idle(struct thread *t, struct task_struct *task)
{
	return t->seen[VOLUNTARY] == task->nvcsw && t->seen[INVOLUNTARY] == task->nivcsw && t->seen[CPU_NS] == task->se.sum_exec_runtime;
}

static __always_inline __u32 slot_of(struct task_struct *task, __u32 user)
{
	return process_slot(task->group_leader, !!(task->flags & PF_KTHREAD), bpf_get_smp_processor_id() * USERS + user);
}

/* named_slot is the slot that a name has, OTHER for none: to be alive is no reason to get one. */
static __always_inline __u32 named_slot(struct task_struct *leader)
{
	union name name, key;
	__u32 *p;

	name.word[0] = *(__u64 *)&leader->comm[0];
	name.word[1] = *(__u64 *)&leader->comm[8];
	tidy(&key, &name, !!(leader->flags & PF_KTHREAD));
	p = bpf_map_lookup_elem(&slots, &key);
	return p ? *p : OTHER;
}

/* started is a cell with a start; one visit at a time writes OLDEST, and ends of processes race for YOUNGEST_ENDED by a hair. */
static __always_inline __u64 *started(__u32 slot, __u32 kind)
{
	__u32 i = slot * KINDS + kind;

	return bpf_map_lookup_elem(&counts, &i);
}

/* record_life says that the process that leader leads lives. */
static __always_inline void record_life(struct task_struct *leader)
{
	__u32 slot = named_slot(leader);
	__u64 *oldest, start = leader->start_boottime;

	if (slot == OTHER)
		return;
	oldest = started(slot, OLDEST);
	if (oldest && (!*oldest || start < *oldest))
		*oldest = start;
}

SEC("iter/task")
int visit(__u64 *args)
{
	struct task_struct *task = (void *)args[1];
	__u32 slot = OTHER, own;
	struct thread *t;
	int counted;

	if (!task)
		return 0; /* the last one has been visited */
	t = thread(task);
	if (t && !t->slot && !idle(t, task)) {
		counted = !outside(task->group_leader, SWITCHES, &own);
		if (counted)
			slot = slot_of(task, VISITING);
		gains(t, task, 0, counted, slot, own);
	}
	if (task->pid == task->tgid && lives(task))
		record_life(task);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int exit_btf(__u64 *args)
{
	MEASURED struct run run = ran(bpf_get_smp_processor_id(), EXIT, EVENTS);
	struct task_struct *task = (void *)args[0];
	struct thread *t = thread(task);
	__u32 slot = OTHER, own;
	int counted;

	if (!t)
		return 0;
	counted = !outside(task->group_leader, SWITCHES, &own);
	if (counted)
		slot = slot_of(task, ENDING);
	/* One more switch follows, the last (do_task_dead() in kernel/sched/core.c). */
	gains(t, task, 1, counted, slot, own);
	if (counted) {
		__u64 *ended = started(slot, YOUNGEST_ENDED);

		if (ended && *ended < task->group_leader->start_boottime)
			*ended = task->group_leader->start_boottime;
		t->own = own;
		t->slot = 1 + slot;
	}
	return 0;
}

/* Between its end and this a thread frees its memory. Its leader may be gone by now. */
SEC("tp_btf/sched_process_free")
int free_btf(__u64 *args)
{
	MEASURED struct run run = ran(bpf_get_smp_processor_id(), FREE, EVENTS);
	struct task_struct *task = (void *)args[0];
	struct thread *t = bpf_task_storage_get(&threads, task, 0, 0);

	if (t && t->slot)
		gains(t, task, 0, 1, t->slot - 1, t->own);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
