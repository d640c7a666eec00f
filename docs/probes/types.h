/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The types that bpf_helpers.h wants, without the kernel's headers. */
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
enum bpf_map_type { BPF_MAP_TYPE_HASH = 1, BPF_MAP_TYPE_LRU_HASH = 9, BPF_MAP_TYPE_LRU_PERCPU_HASH = 10 };
enum { BPF_ANY = 0, BPF_NOEXIST = 1 };

#include <bpf/bpf_helpers.h>

struct comm {
	char text[16]; /* TASK_COMM_LEN */
};
