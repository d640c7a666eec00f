// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Programs executed, by the name of the process that they make. See execs.yaml.
 *
 *   clang -target bpf -O2 -g -mcpu=v3 -c execs.bpf.c -o execs.o && llvm-strip -g execs.o
 *
 * With "bpftool btf dump file /sys/kernel/btf/vmlinux format c > vmlinux.h" all
 * of the kernel's types can be included in the place of types.h.
 */
#include "types.h"

struct {
	__uint(type, BPF_MAP_TYPE_LRU_PERCPU_HASH);
	__uint(max_entries, 1024);
	__type(key, struct comm);
	__type(value, __u64);
} execs SEC(".maps");

SEC("raw_tp/sched_process_exec")
int count_exec(void *ctx)
{
	struct comm comm = {};
	__u64 one = 1, *n;

	bpf_get_current_comm(&comm, sizeof(comm));
	n = bpf_map_lookup_elem(&execs, &comm);
	if (n)
		*n += 1;
	else
		bpf_map_update_elem(&execs, &comm, &one, BPF_ANY);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
