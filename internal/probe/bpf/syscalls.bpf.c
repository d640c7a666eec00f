//go:build ignore
// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * System calls by process and number, on raw_syscalls:sys_enter, and at level
 * LATENCY how long they took by number, on raw_syscalls:sys_exit.
 */
#include "pairs.h"

enum {
	NR_COMPAT = 510,  /* any system call of a 32-bit program */
	NR_UNKNOWN = 511, /* a number outside all tables */
};

enum { ENTER, LEAVE, EVENTS };

const volatile __u8 level = 0;

/* The call that a thread is in. */
struct call {
	__u64 since;
	__u64 nr;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct call);
} calls SEC(".maps");

/* Histograms by number: the first seen get one each, the others share 0. */
enum { TIMED = 64, TIMES_STRIDE = TIMED * HIST_CELLS };

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, TIMES_STRIDE);
	__type(key, __u32);
	__type(value, __u64);
} times SEC(".maps");

/* The histogram of each number, and how many are in use. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, NUMBERS + 1);
	__type(key, __u32);
	__type(value, __u64);
} timed_numbers SEC(".maps");

static __always_inline __u32 histogram(__u32 nr)
{
	__u32 last = NUMBERS;
	__u64 *p = bpf_map_lookup_elem(&timed_numbers, &nr), *used, new, was;

	if (!p)
		return 0;
	if (*p)
		return *p;
	used = bpf_map_lookup_elem(&timed_numbers, &last);
	if (!used || *used + 1 >= TIMED)
		return 0;
	new = __sync_fetch_and_add(used, 1) + 1;
	if (new >= TIMED)
		return 0;
	was = __sync_val_compare_and_swap(p, 0, new);
	return was ? was : new;
}

static __always_inline int enter(__u64 nr)
{
	struct task_struct *task = bpf_get_current_task_btf(), *leader = task->group_leader;
	__u32 cpu = bpf_get_smp_processor_id(), slot, own;
	MEASURED struct run run = ran(cpu, ENTER, EVENTS);
	struct call *c;

	if (outside(leader, SYSCALLS, &own))
		return 0;
	slot = process_slot(leader, 0, cpu);
	if (compat(task))
		nr = NR_COMPAT;
	else if (nr >= NR_COMPAT)
		nr = NR_UNKNOWN;
	count(slot, nr, cpu, 1);
	if (own)
		count(own, nr, cpu, 1);
	if (level && timed(slot)) {
		c = bpf_task_storage_get(&calls, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
		if (c) {
			c->nr = nr;
			c->since = bpf_ktime_get_ns();
		}
	}
	return 0;
}

static __always_inline int leave(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 cpu = bpf_get_smp_processor_id();
	MEASURED struct run run = ran(cpu, LEAVE, EVENTS);
	volatile struct control *control = controls();
	struct call *c;

	c = bpf_task_storage_get(&calls, task, 0, 0);
	if (!c || !control || c->since <= control->since)
		return 0;
	hist(&times, TIMES_STRIDE, cpu, histogram(c->nr) * HIST_CELLS, bpf_ktime_get_ns() - c->since);
	c->since = 0;
	return 0;
}

SEC("tp_btf/sys_enter")
int sys_enter_btf(__u64 *args) { return enter(args[1]); }

SEC("raw_tp/sys_enter")
int sys_enter_raw(__u64 *args) { return enter(args[1]); }

/* The tracepoint's record; on PREEMPT_RT its header is longer. */
struct trace_event_raw_sys_enter {
	long id;
} KERNEL_TYPE;

SEC("tracepoint/raw_syscalls/sys_enter")
int sys_enter_classic(struct trace_event_raw_sys_enter *r) { return enter(r->id); }

SEC("tp_btf/sys_exit")
int sys_exit_btf(void *args) { return leave(); }

SEC("raw_tp/sys_exit")
int sys_exit_raw(void *args) { return leave(); }

SEC("tracepoint/raw_syscalls/sys_exit")
int sys_exit_classic(void *record) { return leave(); }

char LICENSE[] SEC("license") = "Dual BSD/GPL";
