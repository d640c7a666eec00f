//go:build ignore
// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Maintains the table of members while sources are narrowed to control groups:
 * a member's children become members, and ended processes are removed, on
 * sched:sched_process_fork and sched_process_free. The latter comes after the
 * last switch away from the process, which still counts.
 */
#include "members.h"
#include "runs.h"

enum { FORK, FREE, EVENTS };
enum { FULL, STRIDE = 8 };

COUNTS(STRIDE);

SEC("tp_btf/sched_process_fork")
int fork_btf(__u64 *args)
{
	struct task_struct *parent = (void *)args[0], *child = (void *)args[1];
	__u32 cpu = bpf_get_smp_processor_id(), tgid = child->pid;
	MEASURED struct run run = ran(cpu, FORK, EVENTS);
	struct member *m, born = {};

	if (child->tgid != child->pid)
		return 0; /* a thread */
	m = find_member(parent->group_leader);
	if (!m || !m->children)
		return 0;
	born.start = child->start_boottime / TICK;
	born.sources = born.children = m->children;
	if (bpf_map_update_elem(&members, &tgid, &born, 0))
		add(&counts, STRIDE, cpu, FULL, 1);
	return 0;
}

SEC("tp_btf/sched_process_free")
int free_btf(__u64 *args)
{
	struct task_struct *task = (void *)args[0];
	__u32 tgid = task->pid;
	MEASURED struct run run = ran(bpf_get_smp_processor_id(), FREE, EVENTS);

	if (task->tgid == task->pid && find_member(task))
		bpf_map_delete_elem(&members, &tgid);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
