/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The table of processes: a small number, the slot, for each name that a
 * thread-group leader has. Slots are given out once and never taken back, so
 * that nothing has to be cleaned up when a process ends and what it did stays
 * counted. When all slots are taken, new names share slot OTHER.
 *
 * The table is shared by all objects. In front of it each object has a small
 * cache per CPU, keyed by the name itself: a rename is seen at the next event,
 * and no process id can be mistaken for its predecessor's.
 */
#pragma once

#include "common.h"

enum {
	PROCESSES = 1024,
	OTHER = 0,
	CACHE_BITS = 6,
	CACHE_WAYS = 1 << CACHE_BITS,
	PF_KTHREAD = 0x00200000, /* include/linux/sched.h */
};

const volatile __u32 max_processes = PROCESSES;

union name {
	char text[COMM];
	__u64 word[2];
};

struct cached {
	union name name;
	__u64 slot;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PROCESSES);
	__type(key, union name);
	__type(value, __u32);
} slots SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, PROCESSES);
	__type(key, __u32);
	__type(value, union name);
} names SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} slots_used SEC(".maps");

/* The loader sets max_entries to CPUs x CACHE_WAYS. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, CACHE_WAYS);
	__type(key, __u32);
	__type(value, struct cached);
} cache SEC(".maps");

/*
 * Kernel threads append a CPU or work queue to their name after a slash
 * (kworker/3:1, ksoftirqd/0): without it one large machine would fill the table.
 */
static __always_inline void tidy(union name *to, const union name *from, int kthread)
{
	int i, ended = 0;

	to->word[0] = to->word[1] = 0;
#pragma unroll
	for (i = 0; i < COMM - 1; i++) {
		char c = from->text[i];

		if (!c || (kthread && c == '/'))
			ended = 1;
		if (!ended)
			to->text[i] = c;
	}
}

static __noinline __u32 find_slot(const union name *from, int kthread)
{
	union name key;
	__u32 zero = 0, slot, *p;

	if (!from)
		return OTHER;
	tidy(&key, from, kthread);
	p = bpf_map_lookup_elem(&slots, &key);
	if (p)
		return *p;
	p = bpf_map_lookup_elem(&slots_used, &zero);
	/* Slot 0 is OTHER, so the count of slots given out is one behind. */
	if (!p || *p + 1 >= max_processes)
		return OTHER;
	slot = __sync_fetch_and_add(p, 1) + 1;
	if (slot >= max_processes)
		return OTHER;
	p = (void *)bpf_map_lookup_elem(&names, &slot);
	if (!p)
		return OTHER;
	*(union name *)p = key;
	if (!bpf_map_update_elem(&slots, &key, &slot, BPF_NOEXIST))
		return slot;
	/* Another CPU was faster, and this slot stays empty. */
	p = bpf_map_lookup_elem(&slots, &key);
	return p ? *p : OTHER;
}

/*
 * process_slot is the slot of the process that leader leads. The last byte of a
 * name is always zero, so that the cache can keep the kind of task in it.
 */
static __always_inline __u32 process_slot(struct task_struct *leader, int kthread, __u32 cpu)
{
	union name name;
	struct cached *c;
	__u32 i;

	name.word[0] = *(__u64 *)&leader->comm[0];
	name.word[1] = *(__u64 *)&leader->comm[8];
	if (kthread)
		name.word[1] |= 1ull << 63;
	i = (name.word[0] ^ (name.word[1] << 1)) * 0x9e3779b97f4a7c15ull >> (64 - CACHE_BITS);
	i += cpu * CACHE_WAYS;
	c = bpf_map_lookup_elem(&cache, &i);
	if (!c)
		return OTHER;
	if (c->name.word[0] != name.word[0] || c->name.word[1] != name.word[1] || !c->slot) {
		c->slot = 1 + find_slot(&name, kthread);
		c->name = name;
	}
	return c->slot - 1;
}
