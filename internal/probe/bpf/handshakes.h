/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The threads that are in a TLS handshake, which one object notes and another
 * looks up. The entry ends with the thread.
 */
#pragma once

#include "common.h"

struct handshake {
	__u64 sp; /* stack pointer when the outermost one was entered, or 0; what runs inside is below */
	__u64 at; /* when; bpf_ktime_get_ns */
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct handshake);
} handshakes SEC(".maps");

/* Since when returns have been seen without a gap: entries from before may have been left long ago. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} handshakes_since SEC(".maps");

/* Whether a thread whose stack is at sp is in a handshake. */
static __always_inline int in_handshake(struct task_struct *task, __u64 sp)
{
	struct handshake *h = bpf_task_storage_get(&handshakes, task, 0, 0);
	__u32 zero = 0;
	__u64 *since = bpf_map_lookup_elem(&handshakes_since, &zero);

	return h && since && sp < h->sp && h->at > *since;
}
