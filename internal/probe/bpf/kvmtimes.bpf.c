//go:build ignore
// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * How long virtual CPUs stay out of their guest, on kvm:kvm_exit and
 * kvm:kvm_entry, by virtual machine and by what happened in between: only the
 * kernel, the process that runs the machine, or an idle guest.
 */
#include "kvm.h"

enum {
	KERNEL,
	USERSPACE,
	HALTED,
	HANDLED,
	VM_CELLS = HANDLED * HIST_CELLS,
	STRIDE = VM_SLOTS * VM_CELLS,
	VCPUS = 4096, /* remembered at once; if two share an entry, one is not timed */
};

COUNTS(STRIDE);

struct left {
	__u64 pid;
	__u64 ns;
	__u64 handled;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, VCPUS);
	__type(key, __u32);
	__type(value, struct left);
} left SEC(".maps");

static __always_inline struct left *mine(__u64 *pid)
{
	__u32 i;

	*pid = bpf_get_current_pid_tgid() & 0xffffffff;
	i = *pid % VCPUS;
	return bpf_map_lookup_elem(&left, &i);
}

static __always_inline int leave(void)
{
	MEASURED struct run run = ran(bpf_get_smp_processor_id(), 0, 1);
	__u64 pid;
	struct left *l = mine(&pid);

	if (!l)
		return 0;
	l->pid = pid;
	l->handled = KERNEL;
	l->ns = bpf_ktime_get_ns();
	return 0;
}

static __always_inline int during(__u64 handled)
{
	MEASURED struct run run = ran(bpf_get_smp_processor_id(), 0, 1);
	__u64 pid;
	struct left *l = mine(&pid);

	if (l && l->pid == pid && l->handled == KERNEL)
		l->handled = handled;
	return 0;
}

static __always_inline int enter(void)
{
	MEASURED struct run run = ran(bpf_get_smp_processor_id(), 0, 1);
	__u64 pid, handled;
	struct left *l = mine(&pid);

	if (!l || l->pid != pid)
		return 0;
	l->pid = 0;
	handled = l->handled;
	if (handled >= HANDLED)
		return 0;
	hist(&counts, STRIDE, bpf_get_smp_processor_id(), vm_slot() * VM_CELLS + handled * HIST_CELLS,
	     bpf_ktime_get_ns() - l->ns);
	return 0;
}

SEC("tp_btf/kvm_exit")
int kvm_exit_btf(__u64 *args) { return leave(); }

SEC("raw_tp/kvm_exit")
int kvm_exit_raw(__u64 *args) { return leave(); }

SEC("tp_btf/kvm_entry")
int kvm_entry_btf(__u64 *args) { return enter(); }

SEC("raw_tp/kvm_entry")
int kvm_entry_raw(__u64 *args) { return enter(); }

SEC("tp_btf/kvm_userspace_exit")
int kvm_userspace_exit_btf(__u64 *args) { return during(USERSPACE); }

SEC("raw_tp/kvm_userspace_exit")
int kvm_userspace_exit_raw(__u64 *args) { return during(USERSPACE); }

/* An idle guest: kvm_vcpu_halt() ends with it, on every architecture. */
SEC("tp_btf/kvm_vcpu_wakeup")
int kvm_vcpu_wakeup_btf(__u64 *args) { return during(HALTED); }

SEC("raw_tp/kvm_vcpu_wakeup")
int kvm_vcpu_wakeup_raw(__u64 *args) { return during(HALTED); }

char LICENSE[] SEC("license") = "Dual BSD/GPL";
