/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Counts the runs of the object's programs on each CPU and times a random few of them.
 * User space multiplies both to get the cost. It sets a limit of runs (most); at the limit
 * the program wakes user space, which then detaches the programs: so the budget holds.
 */
#pragma once

#include "common.h"

/* A program that may interrupt another has a cell of its own. */
enum { RUN_CELLS = 7 };

struct runs {
	__u64 of[RUN_CELLS];
	__u64 next; /* min(most, due); a run below it compares one number, in the same cache line, and does nothing else */
	__u64 most; /* the number of runs at which user space is woken */
	__u64 due;  /* the number of runs at which the next one is timed */
	__u64 gap;  /* the largest gap between timed runs, less 1; of the form 2^n - 1 */
	__u64 timed, ns; /* the number of timed runs, and their total time from being counted to their end */
	__u64 reserved[3];
};

/* By CPU. The loader sets max_entries, and all fields that are not counts. */
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

/* A run: the CPU whose row counts it, and when it began (without the cost of reading the clock); 0 if not timed. */
struct run {
	__u32 cpu;
	__u64 began;
};

/*
 * untimed is a run that is not timed. number >> 63 is always 0, but the verifier cannot know that; otherwise it would
 * explore the program twice, once for timed runs.
 */
static __always_inline struct run untimed(__u32 cpu, __u64 number)
{
	return (struct run){ cpu, number >> 63 };
}

/*
 * A run longer than 64 times the mean plus this was interrupted. It is capped there, so interrupts do not dominate
 * the mean.
 */
enum { INTERRUPTED_NS = 8192 };

/* Shared, not inlined: its code stays in the instruction cache between the rare timed runs. */
static __noinline __u64 clock(void)
{
	return bpf_ktime_get_ns();
}

/*
 * turn does what is due at this run: start timing, or wake user space. Gaps are random, so a periodic load is not
 * always timed at the same call; the first ones are small, so rare events are timed early too.
 * Returns when the run began, or none if it is not timed.
 */
static __noinline __u64 turn(struct runs *r, __u64 all, __u64 none)
{
	__u64 nothing = 0, timed = 0, gap, began, now;

	if (!r)
		return none;
	if (all >= r->due) {
		gap = 1 + (bpf_get_prandom_u32() & r->gap);
		r->due = all + (gap < all ? gap : all);
		timed = 1;
	}
	if (all >= r->most) {
		r->most = ~0ull; /* once */
		bpf_ringbuf_output(&told, &nothing, sizeof(nothing), BPF_RB_FORCE_WAKEUP);
		timed = 0;
	}
	r->next = r->due < r->most ? r->due : r->most;
	if (!timed)
		return none;
	began = clock();
	now = clock();
	return now + (now - began);
}

static __noinline int took(__u32 cpu, __s64 ns)
{
	struct runs *r = bpf_map_lookup_elem(&runs, &cpu);
	__s64 most = INTERRUPTED_NS;

	if (!r)
		return 0;
	if (r->timed && (__s64)r->ns > 0)
		most += r->ns / r->timed * 64;
	if (ns > most)
		ns = most;
	else if (ns < -most)
		return 0; /* reading the clock was interrupted */
	__sync_fetch_and_add(&r->ns, ns);
	__sync_fetch_and_add(&r->timed, 1);
	return 0;
}

static __always_inline void over(struct run *run)
{
	if (run->began)
		took(run->cpu, clock() - run->began);
}

/* MEASURED struct run run = ran(...) times the run to the end of its block, if its turn has come. */
#define MEASURED __attribute__((cleanup(over), unused))

static __always_inline struct run turns(struct runs *r, __u32 cpu, __u64 all)
{
	struct run run = untimed(cpu, all);

	if (all >= r->next)
		run.began = turn(r, all, run.began);
	return run;
}

/* ran counts a run in the cell of program; programs is the number of cells that the object uses. */
static __always_inline struct run ran(__u32 cpu, __u32 program, __u32 programs)
{
	struct runs *r = bpf_map_lookup_elem(&runs, &cpu);
	__u64 all = 0;
	__u32 i;

	if (!r)
		return untimed(cpu, bpf_ktime_get_ns());
	r->of[program]++;
#pragma unroll
	for (i = 0; i < programs; i++)
		all += r->of[i];
	return turns(r, cpu, all);
}

/* The same for a program during which its thread may leave the CPU, so another can run it there. */
static __always_inline struct run ran_by_turns(__u32 cpu)
{
	struct runs *r = bpf_map_lookup_elem(&runs, &cpu);

	if (!r)
		return untimed(cpu, bpf_ktime_get_ns());
	return turns(r, cpu, __sync_fetch_and_add(&r->of[0], 1) + 1);
}
