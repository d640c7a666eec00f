/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The table of processes: a small number, the slot, for each name of a
 * thread-group leader. Nothing has to be cleaned up when a process ends, and
 * its events stay counted. When all slots are taken, new names share slot
 * OTHER, until user space reclaims slots of names that were long inactive.
 *
 * All objects share the table. In front of it each object has a small cache per
 * CPU, keyed by the name itself: a rename is seen at the next event, and no
 * process id can be mistaken for its predecessor's.
 */
#pragma once

#include "members.h"
#include "runs.h"

enum {
	PROCESSES = 1024,
	/* Slots from here on are those of single processes. */
	SLOTS = PROCESSES + OWNERS,
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
	__u64 slot; /* one more than the slot, or 0; user space may clear it at any time */
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

enum { TAKEN = COMM - 1 }; /* the byte of a name in that map that marks the slot */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} slots_used SEC(".maps");

/* Reclaimed slots, to be given out again. */
struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, PROCESSES);
	__type(value, __u32);
} slots_free SEC(".maps");

/* The loader sets max_entries to CPUs x CACHE_WAYS. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, CACHE_WAYS);
	__type(key, __u32);
	__type(value, struct cached);
} cache SEC(".maps");

/* Settings by user space for an object's programs while they run. */
struct control {
	__u64 since;    /* times that began earlier are not counted; bpf_ktime_get_ns */
	__u32 narrowed; /* only members count */
	__u32 by_name;  /* only processes in wanted are timed */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct control);
} control SEC(".maps");

struct wanted {
	__u8 slot[PROCESSES];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct wanted);
} wanted SEC(".maps");

static __always_inline volatile struct control *controls(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&control, &zero);
}

/*
 * Kernel threads append a CPU or work queue to their name after a slash
 * (kworker/3:1, ksoftirqd/0): with it, one large machine would fill the table.
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

/* take gives out a slot, or OTHER when none is left. */
static __always_inline __u32 take(void)
{
	__u32 zero = 0, slot = OTHER, *used = bpf_map_lookup_elem(&slots_used, &zero);

	if (!used)
		return OTHER;
	/* Slot 0 is OTHER, so the count of slots given out is one behind. */
	if (*used + 1 < max_processes) {
		slot = __sync_fetch_and_add(used, 1) + 1;
		if (slot < max_processes)
			return slot;
		slot = OTHER;
	}
	bpf_map_pop_elem(&slots_free, &slot);
	return slot;
}

static __noinline __u32 find_slot(const union name *from, int kthread)
{
	union name key, *name;
	__u32 slot, *p;

	if (!from)
		return OTHER;
	tidy(&key, from, kthread);
	p = bpf_map_lookup_elem(&slots, &key);
	if (p)
		return *p;
	slot = take();
	name = bpf_map_lookup_elem(&names, &slot);
	if (!name || slot == OTHER)
		return OTHER;
	*name = key;
	name->text[TAKEN] = 1;
	if (!bpf_map_update_elem(&slots, &key, &slot, BPF_NOEXIST))
		return slot;
	/* Another CPU was faster, and this slot has another name. */
	name->text[TAKEN] = 0;
	bpf_map_push_elem(&slots_free, &slot, 0);
	p = bpf_map_lookup_elem(&slots, &key);
	return p ? *p : OTHER;
}

/*
 * process_slot is the slot of the process that leader leads. The last byte of a
 * name is always zero, so the cache can keep the kind of task in it.
 */
static __always_inline __u32 process_slot(struct task_struct *leader, int kthread, __u32 cpu)
{
	union name name;
	struct cached *c;
	__u64 slot;
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
	slot = *(volatile __u64 *)&c->slot;
	if (c->name.word[0] != name.word[0] || c->name.word[1] != name.word[1] || !slot) {
		slot = 1 + find_slot(&name, kthread);
		c->slot = slot;
		c->name = name;
	}
	return slot - 1;
}

/*
 * outside reports whether an event of leader's process does not count because
 * source is narrowed to others. own is the slot in which it also counts, or
 * 0.
 */
static __always_inline int outside(struct task_struct *leader, int source, __u32 *own)
{
	volatile struct control *c = controls();
	struct member *m;

	*own = 0;
	if (!c || !c->narrowed)
		return 0;
	m = find_member(leader);
	if (!m || !(m->sources & 1 << source))
		return 1;
	if (m->own[source])
		*own = PROCESSES + ((m->own[source] - 1) & (OWNERS - 1));
	return 0;
}

/*
 * timed reports whether times of the process in slot are counted. A name's
 * times are not until user space has checked it: a histogram never forgets.
 */
static __always_inline int timed(__u32 slot)
{
	volatile struct control *c = controls();
	struct wanted *w;
	__u32 zero = 0;

	if (!c || !c->by_name)
		return 1;
	w = bpf_map_lookup_elem(&wanted, &zero);
	return w && w->slot[slot & (PROCESSES - 1)];
}
