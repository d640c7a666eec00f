/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Counters of pairs of a process and a number below NUMBERS, such as that of a
 * system call.
 *
 * A pair gets a dense index when first seen, so the size of the counters
 * depends on what happens, not on what could. Cell s, below SLOTS, is "other"
 * of the process in slot s: its events when all pairs are taken.
 */
#pragma once

#include "process.h"

enum {
	NUMBERS = 512,
	PAIRS = 8184,
	OWN = PAIRS, /* cells from here on belong to the object */
	STRIDE = PAIRS + 8,
	TS_COMPAT = 2, /* arch/x86/include/asm/thread_info.h: a 32-bit call, whose numbers mean something else */
};

const volatile __u32 max_pairs = PAIRS;

COUNTS(STRIDE);

struct numbers {
	__u16 pair[NUMBERS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, SLOTS);
	__type(key, __u32);
	__type(value, struct numbers);
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

/* Pairs whose slot was reclaimed. */
struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, PAIRS);
	__type(value, __u32);
} pairs_free SEC(".maps");

/*
 * Two CPUs that see a new pair at once both take an index; the reader adds
 * equal keys up.
 */
static __noinline __u32 new_pair(__u32 slot, __u32 nr)
{
	__u32 zero = 0, pair = 0, *used = bpf_map_lookup_elem(&pairs_used, &zero);
	struct numbers *n = bpf_map_lookup_elem(&pairs, &slot);
	__u64 *key;

	if (!used || !n)
		return slot;
	if (SLOTS + *used < max_pairs)
		pair = SLOTS + __sync_fetch_and_add(used, 1);
	if ((!pair || pair >= max_pairs) && bpf_map_pop_elem(&pairs_free, &pair))
		return slot;
	key = bpf_map_lookup_elem(&keys, &pair);
	if (!key)
		return slot;
	*key = slot * NUMBERS + nr + 1;
	n->pair[nr & (NUMBERS - 1)] = pair;
	return pair;
}

static __always_inline void count(__u32 slot, __u32 nr, __u32 cpu, __u64 events)
{
	struct numbers *n = bpf_map_lookup_elem(&pairs, &slot);
	__u32 pair;

	if (!n)
		return;
	pair = n->pair[nr & (NUMBERS - 1)];
	if (!pair)
		pair = new_pair(slot, nr);
	add(&counts, STRIDE, cpu, pair, events);
}

/* compat reports whether task is in a 32-bit program's system call. */
static __always_inline int compat(struct task_struct *task)
{
	return bpf_core_field_exists(task->thread_info.status) && task->thread_info.status & TS_COMPAT;
}
