//go:build ignore
// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Context switches by process and kind, and CPU time by process, on
 * sched:sched_switch.
 *
 * No clock is read and no field of the tracepoint is needed: the scheduler has
 * just updated the leaving task's own counters (kernel/sched/core.c), and what
 * they were when it was switched in is remembered per CPU. The switch is
 * voluntary exactly if the kernel counted it so.
 */
#include "process.h"

enum {
	VOLUNTARY,
	INVOLUNTARY,
	CPU_NS,
	/* Of slot OTHER: switches away from the idle task, which is no process. */
	IDLE,
	KINDS,
	STRIDE = PROCESSES * KINDS,
};

COUNTS(STRIDE);

/* What the task that runs on a CPU looked like when it was switched in. */
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

static __always_inline int leave(struct task_struct *prev, __u32 cpu, struct running *was)
{
	__u64 total = prev->se.sum_exec_runtime, ns = prev->se.prev_sum_exec_runtime;
	__u32 slot, kind;

	if (!prev->pid) {
		add(&counts, STRIDE, cpu, OTHER * KINDS + IDLE, 1);
		return 0;
	}
	slot = process_slot(prev->group_leader, !!(prev->flags & PF_KTHREAD), cpu);
	/* Loaded by now: the verifier takes no load from either of two pointers. */
	barrier_var(ns);
	if (was->pid == prev->pid) {
		kind = was->nvcsw != prev->nvcsw ? VOLUNTARY : INVOLUNTARY;
		ns = was->ns;
	} else {
		/*
		 * Its switch to this CPU was not seen: the first one here, or one away
		 * from a task that this kernel hides. The fair scheduler remembers the
		 * same, but forgets it when a running task's parameters change.
		 */
		kind = prev->__state ? VOLUNTARY : INVOLUNTARY;
		if (!was->seen)
			ns = total;
	}
	add(&counts, STRIDE, cpu, slot * KINDS + CPU_NS, total - ns);
	add(&counts, STRIDE, cpu, slot * KINDS + kind, 1);
	return 0;
}

SEC("tp_btf/sched_switch")
int sched_switch_btf(__u64 *args)
{
	struct task_struct *prev = (void *)args[1], *next = (void *)args[2];
	__u32 cpu = bpf_get_smp_processor_id();
	struct running *r = bpf_map_lookup_elem(&running, &cpu);

	if (!r)
		return 0;
	leave(prev, cpu, r);
	r->seen = 1;
	r->pid = next->pid;
	r->nvcsw = next->nvcsw;
	r->ns = next->se.sum_exec_runtime;
	return 0;
}

SEC("raw_tp/sched_switch")
int sched_switch_raw(__u64 *args)
{
	struct task_struct *next = (void *)args[2];
	__u32 cpu = bpf_get_smp_processor_id();
	struct running *r = bpf_map_lookup_elem(&running, &cpu);

	if (!r)
		return 0;
	leave(bpf_get_current_task_btf(), cpu, r);
	r->seen = 1;
	r->pid = BPF_CORE_READ(next, pid);
	r->nvcsw = BPF_CORE_READ(next, nvcsw);
	r->ns = BPF_CORE_READ(next, se.sum_exec_runtime);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
