//go:build ignore
// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Connections that processes open and that fail, on sock:inet_sock_set_state.
 *
 * A connection fails in an interrupt or a timer, where the current process is
 * arbitrary, but it begins in connect(2). So the process is remembered by
 * socket until the outcome is known.
 */
#include "process.h"

enum { ATTEMPTS, FAILURES, KINDS };
enum {
	STRIDE = PROCESSES * KINDS,
	OPENING = 8192,

	TCP_SYN_SENT = 2, /* include/net/tcp_states.h */
	TCP_CLOSE = 7,
	IPPROTO_TCP = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
};

COUNTS(STRIDE);

struct sock {
	__u16 sk_protocol;
} KERNEL_TYPE;

/* The slot of the process that opens a connection, by the socket's address. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, OPENING);
	__type(key, __u64);
	__type(value, __u32);
} opening SEC(".maps");

static __always_inline int count(__u64 sk, __u16 protocol, int from, int to)
{
	__u32 cpu = bpf_get_smp_processor_id(), slot, *p;
	MEASURED struct run run = ran(cpu, 0, 1);
	struct task_struct *task;

	if (protocol != IPPROTO_TCP)
		return 0;
	if (to == TCP_SYN_SENT) {
		task = bpf_get_current_task_btf();
		slot = process_slot(task->group_leader, 0, cpu);
		bpf_map_update_elem(&opening, &sk, &slot, 0 /* BPF_ANY */);
		add(&counts, STRIDE, cpu, slot * KINDS + ATTEMPTS, 1);
	} else if (from == TCP_SYN_SENT) {
		if (to == TCP_CLOSE) {
			p = bpf_map_lookup_elem(&opening, &sk);
			slot = p ? *p : OTHER;
			if (slot < PROCESSES)
				add(&counts, STRIDE, cpu, slot * KINDS + FAILURES, 1);
		}
		bpf_map_delete_elem(&opening, &sk);
	}
	return 0;
}

SEC("tp_btf/inet_sock_set_state")
int set_state_btf(__u64 *args)
{
	return count(args[0], ((struct sock *)args[0])->sk_protocol, args[1], args[2]);
}

SEC("raw_tp/inet_sock_set_state")
int set_state_raw(__u64 *args)
{
	return count(args[0], BPF_CORE_READ((struct sock *)args[0], sk_protocol), args[1], args[2]);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
