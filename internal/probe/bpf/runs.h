/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How often the object's programs ran on each CPU. The budget is kept by it: user
 * space sets how often they may run there until it is told, and then stops them.
 */
#pragma once

#include "common.h"

/* A program that may interrupt another has a cell of its own. */
enum { RUN_CELLS = 7 };

struct runs {
	__u64 of[RUN_CELLS];
	__u64 most;
};

/* By CPU; the loader sets max_entries, and most to the largest number. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct runs);
} runs SEC(".maps");

/* Wakes user space. All objects share it; the loader sets max_entries to a page. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} told SEC(".maps");

static __noinline int tell(struct runs *r)
{
	__u64 nothing = 0;

	if (!r)
		return 0;
	r->most = ~0ull; /* once */
	bpf_ringbuf_output(&told, &nothing, sizeof(nothing), BPF_RB_FORCE_WAKEUP);
	return 0;
}

/* ran counts a run in the cell of a program, one of so many that the object uses. */
static __always_inline void ran(__u32 cpu, __u32 program, __u32 programs)
{
	struct runs *r = bpf_map_lookup_elem(&runs, &cpu);
	__u64 all = 0;
	__u32 i;

	if (!r)
		return;
	r->of[program]++;
#pragma unroll
	for (i = 0; i < programs; i++)
		all += r->of[i];
	if (all >= r->most)
		tell(r);
}

/* The same for a program that a thread leaves a CPU in, so that another may run it there. */
static __always_inline void ran_by_turns(__u32 cpu)
{
	struct runs *r = bpf_map_lookup_elem(&runs, &cpu);

	if (r && __sync_fetch_and_add(&r->of[0], 1) + 1 >= r->most)
		tell(r);
}
