/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Calls of kernel functions: their number, how many failed and how long they
 * took. An object that includes it defines SPANS, the number of functions.
 *
 * The two ends of a function are separate hooks: if only the entry is
 * available, calls are still counted.
 */
#pragma once

#include "runs.h"

enum {
	SPAN_CALLS,  /* entries */
	SPAN_UNITS,  /* amount requested at entry, such as pages */
	SPAN_DONE,   /* returns */
	SPAN_FAILED, /* returns with an error */
	SPAN_HIST,
	SPAN_CELLS = SPAN_HIST + HIST_CELLS,
	STRIDE = SPANS * SPAN_CELLS,
	BEGUN_BITS = 8,
	BEGUN = 1 << BEGUN_BITS,
};

/* Entries and returns. */
enum { ENTRY, RETURN, EVENTS };

COUNTS(STRIDE);

/* A task's current call; if overwritten by another task's, it is not timed. */
struct begun {
	__u64 task;
	__u64 span;
	__u64 at;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, BEGUN);
	__type(key, __u32);
	__type(value, struct begun);
} begun SEC(".maps");

static __always_inline struct begun *begun_by(__u64 task)
{
	__u32 i = task * 0x9e3779b97f4a7c15ull >> (64 - BEGUN_BITS);

	return bpf_map_lookup_elem(&begun, &i);
}

static __always_inline int begin(__u32 span, __u64 units)
{
	__u32 cpu = bpf_get_smp_processor_id();
	MEASURED struct run run = ran(cpu, ENTRY, EVENTS);
	__u64 task = bpf_get_current_task();
	struct begun *b = begun_by(task);

	add(&counts, STRIDE, cpu, span * SPAN_CELLS + SPAN_CALLS, 1);
	add(&counts, STRIDE, cpu, span * SPAN_CELLS + SPAN_UNITS, units);
	if (b) {
		b->task = task;
		b->span = span;
		b->at = bpf_ktime_get_ns();
	}
	return 0;
}

static __always_inline int end(__u32 span, int failed)
{
	__u32 cpu = bpf_get_smp_processor_id();
	MEASURED struct run run = ran(cpu, RETURN, EVENTS);
	__u64 task = bpf_get_current_task();
	struct begun *b = begun_by(task);

	add(&counts, STRIDE, cpu, span * SPAN_CELLS + SPAN_DONE, 1);
	if (failed)
		add(&counts, STRIDE, cpu, span * SPAN_CELLS + SPAN_FAILED, 1);
	if (b && b->task == task && b->span == span && b->at) {
		hist(&counts, STRIDE, cpu, span * SPAN_CELLS + SPAN_HIST, bpf_ktime_get_ns() - b->at);
		b->at = 0;
	}
	return 0;
}

/* Arguments and result of a function on x86-64; elsewhere the objects have no kprobes. */
struct pt_regs {
	unsigned long di;
	unsigned long si;
	unsigned long ax;
} KERNEL_TYPE;
