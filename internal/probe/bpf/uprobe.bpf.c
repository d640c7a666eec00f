//go:build ignore
// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Calls of functions of user programs, by process, by runtime and by meaning:
 * an entry into an enclave, an exit, an asynchronous exit. One program serves
 * every uprobe; the hook's cookie says what a hit means.
 */
#include "process.h"

enum {
	RUNTIMES = 8, /* the last is the self-test's */
	SELF = RUNTIMES - 1,
	KINDS = 4,
	SELF_TGID = PROCESSES * RUNTIMES * KINDS, /* the process that ran the self-test */
	ROW,

	/* Flags of a cookie, above runtime (8 bits) and kind (8 bits). */
	TABLE = 1,     /* the third argument points at a table of functions: tell user space */
	IF_OCALL = 2,  /* counts only if the first argument's high 16 bits are OE_CODE_OCALL */
	MARK = 4,      /* counts nothing: the process belongs to the cookie's runtime */
	MARKED = 8,    /* counts for the process's runtime, if it was marked */
	OE_CODE_OCALL = 3, /* Open Enclave, include/openenclave/internal/calls.h */

	TABLES = 32,
	FUNCTIONS = 126,

	MAP_TYPE_LRU_HASH = 9, /* BPF_MAP_TYPE_LRU_HASH of include/uapi/linux/bpf.h */
};

COUNTS(ROW);

/* Locations of a call's arguments, arch/x86/include/uapi/asm/ptrace.h. */
struct pt_regs {
	unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di;
};

struct owner {
	__u64 started; /* an id alone may be its successor's */
	__u64 runtime;
};

struct {
	__uint(type, MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, struct owner);
} owners SEC(".maps");

struct seen {
	__u64 started, table;
};

struct {
	__uint(type, MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, struct seen);
	__type(value, __u32);
} tables_seen SEC(".maps");

/* A ring of tables: number n is at n % TABLES; number is 0 while it is written. */
struct table {
	__u64 number;
	__u32 tgid, functions;
	__u64 function[FUNCTIONS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, TABLES);
	__type(key, __u32);
	__type(value, struct table);
} tables SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} tables_used SEC(".maps");

/*
 * note_table copies a table into the ring when a process is first seen with it.
 * If the table is not in memory yet, the next call tries again.
 */
static __noinline int note_table(__u64 at, __u64 started, __u32 tgid)
{
	struct seen key = { .started = started, .table = at };
	__u32 zero = 0, slot;
	__u64 n = 0, number, *used;
	struct table *t;

	if (!at || bpf_map_lookup_elem(&tables_seen, &key))
		return 0;
	if (bpf_probe_read_user(&n, sizeof(n), (void *)at) || !n)
		return 0;
	used = bpf_map_lookup_elem(&tables_used, &zero);
	if (!used || bpf_map_update_elem(&tables_seen, &key, &zero, BPF_NOEXIST))
		return 0;
	number = __sync_fetch_and_add(used, 1) + 1;
	slot = number % TABLES;
	t = bpf_map_lookup_elem(&tables, &slot);
	if (!t)
		return 0;
	__sync_lock_test_and_set(&t->number, 0);
	t->tgid = tgid;
	t->functions = n > FUNCTIONS ? FUNCTIONS : n;
	if (n > FUNCTIONS)
		n = FUNCTIONS;
	if (bpf_probe_read_user(t->function, n * sizeof(__u64), (void *)at + sizeof(n))) {
		bpf_map_delete_elem(&tables_seen, &key);
		return 0;
	}
	__sync_lock_test_and_set(&t->number, number);
	return 0;
}

static __always_inline int hit(struct pt_regs *regs, __u64 cookie)
{
	__u32 cpu = bpf_get_smp_processor_id(), slot;
	__u32 runtime = cookie & (RUNTIMES - 1), kind = cookie >> 8 & (KINDS - 1), flags = cookie >> 16;
	struct task_struct *leader = bpf_get_current_task_btf()->group_leader;
	__u32 tgid = leader->pid;

	if (flags & IF_OCALL && (__u64)regs->di >> 48 != OE_CODE_OCALL)
		return 0;
	if (flags & MARK) {
		struct owner o = { .started = leader->start_boottime, .runtime = runtime };

		bpf_map_update_elem(&owners, &tgid, &o, 0);
		return 0;
	}
	if (flags & MARKED) {
		struct owner *o = bpf_map_lookup_elem(&owners, &tgid);

		if (o && o->started == leader->start_boottime)
			runtime = o->runtime & (RUNTIMES - 1);
	}
	MEASURED struct run run = runtime == SELF ? untimed(cpu, leader->start_boottime) : ran_by_turns(cpu);
	if (flags & TABLE)
		note_table(regs->dx, leader->start_boottime, tgid);
	slot = process_slot(leader, 0, cpu);
	add(&counts, ROW, cpu, (slot * RUNTIMES + runtime) * KINDS + kind, 1);
	if (runtime == SELF) {
		__u32 i = SELF_TGID;
		__u64 *self = bpf_map_lookup_elem(&counts, &i);

		if (self)
			*self = tgid;
	}
	return 0;
}

SEC("uprobe.multi")
int uprobe_multi(struct pt_regs *regs) { return hit(regs, bpf_get_attach_cookie(regs)); }

SEC("uprobe")
int uprobe_single(struct pt_regs *regs) { return hit(regs, bpf_get_attach_cookie(regs)); }

char LICENSE[] SEC("license") = "Dual BSD/GPL";
