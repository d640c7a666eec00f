/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How often the object's programs ran on each CPU, and how long some of these runs took.
 * The budget is kept by it: user space sets how often they may run there until it is told,
 * and then stops them.
 */
#pragma once

#include "common.h"

/* A program that may interrupt another has a cell of its own. */
enum { RUN_CELLS = 7 };

struct runs {
	__u64 of[RUN_CELLS];
	__u64 next; /* the number of runs at which there is something to do; all that most runs look at is in one cache line */
	__u64 most; /* user space is told when there were so many */
	__u64 due;  /* the number of runs at which one is timed */
	__u64 gap;  /* from it to the next such number at most, less 1; of the form 2^n - 1 */
	__u64 timed, ns; /* the runs that were timed, and what they took from where they are counted to their end */
	__u64 reserved[3];
};

/* By CPU; the loader sets max_entries, and the rest of what is not a count. */
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

/* A run: the CPU whose row counts it, and when it began as if the clock took no time to read, or 0 if it is not timed. */
struct run {
	__u32 cpu;
	__u64 began;
};

/*
 * untimed is a run that is not timed. A number below 2^63 hides from the verifier that began is 0: it would else follow
 * the whole program once more for the runs that are timed.
 */
static __always_inline struct run untimed(__u32 cpu, __u64 number)
{
	return (struct run){ cpu, number >> 63 };
}

/*
 * A run that took that much longer than 64 times the mean was interrupted, and counts for so much: the mean would
 * else be that of interrupts.
 */
enum { INTERRUPTED_NS = 8192 };

/* All read it here, so that at the end of a run its code is in the cache, as that of few runs else is not. */
static __noinline __u64 clock(void)
{
	return bpf_ktime_get_ns();
}

/*
 * turn does what is due at a run. The gaps are random, or of a load that makes the same calls again and again always
 * the same one might be timed; the first ones are small, so that something is known of what happens seldom.
 * Returns when the run began, or none.
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

/* ran counts a run in the cell of a program, one of so many that the object uses. */
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

/* The same for a program that a thread leaves a CPU in, so that another may run it there. */
static __always_inline struct run ran_by_turns(__u32 cpu)
{
	struct runs *r = bpf_map_lookup_elem(&runs, &cpu);

	if (!r)
		return untimed(cpu, bpf_ktime_get_ns());
	return turns(r, cpu, __sync_fetch_and_add(&r->of[0], 1) + 1);
}
