//go:build ignore
// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Bounce buffers by device, and the time that they take.
 *
 *   bounced  swiotlb:swiotlb_bounced, once for each mapping that asks for a buffer
 *   map      swiotlb_tbl_map_single: find room, copy what the device reads
 *   unmap    __swiotlb_tbl_unmap_single: copy what the device wrote, free the room
 *   device, cpu  __swiotlb_sync_single_for_device and _for_cpu: copy a mapped buffer again
 *
 * The last three have no underscores before Linux 6.11. The result of map says
 * whether there was room.
 *
 * A device gets its own slot when it first bounces. If all are taken or its
 * name cannot be read, it is counted in slot OTHER. Copies in a thread's own
 * context have slots in the same way, by its process's name and system call.
 */
#include "runs.h"

enum {
	OTHER = 0,
	DEVICES = 65,
	DEVICE_NAME = 48, /* a VMBus device has a GUID for a name */
	MAPPINGS = 0,
	BYTES,
	CELLS,
	RETURNS = DEVICES * CELLS,
	FULL,
	TIMES,
	/* Cells of TIMES, by operation and context. */
	IN_TASK = 0,
	IN_INTERRUPT, /* or in a page fault */
	CONTEXTS,
	CALLS = 0,
	NANOSECONDS,
	TIME_CELLS,
	OP_MAP = 0,
	OP_UNMAP,
	OP_SYNC,
	OPERATIONS,
	UNTIMED = TIMES + OPERATIONS * CONTEXTS * TIME_CELLS, /* calls whose beginning was not known at their end, by operation */
	BY_TASK = UNTIMED + OPERATIONS,
	TASKS = 256,
	STRIDE = BY_TASK + TASKS * TIME_CELLS,

	BEGUN_BITS = 8,
	/* Less than any thread's stack; what is further away is another one. */
	STACK = 16 << 10,
	PF_KTHREAD = 0x00200000, /* include/linux/sched.h */
	TS_COMPAT = 2,           /* arch/x86/include/asm/thread_info.h */
	/* Calls beyond the table of numbers, see bounce.go. */
	MOST_CALLS = 500,
	CALL_UNKNOWN = MOST_CALLS,
	CALL_COMPAT,
	CALL_THREAD,
	NO_CALL,
};

/* What runs; an interrupt may do so in the middle of another's. */
enum { MAPPED, BEGIN, END, EVENTS };

COUNTS(STRIDE);

struct kobject {
	const char *name;
} KERNEL_TYPE;

struct device {
	struct kobject kobj;
	const char *init_name;
} KERNEL_TYPE;

struct device_name {
	char text[DEVICE_NAME];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, DEVICES);
	__type(key, struct device_name);
	__type(value, __u32);
} devices SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, DEVICES);
	__type(key, __u32);
	__type(value, struct device_name);
} names SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} devices_used SEC(".maps");

static __always_inline __u32 new_device(struct device_name *key)
{
	__u32 zero = 0, slot, *used = bpf_map_lookup_elem(&devices_used, &zero), *p;
	struct device_name *name;

	/* Slot 0 is OTHER, so the count of slots given out is one behind. */
	if (!used || *used + 1 >= DEVICES)
		return OTHER;
	slot = __sync_fetch_and_add(used, 1) + 1;
	if (slot >= DEVICES)
		return OTHER;
	name = bpf_map_lookup_elem(&names, &slot);
	if (!name)
		return OTHER;
	*name = *key;
	if (!bpf_map_update_elem(&devices, key, &slot, BPF_NOEXIST))
		return slot;
	/* Another CPU was faster; this slot stays empty. */
	p = bpf_map_lookup_elem(&devices, key);
	return p ? *p : OTHER;
}

/* The name that dev_name() of include/linux/device.h gives. */
static __always_inline __u32 device_slot(struct device *dev, int typed)
{
	struct device_name key = {};
	const char *name;
	__u32 *p;

	name = typed ? dev->init_name : BPF_CORE_READ(dev, init_name);
	if (!name)
		name = typed ? dev->kobj.name : BPF_CORE_READ(dev, kobj.name);
	if (bpf_probe_read_kernel_str(&key, sizeof(key), name) <= 1)
		return OTHER;
	p = bpf_map_lookup_elem(&devices, &key);
	return p ? *p : new_device(&key);
}

