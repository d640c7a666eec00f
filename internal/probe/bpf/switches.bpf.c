//go:build ignore
// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Context switches by process and kind, and CPU time by process, on
 * sched:sched_switch; at level LATENCY also how long threads that could run
 * waited for a CPU, from sched_wakeup, sched_wakeup_new or being preempted until
 * they are switched in.
 *
 * To count, no clock is read and no field of the tracepoint is needed: the
 * scheduler has just updated the leaving task's own counters
 * (kernel/sched/core.c), and what they were when it was switched in is
 * remembered per CPU. The switch is voluntary exactly if the kernel counted it so.
 */
#include "process.h"

enum {
	VOLUNTARY,
	INVOLUNTARY,
	CPU_NS,
	KINDS,
	RUNS = SLOTS * KINDS,
	STRIDE = RUNS + 8,
};

const volatile __u8 level = 0;

COUNTS(STRIDE);

/* A CPU's current task, as it was when switched in. */
struct running {
	__u64 seen;
	__u64 pid;
	__u64 nvcsw;
	__u64 ns;
	__u64 pad[4];
};

/* The loader sets max_entries to the number of CPUs. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct running);
} running SEC(".maps");

enum { WAKEUPS = HIST_CELLS, TIMES_STRIDE = WAKEUPS + 5 };

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, TIMES_STRIDE);
	__type(key, __u32);
	__type(value, __u64);
} times SEC(".maps");

/* When a waiting thread became runnable. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, __u64);
} ready SEC(".maps");

static __always_inline void waits(struct task_struct *task)
{
	__u64 *at = bpf_task_storage_get(&ready, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (at)
		*at = bpf_ktime_get_ns();
}

static __always_inline void runs(struct task_struct *task, __u32 cpu)
{
	volatile struct control *control = controls();
	__u64 *at;

	if (!task->pid)
		return; /* the idle task never waits */
	at = bpf_task_storage_get(&ready, task, 0, 0);
	if (!at || !control || *at <= control->since)
		return;
	hist(&times, TIMES_STRIDE, cpu, 0, bpf_ktime_get_ns() - *at);
	*at = 0;
}

struct task_struct___prio {
	int prio;
} KERNEL_TYPE;

/*
 * Only the fair scheduler remembers what a task had run when it was switched in
 * (set_next_entity() in kernel/sched/fair.c): it has the priorities from
 * MAX_RT_PRIO on (include/linux/sched/prio.h).
 */
static __always_inline int remembers(struct task_struct *task)
{
	return ((struct task_struct___prio *)task)->prio >= 100;
}

/* count adds prev's turn; it returns whether prev is runnable and timed. */
static __always_inline int count(struct task_struct *prev, __u32 cpu, struct running *was)
{
	__u64 total = prev->se.sum_exec_runtime, ns = prev->se.prev_sum_exec_runtime;
	__u32 slot, own, kind, waiting;

	add(&counts, STRIDE, cpu, RUNS, 1);
	if (!prev->pid || outside(prev->group_leader, SWITCHES, &own))
		return 0;
	slot = process_slot(prev->group_leader, !!(prev->flags & PF_KTHREAD), cpu);
	/* Loaded by now: the verifier takes no load from either of two pointers. */
	barrier_var(ns);
	waiting = !prev->__state;
	if (was->pid == prev->pid) {
		kind = was->nvcsw != prev->nvcsw ? VOLUNTARY : INVOLUNTARY;
		ns = was->ns;
	} else {
		/*
		 * Its switch to this CPU was not seen: the first one here, or one away
		 * from a task that this kernel hides. The fair scheduler remembers the
		 * same, but forgets it when a running task's parameters change. Of a
		 * task of another scheduler this turn's time is not known, and left out.
		 */
		kind = waiting ? INVOLUNTARY : VOLUNTARY;
		if (!was->seen || !remembers(prev))
			ns = total;
	}
	add(&counts, STRIDE, cpu, slot * KINDS + CPU_NS, total - ns);
	add(&counts, STRIDE, cpu, slot * KINDS + kind, 1);
	if (own) {
		add(&counts, STRIDE, cpu, own * KINDS + CPU_NS, total - ns);
		add(&counts, STRIDE, cpu, own * KINDS + kind, 1);
	}
	/* Preempted while going to sleep, it still waits for a CPU. */
	return level && (waiting || kind == INVOLUNTARY) && timed(slot);
}

SEC("tp_btf/sched_switch")
int sched_switch_btf(__u64 *args)
{
	struct task_struct *prev = (void *)args[1], *next = (void *)args[2];
	__u32 cpu = bpf_get_smp_processor_id();
	struct running *r = bpf_map_lookup_elem(&running, &cpu);

	if (!r)
		return 0;
	if (count(prev, cpu, r))
		waits(prev);
	if (level)
		runs(next, cpu);
	r->seen = 1;
	r->pid = next->pid;
	r->nvcsw = next->nvcsw;
	r->ns = next->se.sum_exec_runtime;
	return 0;
}

/* It gets numbers, not task pointers, so it cannot reach another's storage. */
SEC("raw_tp/sched_switch")
int sched_switch_raw(__u64 *args)
{
	struct task_struct *next = (void *)args[2];
	__u32 cpu = bpf_get_smp_processor_id();
	struct running *r = bpf_map_lookup_elem(&running, &cpu);

	if (!r)
		return 0;
	count(bpf_get_current_task_btf(), cpu, r);
	r->seen = 1;
	r->pid = BPF_CORE_READ(next, pid);
	r->nvcsw = BPF_CORE_READ(next, nvcsw);
	r->ns = BPF_CORE_READ(next, se.sum_exec_runtime);
	return 0;
}

static __always_inline int wakeup(struct task_struct *task)
{
	__u32 cpu = bpf_get_smp_processor_id(), own;

	add(&times, TIMES_STRIDE, cpu, WAKEUPS, 1);
	if (outside(task->group_leader, SWITCHES, &own))
		return 0;
	if (timed(process_slot(task->group_leader, !!(task->flags & PF_KTHREAD), cpu)))
		waits(task);
	return 0;
}

SEC("tp_btf/sched_wakeup")
int sched_wakeup_btf(__u64 *args) { return wakeup((void *)args[0]); }

SEC("tp_btf/sched_wakeup_new")
int sched_wakeup_new_btf(__u64 *args) { return wakeup((void *)args[0]); }

char LICENSE[] SEC("license") = "Dual BSD/GPL";
