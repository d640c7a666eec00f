/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The threads in a TLS handshake: one object notes them, another looks them up.
 * The entry ends with the thread.
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

/*
 * Since when entries and returns are seen without a gap; 0 while nobody looks,
 * and in the far future while they are not seen for some time.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} handshakes_since SEC(".maps");

enum handshaking { NOT_SHAKING, SHAKING, MAYBE_SHAKING };

/* Nanoseconds after which few earlier handshakes are still running. */
enum { SETTLED = 20000000 };

/* Whether a thread whose stack is at sp is in a handshake. */
static __always_inline enum handshaking in_handshake(struct task_struct *task, __u64 sp, __u64 now)
{
	struct handshake *h;
	__u32 zero = 0;
	__u64 *since = bpf_map_lookup_elem(&handshakes_since, &zero), began;

	if (!since || !*since)
		return NOT_SHAKING;
	began = *since;
	if (now < began || now - began < SETTLED)
		return MAYBE_SHAKING;
	h = bpf_task_storage_get(&handshakes, task, 0, 0);
	return h && sp < h->sp && h->at > began ? SHAKING : NOT_SHAKING;
}
