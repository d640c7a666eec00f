/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The table of virtual machines: a small number, the slot, for each process
 * that runs virtual CPUs. Slot OTHER_VM is for those beyond VMS at once. When a
 * process has ended, user space deletes its key and remembers what its slot had
 * counted until then, so the slot can be reused.
 */
#pragma once

#include "runs.h"

enum {
	OTHER_VM = 0,
	VMS = 64, /* a power of two */
	VM_SLOTS = 1 + VMS,
	TICK_NS = 10000000, /* of the start time in /proc/PID/stat: 1 / USER_HZ */
};

struct task_struct___vm {
	int tgid;
	__u64 start_boottime;
	struct task_struct___vm *group_leader;
} KERNEL_TYPE;

/* A key is the process id in the upper half and its start time in ticks in the lower. */
struct vm_table {
	__u64 key[VMS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct vm_table);
} vms SEC(".maps");

/* vm_slot returns the current process's slot, and takes one if needed. */
static __noinline __u32 vm_slot(void)
{
	struct task_struct___vm *task = (void *)bpf_get_current_task_btf();
	__u64 key = (__u64)task->tgid << 32 | (__u32)(task->group_leader->start_boottime / TICK_NS);
	__u32 zero = 0, i, at;
	struct vm_table *t = bpf_map_lookup_elem(&vms, &zero);

	if (!t)
		return OTHER_VM;
	for (i = 0; i < VMS; i++) {
		at = (task->tgid + i) % VMS;
		if (t->key[at] == key)
			return 1 + at;
	}
	for (i = 0; i < VMS; i++) {
		__u64 was;

		at = (task->tgid + i) % VMS;
		if (t->key[at])
			continue;
		was = __sync_val_compare_and_swap(&t->key[at], 0, key);
		/* Another virtual CPU of this process may have been faster. */
		if (!was || was == key)
			return 1 + at;
	}
	return OTHER_VM;
}
