// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Objects that user-written probes are tested with; each -DNAME makes one. */
#include "types.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, __u32);
	__type(value, __u64);
#ifdef PINNED
	__uint(pinning, 1);
#endif
} counts SEC(".maps");

static __attribute__((always_inline)) int count(__u32 key)
{
	__u64 one = 1, *n = bpf_map_lookup_elem(&counts, &key);

	if (n)
		__sync_fetch_and_add(n, 1);
	else
		bpf_map_update_elem(&counts, &key, &one, BPF_NOEXIST);
	return 0;
}

#if !defined(REJECTED)
SEC("raw_tp/sched_process_exec")
int good(void *ctx) { return count(bpf_get_current_pid_tgid()); }
#endif

#if defined(REJECTED) || defined(HALF)
SEC("raw_tp/sched_process_exit")
int bad(__u64 *ctx)
{
	return *(int *)(ctx[0] & 0xffff); /* a number is no address */
}
#endif

#ifdef NOWHERE
SEC("raw_tp/no_such_tracepoint")
int nowhere(void *ctx) { return 0; }
#endif

#ifdef MEDDLING
SEC("raw_tp/sched_process_fork")
int meddling(void *ctx) { return bpf_send_signal(9); }
#endif

#ifdef FILTER
SEC("xdp")
int filter(void *ctx) { return 0; }
#endif

#ifdef UPROBE
SEC("uprobe")
int function(void *ctx) { return 0; }
#endif

#ifdef LARGE
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 10000000);
	__type(key, __u32);
	__type(value, __u64);
} large SEC(".maps");
#endif

char LICENSE[] SEC("license") = "Dual BSD/GPL";
