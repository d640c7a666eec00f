/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the programs share: the few kernel types they read, as CO-RE flavours
 * (the loader moves every field to where the running kernel has it), banked
 * counters, and the table of processes.
 */
#pragma once

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef short __s16;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u64 __be64;
typedef __u32 __wsum;

/* Values of the kernel's BPF interface, include/uapi/linux/bpf.h. */
enum bpf_map_type { BPF_MAP_TYPE_HASH = 1, BPF_MAP_TYPE_ARRAY = 2, BPF_MAP_TYPE_QUEUE = 22, BPF_MAP_TYPE_RINGBUF = 27, BPF_MAP_TYPE_TASK_STORAGE = 29 };
enum { BPF_NOEXIST = 1, BPF_F_NO_PREALLOC = 1, BPF_LOCAL_STORAGE_GET_F_CREATE = 1, BPF_RB_FORCE_WAKEUP = 2, BPF_F_MMAPABLE = 1 << 10 };

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#define KERNEL_TYPE __attribute__((preserve_access_index))

enum { COMM = 16 }; /* TASK_COMM_LEN */

struct thread_info {
	unsigned int status;
} KERNEL_TYPE;

struct sched_entity {
	__u64 sum_exec_runtime;
	__u64 prev_sum_exec_runtime;
} KERNEL_TYPE;

struct task_struct {
	struct thread_info thread_info;
	unsigned int flags;
	int pid;
	int tgid;
	unsigned int __state;
	struct task_struct *group_leader;
	__u64 start_boottime;
	unsigned long nvcsw;
	unsigned long nivcsw;
	struct sched_entity se;
	char comm[COMM];
} KERNEL_TYPE;

/*
 * Counters are banked: one row per CPU, so no two CPUs write to the same cache
 * line and plain additions suffice (a program does not interrupt itself: the
 * kernel skips the run and counts it as missed). If a row per CPU would be too
 * large, CPUs share rows and add atomically. The loader sets both.
 */
const volatile __u32 bank_mask = ~0u;
const volatile __u8 banks_shared = 0;

static __always_inline void add(void *counts, __u32 stride, __u32 cpu, __u32 cell, __u64 n)
{
	__u32 i = (cpu & bank_mask) * stride + cell;
	__u64 *c = bpf_map_lookup_elem(counts, &i);

	if (!c)
		return;
	if (banks_shared)
		__sync_fetch_and_add(c, n);
	else
		*c += n;
}

/*
 * counts_map declares the banked counters; the loader sets max_entries to
 * rows x stride. User space maps it and reads without a system call.
 */
#define COUNTS(stride)                                  \
	struct {                                        \
		__uint(type, BPF_MAP_TYPE_ARRAY);       \
		__uint(map_flags, BPF_F_MMAPABLE);      \
		__uint(max_entries, stride);            \
		__type(key, __u32);                     \
		__type(value, __u64);                   \
	} counts SEC(".maps")

/*
 * A histogram of times: log-linear, four cells to a power of two, so the middle
 * of a cell is within 12.5 % of every time counted in it. Cell 0 is below
 * HIST_LEAST nanoseconds, the last but one above all, the last the sum.
 */
enum {
	HIST_LEAST_BITS = 8,
	HIST_LEAST = 1 << HIST_LEAST_BITS,
	HIST_SUB_BITS = 2,
	HIST_OCTAVES = 26,
	HIST_OVER = 1 + (HIST_OCTAVES << HIST_SUB_BITS),
	HIST_SUM,
	HIST_CELLS,
};

static __always_inline __u32 hist_cell(__u64 ns)
{
	__u32 bits = 0, i;
	__u64 v = ns >> HIST_LEAST_BITS;

	if (!v)
		return 0;
	/* The position of the highest bit; the verifier's instruction set has none for it. */
	if (v >> 32) { v >>= 32; bits += 32; }
	if (v >> 16) { v >>= 16; bits += 16; }
	if (v >> 8) { v >>= 8; bits += 8; }
	if (v >> 4) { v >>= 4; bits += 4; }
	if (v >> 2) { v >>= 2; bits += 2; }
	if (v >> 1) bits += 1;
	if (bits >= HIST_OCTAVES)
		return HIST_OVER;
	i = ns >> (bits + HIST_LEAST_BITS - HIST_SUB_BITS) & ((1 << HIST_SUB_BITS) - 1);
	return 1 + (bits << HIST_SUB_BITS) + i;
}

/* hist adds a time to the histogram that starts at cell. */
static __always_inline void hist(void *counts, __u32 stride, __u32 cpu, __u32 cell, __u64 ns)
{
	add(counts, stride, cpu, cell + hist_cell(ns), 1);
	add(counts, stride, cpu, cell + HIST_SUM, ns);
}
