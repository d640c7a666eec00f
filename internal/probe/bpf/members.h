/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The processes that objects are narrowed to, by thread-group id. User space
 * fills the table; while it is in use, children inherit (members.bpf.c). An
 * entry is valid only for the process it was made for: the start time is
 * compared, so a reused id is recognized as another process.
 */
#pragma once

#include "common.h"

enum {
	/* Which bit of a member, and which of its own cells, are an object's. */
	SYSCALLS,
	SWITCHES,
	FAULTS,
	RUN_QUEUE,
	SOURCES,

	MEMBERS = 4096,
	OWNERS = 64, /* processes that an object also counts individually */
	TICK = 10000000, /* nanoseconds in a tick of /proc/PID/stat */
};

struct member {
	__u64 start;         /* in ticks after boot, field 22 of /proc/PID/stat */
	__u8 sources;        /* bits: whose programs count it */
	__u8 children;       /* bits: objects that count its children */
	__u8 own[SOURCES];   /* 0, or one more than the number of its own cells */
	__u8 pad[2];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MEMBERS);
	__type(key, __u32);
	__type(value, struct member);
} members SEC(".maps");

static __always_inline struct member *find_member(struct task_struct *leader)
{
	__u32 tgid = leader->pid;
	struct member *m = bpf_map_lookup_elem(&members, &tgid);

	return m && m->start == leader->start_boottime / TICK ? m : 0;
}