/* Without a device it counts for OTHER. */
static __always_inline int bounced(struct device *dev, __u64 bytes, int typed)
{
	__u32 cpu = bpf_get_smp_processor_id();
	MEASURED struct run run = ran(cpu, MAPPED, EVENTS);
	__u32 slot = dev ? device_slot(dev, typed) : OTHER;

	if (slot >= DEVICES)
		return 0;
	add(&counts, STRIDE, cpu, slot * CELLS + MAPPINGS, 1);
	add(&counts, STRIDE, cpu, slot * CELLS + BYTES, bytes);
	return 0;
}

SEC("tp_btf/swiotlb_bounced")
int bounced_btf(__u64 *args) { return bounced((void *)args[0], args[2], 1); }

SEC("raw_tp/swiotlb_bounced")
int bounced_raw(__u64 *args) { return bounced((void *)args[0], args[2], 0); }

/* Lockdown in confidentiality mode forbids reading the kernel's memory, so names too. */
SEC("raw_tp/swiotlb_bounced")
int bounced_nameless(__u64 *args) { return bounced(0, args[2], 0); }

/* What a thread did: its process's name, and its system call or one of CALL_. */
struct doing {
	char name[COMM];
	__u32 call;
	__u32 unused; /* the entries of the array that user space reads are whole words */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, TASKS);
	__type(key, struct doing);
	__type(value, __u32);
} doings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, TASKS);
	__type(key, __u32);
	__type(value, struct doing);
} tasks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} tasks_used SEC(".maps");

struct pt_regs {
	unsigned long ax; /* x86-64; elsewhere the object has no kretprobe */
	unsigned long orig_ax;
} KERNEL_TYPE;

struct pt_regs___arm {
	int syscallno;
} KERNEL_TYPE;

/*
 * on_stack reports whether a program's context, which lies on the stack of the
 * function that it watches, is on the stack of the current thread. Interrupts have
 * stacks of their own, but one that comes while a program is in user space uses the
 * thread's (arch/x86/include/asm/irq_stack.h). It cannot be told from a page fault.
 */
static __always_inline int on_stack(struct task_struct *task, void *ctx)
{
	void *bottom = (void *)bpf_task_pt_regs(task);

	/* In one instruction, which the verifier accepts as a difference of pointers. */
	asm volatile("%0 -= %1" : "+r"(bottom) : "r"(ctx));
	return (__u64)bottom < STACK;
}

static __always_inline __u32 call_of(struct task_struct *task)
{
	struct pt_regs *bottom = (void *)bpf_task_pt_regs(task);
	long nr = -1;

	if (task->flags & PF_KTHREAD)
		return CALL_THREAD;
	if (bpf_core_field_exists(bottom->orig_ax))
		nr = bottom->orig_ax;
	else if (bpf_core_field_exists(((struct pt_regs___arm *)bottom)->syscallno))
		nr = ((struct pt_regs___arm *)bottom)->syscallno;
	if (nr < 0)
		return NO_CALL;
	if (bpf_core_field_exists(task->thread_info.status) && task->thread_info.status & TS_COMPAT)
		return CALL_COMPAT;
	return nr < MOST_CALLS ? nr : CALL_UNKNOWN;
}

static __noinline __u32 new_doing(const struct doing *key)
{
	__u32 zero = 0, slot, *used = bpf_map_lookup_elem(&tasks_used, &zero), *p;
	struct doing *d;

	if (!key || !used || *used + 1 >= TASKS)
		return OTHER;
	slot = __sync_fetch_and_add(used, 1) + 1;
	if (slot >= TASKS)
		return OTHER;
	d = bpf_map_lookup_elem(&tasks, &slot);
	if (!d)
		return OTHER;
	*d = *key;
	if (!bpf_map_update_elem(&doings, key, &slot, BPF_NOEXIST))
		return slot;
	/* Another CPU was faster; this slot stays empty. */
	p = bpf_map_lookup_elem(&doings, key);
	return p ? *p : OTHER;
}

static __always_inline __u32 doing_slot(struct task_struct *task, __u32 call)
{
	struct task_struct *leader = task->group_leader;
	int i, ended = 0, kthread = !!(task->flags & PF_KTHREAD);
	struct doing key = {};
	__u32 *p;

	/* Kernel threads append a CPU or work queue to their name after a slash. */
#pragma unroll
	for (i = 0; i < COMM - 1; i++) {
		char c = leader->comm[i];

		if (!c || (kthread && c == '/'))
			ended = 1;
		if (!ended)
			key.name[i] = c;
	}
	key.call = call;
	p = bpf_map_lookup_elem(&doings, &key);
	return p ? *p : new_doing(&key);
}

