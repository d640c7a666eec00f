//go:build ignore
// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * System calls by process and number, on raw_syscalls:sys_enter.
 *
 * A pair of process and number gets a dense index when first seen, so that the
 * counters are as small as what happens rather than as what could. Cell s, below
 * PROCESSES, is "other" of the process in slot s: what it calls when all pairs
 * are taken.
 */
#include "process.h"

enum {
	NUMBERS = 512,
	NR_COMPAT = 510,  /* a 32-bit call, whose numbers mean something else */
	NR_UNKNOWN = 511, /* a number that no table has */
	PAIRS = 8192,
	TS_COMPAT = 2, /* arch/x86/include/asm/thread_info.h */
};

const volatile __u32 max_pairs = PAIRS;

COUNTS(PAIRS);

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PROCESSES * NUMBERS);
	__type(key, __u32);
	__type(value, __u16);
} pairs SEC(".maps");

/* keys[pair] is slot * NUMBERS + number + 1, for user space. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, PAIRS);
	__type(key, __u32);
	__type(value, __u64);
} keys SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} pairs_used SEC(".maps");

/*
 * Two CPUs that see a pair first at once both take an index; the reader adds
 * what has the same key.
 */
static __noinline __u32 new_pair(__u32 key, __u32 slot)
{
	__u32 zero = 0, pair, *used = bpf_map_lookup_elem(&pairs_used, &zero);
	__u64 *k;
	__u16 *p;

	if (!used || PROCESSES + *used >= max_pairs)
		return slot;
	pair = PROCESSES + __sync_fetch_and_add(used, 1);
	if (pair >= max_pairs)
		return slot;
	k = bpf_map_lookup_elem(&keys, &pair);
	p = bpf_map_lookup_elem(&pairs, &key);
	if (!k || !p)
		return slot;
	*k = key + 1;
	*p = pair;
	return pair;
}

static __always_inline int count(__u64 nr)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 cpu = bpf_get_smp_processor_id();
	__u32 slot = process_slot(task->group_leader, 0, cpu), key, pair;
	__u16 *p;

	if (bpf_core_field_exists(task->thread_info.status) && task->thread_info.status & TS_COMPAT)
		nr = NR_COMPAT;
	else if (nr >= NR_COMPAT)
		nr = NR_UNKNOWN;
	key = slot * NUMBERS + nr;
	p = bpf_map_lookup_elem(&pairs, &key);
	if (!p)
		return 0;
	pair = *p;
	if (!pair)
		pair = new_pair(key, slot);
	add(&counts, PAIRS, cpu, pair, 1);
	return 0;
}

SEC("tp_btf/sys_enter")
int sys_enter_btf(__u64 *args) { return count(args[1]); }

SEC("raw_tp/sys_enter")
int sys_enter_raw(__u64 *args) { return count(args[1]); }

/* The record's layout: events/raw_syscalls/sys_enter/format, the same since it exists. */
struct sys_enter_record {
	__u64 common;
	__s64 id;
};

SEC("tracepoint/raw_syscalls/sys_enter")
int sys_enter_classic(struct sys_enter_record *r) { return count(r->id); }

char LICENSE[] SEC("license") = "Dual BSD/GPL";
