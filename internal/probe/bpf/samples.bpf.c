//go:build ignore
// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * CPU time by process and by what its threads did when a clock ticked: each CPU
 * has a perf event (PERF_COUNT_SW_CPU_CLOCK) whose timer interrupts whatever
 * runs there.
 *
 * What the timer interrupted says if that was user space. Otherwise the frame at
 * the bottom of the thread's kernel stack says how it entered the kernel: a
 * system call has left its number there, an exception or an interrupt -1
 * (arch/x86/entry/entry_64.S). Those two are told apart by the word below the
 * frame, the address to which the C function that the entry code called will
 * return: it is one and the same for all page faults. The programs "entry_..."
 * learn it when the object is opened.
 */
#include "pairs.h"
#include "handshakes.h"

enum {
	/* Numbers for other activities, above those of all tables of system calls. */
	NR_WITHIN = 502, /* a system call, in a TLS handshake */
	NR_USER,
	NR_HANDSHAKE, /* user space, in a TLS handshake */
	NR_MAYBE,     /* user space, while handshakes are not seen */
	NR_GUEST,     /* a virtual CPU in its guest */
	NR_FAULT,
	NR_INTERRUPT,
	NR_THREAD, /* of the kernel's own */
	NR_TABLE = NR_WITHIN,
	NR_COMPAT = 510,
	NR_UNKNOWN = 511,

	/* Cells of the object. */
	LATE = OWN, /* ticks that did not come, or for which the program did not run */
	TRIED,      /* ticks of other periods, which do not count: they measure the cost */

	PF_VCPU = 0x1, /* include/linux/sched.h: set until the interrupt that ended the guest's turn is served */
};

/* Nanoseconds between two ticks that count; the loader sets it. */
const volatile __u64 period = 1000000000 / 97;

/* Registers of the interrupted code, arch/x86/include/uapi/asm/ptrace.h. */
struct interrupted {
	unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di;
	unsigned long orig_ax, ip, cs, flags, sp, ss;
};

/* include/uapi/linux/bpf_perf_event.h */
struct bpf_perf_event_data {
	struct interrupted regs;
	__u64 sample_period;
};

struct pt_regs {
	unsigned long orig_ax, sp;
} KERNEL_TYPE;

/* When each CPU ticked last. The loader sets max_entries to the number of CPUs. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} ticked SEC(".maps");

/* Where the entry code of page faults, and of system calls, has its C function return to. */
enum { ENTRY_FAULT, ENTRY_CALL, ENTRIES };

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, ENTRIES);
	__type(key, __u32);
	__type(value, __u64);
} entries SEC(".maps");

/* The word below the bottom frame of the thread that runs, or 0. */
static __always_inline __u64 entered_from(struct task_struct *task)
{
	__u64 word = 0;

	bpf_probe_read_kernel(&word, sizeof(word), (void *)bpf_task_pt_regs(task) - sizeof(word));
	return word;
}

static __always_inline int learn(__u32 entry)
{
	__u64 *e = bpf_map_lookup_elem(&entries, &entry);

	if (e)
		*e = entered_from(bpf_get_current_task_btf());
	return 0;
}

SEC("raw_tp/page_fault_user")
int entry_fault(void *args) { return learn(ENTRY_FAULT); }

SEC("raw_tp/sys_enter")
int entry_call(void *args) { return learn(ENTRY_CALL); }

/* Whether a thread that no system call brought into the kernel is there for something else than a page fault. */
static __always_inline int interrupt(struct task_struct *task)
{
	__u32 fault = ENTRY_FAULT, call = ENTRY_CALL;
	__u64 *f = bpf_map_lookup_elem(&entries, &fault), *c = bpf_map_lookup_elem(&entries, &call), from;

	/* Processors with FRED enter by one way, and nothing can be told. */
	if (!f || !c || !*f || !*c || *f == *c)
		return 0;
	from = entered_from(task);
	return from && from != *f;
}

static __always_inline __u32 activity(struct bpf_perf_event_data *ctx, struct task_struct *task, __u64 now, int exact)
{
	struct pt_regs *bottom;
	long nr;

	if (ctx->regs.cs & 3)
		return NR_USER + in_handshake(task, ctx->regs.sp, now);
	if (task->flags & PF_VCPU)
		return NR_GUEST;
	if (task->flags & PF_KTHREAD)
		return NR_THREAD;
	bottom = (void *)bpf_task_pt_regs(task);
	nr = bottom->orig_ax;
	if (nr < 0)
		return exact && interrupt(task) ? NR_INTERRUPT : NR_FAULT;
	if (compat(task))
		return NR_COMPAT;
	if (in_handshake(task, bottom->sp, now) == SHAKING)
		return NR_WITHIN;
	return nr < NR_TABLE ? nr : NR_UNKNOWN;
}

static __always_inline int sample(struct bpf_perf_event_data *ctx, int exact)
{
	struct task_struct *task = bpf_get_current_task_btf(), *leader = task->group_leader;
	__u32 cpu = bpf_get_smp_processor_id(), slot, nr;
	__u64 now = bpf_ktime_get_ns(), *last = bpf_map_lookup_elem(&ticked, &cpu);
	int valid = ctx->sample_period == period;
	MEASURED struct run run = valid ? ran(cpu, 0, 1) : untimed(cpu, now);

	if (!valid)
		add(&counts, STRIDE, cpu, TRIED, 1);
	if (last && valid) {
		if (*last && now > *last + period + period / 2)
			add(&counts, STRIDE, cpu, LATE, (now - *last + period / 2) / period - 1);
		*last = now;
	}
	if (!task->pid)
		return 0; /* idle */
	slot = process_slot(leader, !!(task->flags & PF_KTHREAD), cpu);
	nr = activity(ctx, task, now, exact);
	count(slot, nr, cpu, valid);
	return 0;
}

SEC("perf_event")
int sample_exact(struct bpf_perf_event_data *ctx) { return sample(ctx, 1); }

/* Without the word below the frame, which may not be read where the kernel is locked down. */
SEC("perf_event")
int sample_plain(struct bpf_perf_event_data *ctx) { return sample(ctx, 0); }

char LICENSE[] SEC("license") = "Dual BSD/GPL";