/* The call under way of a thread, or of an interrupt on its own stack; one that is overwritten is not timed. */
struct begun {
	__u64 whose;
	__u64 at;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1 << BEGUN_BITS);
	__type(key, __u32);
	__type(value, struct begun);
} begun SEC(".maps");

static __always_inline struct begun *begun_by(__u64 whose)
{
	__u32 i = whose * 0x9e3779b97f4a7c15ull >> (64 - BEGUN_BITS);

	return bpf_map_lookup_elem(&begun, &i);
}

/* Tasks lie at even addresses. */
static __always_inline __u64 whose(int interrupt)
{
	return bpf_get_current_task() | interrupt;
}

static __noinline int begin(void *ctx)
{
	MEASURED struct run run = ran(bpf_get_smp_processor_id(), BEGIN, EVENTS);
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 key = whose(!on_stack(task, ctx));
	struct begun *b = begun_by(key);

	if (b) {
		b->whose = key;
		b->at = bpf_ktime_get_ns();
	}
	return 0;
}

static __noinline int end(void *ctx, __u32 operation)
{
	__u64 now = bpf_ktime_get_ns(), key, took;
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 cpu = bpf_get_smp_processor_id(), cell, call = NO_CALL;
	MEASURED struct run run = ran(cpu, END, EVENTS);
	int interrupt = !on_stack(task, ctx);
	struct begun *b;

	key = whose(interrupt);
	b = begun_by(key);
	if (!b || b->whose != key || !b->at || now < b->at) {
		add(&counts, STRIDE, cpu, UNTIMED + operation, 1);
		return 0;
	}
	took = now - b->at;
	b->at = 0;
	if (!interrupt) {
		call = call_of(task);
		interrupt = call == NO_CALL;
	}
	cell = TIMES + (operation * CONTEXTS + interrupt) * TIME_CELLS;
	add(&counts, STRIDE, cpu, cell + CALLS, 1);
	add(&counts, STRIDE, cpu, cell + NANOSECONDS, took);
	if (interrupt)
		return 0;
	cell = BY_TASK + (doing_slot(task, call) & (TASKS - 1)) * TIME_CELLS;
	add(&counts, STRIDE, cpu, cell + CALLS, 1);
	add(&counts, STRIDE, cpu, cell + NANOSECONDS, took);
	return 0;
}

static __always_inline int returned(void *ctx, __u64 address)
{
	__u32 cpu = bpf_get_smp_processor_id();

	add(&counts, STRIDE, cpu, RETURNS, 1);
	if (address == ~0ull) /* DMA_MAPPING_ERROR */
		add(&counts, STRIDE, cpu, FULL, 1);
	return end(ctx, OP_MAP);
}

/* The number of arguments differs by version, so a helper finds the result. */
SEC("fexit/swiotlb_tbl_map_single")
int full_fexit(__u64 *args)
{
	__u64 address = 0;

	bpf_get_func_ret(args, &address);
	return returned(args, address);
}

SEC("kretprobe/swiotlb_tbl_map_single")
int full_kretprobe(struct pt_regs *regs) { return returned(regs, regs->ax); }

#define ENTRY(name, function)                                   \
	SEC("fentry/" #function)                                \
	int name##_fentry(__u64 *args) { return begin(args); }  \
	SEC("kprobe/" #function)                                \
	int name##_kprobe(struct pt_regs *regs) { return begin(regs); }

#define EXIT(name, function, operation)                                     \
	SEC("fexit/" #function)                                             \
	int name##_fexit(__u64 *args) { return end(args, operation); }      \
	SEC("kretprobe/" #function)                                         \
	int name##_kretprobe(struct pt_regs *regs) { return end(regs, operation); }

#define SPAN(name, function, operation) ENTRY(name, function) EXIT(name, function, operation)

ENTRY(map, swiotlb_tbl_map_single)
SPAN(unmap, __swiotlb_tbl_unmap_single, OP_UNMAP)
SPAN(unmap_old, swiotlb_tbl_unmap_single, OP_UNMAP)
SPAN(device, __swiotlb_sync_single_for_device, OP_SYNC)
SPAN(device_old, swiotlb_sync_single_for_device, OP_SYNC)
SPAN(cpu, __swiotlb_sync_single_for_cpu, OP_SYNC)
SPAN(cpu_old, swiotlb_sync_single_for_cpu, OP_SYNC)

char LICENSE[] SEC("license") = "Dual BSD/GPL";
