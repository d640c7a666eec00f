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
enum bpf_map_type { BPF_MAP_TYPE_HASH = 1, BPF_MAP_TYPE_ARRAY = 2 };
enum { BPF_NOEXIST = 1, BPF_F_MMAPABLE = 1 << 10 };

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
	unsigned int __state;
	struct task_struct *group_leader;
	unsigned long nvcsw;
	struct sched_entity se;
	char comm[COMM];
} KERNEL_TYPE;

/*
 * Counters are banked: one row per CPU, so that no two CPUs write to the same
 * cache line, and plain additions do (a program does not interrupt itself: the
 * kernel skips the run and counts it as missed). Where a row per CPU would be
 * too large CPUs share rows, and add atomically. Both set by the loader.
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
