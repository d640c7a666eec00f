// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * How long processes wait for the C library to resolve a host name: a uprobe at
 * the beginning of getaddrinfo, a uretprobe at its end. See lookups.yaml, which
 * says where the function is.
 *
 *   clang -target bpf -O2 -g -mcpu=v3 -c lookups.bpf.c -o lookups.o && llvm-strip -g lookups.o
 */
#include "types.h"

/* Buckets: up to 10 us, 100 us, 1 ms, 10 ms, 100 ms, 1 s, and above. */
enum { BUCKETS = 7 };

struct times {
	__u32 bucket[BUCKETS];
	__u32 unused;
	__u64 sum; /* nanoseconds */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 512);
	__type(key, struct comm);
	__type(value, struct times);
} lookups SEC(".maps");

/* When each thread that is in the function has entered it. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64);
	__type(value, __u64);
} began SEC(".maps");

SEC("uprobe")
int lookup_begins(void *ctx)
{
	__u64 thread = bpf_get_current_pid_tgid(), now = bpf_ktime_get_ns();

	bpf_map_update_elem(&began, &thread, &now, BPF_ANY);
	return 0;
}

SEC("uretprobe")
int lookup_ends(void *ctx)
{
	__u64 thread = bpf_get_current_pid_tgid(), limit = 10000, ns;
	__u64 *since = bpf_map_lookup_elem(&began, &thread);
	struct times zero = {}, *t;
	struct comm comm = {};
	__u32 i = 0;

	if (!since)
		return 0;
	ns = bpf_ktime_get_ns() - *since;
	bpf_map_delete_elem(&began, &thread);
	bpf_get_current_comm(&comm, sizeof(comm));
	t = bpf_map_lookup_elem(&lookups, &comm);
	if (!t) {
		bpf_map_update_elem(&lookups, &comm, &zero, BPF_NOEXIST);
		t = bpf_map_lookup_elem(&lookups, &comm);
	}
	if (!t)
		return 0;
#pragma unroll
	for (int k = 0; k < BUCKETS - 1; k++) {
		if (ns > limit)
			i = k + 1;
		limit *= 10;
	}
	if (i < BUCKETS)
		__sync_fetch_and_add(&t->bucket[i], 1);
	__sync_fetch_and_add(&t->sum, ns);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
