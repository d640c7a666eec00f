//go:build ignore
// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * How long threads that could run waited for a CPU: from sched_wakeup,
 * sched_wakeup_new or being preempted until sched_switch switches them in.
 */
#include "process.h"

enum { SWITCH, WAKEUP, EVENTS };
enum { STRIDE = HIST_CELLS + 5 };

COUNTS(STRIDE);

/* When a waiting thread became runnable. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, __u64);
} ready SEC(".maps");

static __always_inline int counted(struct task_struct *task, __u32 cpu)
{
	__u32 own;

	return task->pid && !outside(task->group_leader, RUN_QUEUE, &own) &&
	       timed(process_slot(task->group_leader, !!(task->flags & PF_KTHREAD), cpu));
}

static __always_inline void waits(struct task_struct *task)
{
	__u64 *at = bpf_task_storage_get(&ready, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (at)
		*at = bpf_ktime_get_ns();
}

static __always_inline void arrives(struct task_struct *task, __u32 cpu)
{
	volatile struct control *control = controls();
	__u64 *at;

	if (!task->pid)
		return; /* the idle task never waits */
	at = bpf_task_storage_get(&ready, task, 0, 0);
	if (!at || !control || *at <= control->since)
		return;
	hist(&counts, STRIDE, cpu, 0, bpf_ktime_get_ns() - *at);
	*at = 0;
}

SEC("tp_btf/sched_switch")
int sched_switch_btf(__u64 *args)
{
	struct task_struct *prev = (void *)args[1], *next = (void *)args[2];
	__u32 cpu = bpf_get_smp_processor_id();
	MEASURED struct run run = ran(cpu, SWITCH, EVENTS);

	/* Preempted while going to sleep, it still waits for a CPU. */
	if ((args[0] || !prev->__state) && counted(prev, cpu))
		waits(prev);
	arrives(next, cpu);
	return 0;
}

static __always_inline int wakeup(struct task_struct *task)
{
	__u32 cpu = bpf_get_smp_processor_id();
	MEASURED struct run run = ran(cpu, WAKEUP, EVENTS);

	if (counted(task, cpu))
		waits(task);
	return 0;
}

SEC("tp_btf/sched_wakeup")
int sched_wakeup_btf(__u64 *args) { return wakeup((void *)args[0]); }

SEC("tp_btf/sched_wakeup_new")
int sched_wakeup_new_btf(__u64 *args) { return wakeup((void *)args[0]); }

char LICENSE[] SEC("license") = "Dual BSD/GPL";
