//go:build ignore
// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Events of the in-tree SGX driver (arch/x86/kernel/cpu/sgx, Linux 5.11 and
 * later, x86 only), seen at its internal functions: it has no tracepoints and no
 * statistics. Each function has a program for fentry or fexit and one for a
 * kprobe or kretprobe; the loader takes what the running kernel lets it attach.
 *
 * Nothing here reads a structure of the driver: arguments and return values
 * suffice, so no change of a layout matters, and lockdown in
 * confidentiality mode leaves it alone.
 */
#include "process.h"

enum { BPF_ANY = 0 };

/* Registers of a kprobe, arch/x86/include/asm/ptrace.h. */
struct pt_regs {
	__u64 r15, r14, r13, r12, bp, bx, r11, r10, r9, r8;
	__u64 ax, cx, dx, si, di;
};

/* Per process. */
enum { ALLOCATED_BY, LOADED_BY, FAULTS_BY, BY };

/* sgx.go has the same order. */
enum event {
	OPENED,
	CREATED,
	INITIALIZED,
	REMOVED,
	ADDED,
	BUSY,
	NO_MEMORY,
	INTERRUPTED,
	FAILED,
	FREED,
	EVICTED,
	MARKED_OLD,
	BATCHES_BACKGROUND,
	BATCHES_DIRECT,
	FAULTS_RESOLVED,
	FAULTS_FAILED,
	EVENTS,
};

enum {
	FIRST_EVENT = PROCESSES * BY,
	FAULT_TIME = FIRST_EVENT + EVENTS,
	RECLAIM_BACKGROUND = FAULT_TIME + HIST_CELLS,
	RECLAIM_DIRECT = RECLAIM_BACKGROUND + HIST_CELLS,
	STRIDE = RECLAIM_DIRECT + HIST_CELLS,
};

COUNTS(STRIDE);

/*
 * Calls under way, by thread, with what their end needs to know of the
 * beginning. Each function has its own table, so one whose end is not seen, and
 * whose table therefore fills up, affects no other.
 */
struct call {
	__u64 at;
	__u64 command;
};

#define CALLS(name)                         \
	struct {                                \
		__uint(type, BPF_MAP_TYPE_HASH);    \
		__uint(max_entries, 4096);          \
		__type(key, __u32);                 \
		__type(value, struct call);         \
	} name SEC(".maps")

CALLS(ioctls);
CALLS(reclaims);
CALLS(faults);

/*
 * The time of the first call since the programs were attached. User space sets
 * it to zero before it attaches them again, because earlier calls may have
 * ended unseen.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} since SEC(".maps");

static __always_inline void count(enum event e)
{
	add(&counts, STRIDE, bpf_get_smp_processor_id(), FIRST_EVENT + e, 1);
}

/*
 * count_by adds to a cell of the current process. Each program that calls it
 * has its own part of the cache: on a preemptible kernel one may interrupt
 * another.
 */
static __always_inline void count_by(__u32 what)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 cpu = bpf_get_smp_processor_id();
	__u32 slot = process_slot(task->group_leader, !!(task->flags & PF_KTHREAD), cpu * BY + what);

	add(&counts, STRIDE, cpu, slot * BY + what, 1);
}

static __always_inline void begin(void *calls, __u64 command)
{
	struct call c = { .at = bpf_ktime_get_ns(), .command = command };
	__u32 thread = bpf_get_current_pid_tgid(), zero = 0;
	__u64 *first = bpf_map_lookup_elem(&since, &zero);

	if (first && !*first)
		*first = c.at;
	bpf_map_update_elem(calls, &thread, &c, BPF_ANY);
}

/* end ends a call and reports whether its beginning was seen. */
static __always_inline int end(void *calls, struct call *out)
{
	__u32 thread = bpf_get_current_pid_tgid(), zero = 0;
	struct call *c = bpf_map_lookup_elem(calls, &thread);
	__u64 *first = bpf_map_lookup_elem(&since, &zero);

	if (!c)
		return 0;
	*out = *c;
	bpf_map_delete_elem(calls, &thread);
	return first && *first && out->at >= *first;
}

static __always_inline void time(__u32 cell, const struct call *c)
{
	hist(&counts, STRIDE, bpf_get_smp_processor_id(), cell, bpf_ktime_get_ns() - c->at);
}

/*
 * AT_ENTRY and AT_EXIT give the body that follows two programs. A body takes
 * what it names and nothing else is read: a function may have fewer arguments.
 * At the exit the arguments are known to fexit only.
 */
#define AT_ENTRY(function)                                                                        \
	static __always_inline void enter_##function(__u64 first, __u64 second);                  \
	SEC("fentry/" #function)                                                                  \
	int function##_fentry(__u64 *args)                                                        \
	{                                                                                         \
		MEASURED struct run run = ran(bpf_get_smp_processor_id(), 0, 1);                     \
		enter_##function(args[0], args[1]);                                               \
		return 0;                                                                         \
	}                                                                                         \
	SEC("kprobe/" #function)                                                                  \
	int function##_kprobe(struct pt_regs *regs)                                               \
	{                                                                                         \
		MEASURED struct run run = ran(bpf_get_smp_processor_id(), 0, 1);                     \
		enter_##function(regs->di, regs->si);                                             \
		return 0;                                                                         \
	}                                                                                         \
	static __always_inline void enter_##function(__u64 first, __u64 second)

/* The helper finds the return value whatever the number of arguments (Linux 5.17). */
#define AT_EXIT(function)                                                                         \
	static __always_inline void leave_##function(__s64 returned, __u64 first);                \
	SEC("fexit/" #function)                                                                   \
	int function##_fexit(__u64 *args)                                                         \
	{                                                                                         \
		__u64 returned = 0;                                                               \
                                                                                                  \
		MEASURED struct run run = ran(bpf_get_smp_processor_id(), 0, 1);                     \
		bpf_get_func_ret(args, &returned);                                                \
		leave_##function(returned, args[0]);                                              \
		return 0;                                                                         \
	}                                                                                         \
	SEC("kretprobe/" #function)                                                               \
	int function##_kretprobe(struct pt_regs *regs)                                            \
	{                                                                                         \
		MEASURED struct run run = ran(bpf_get_smp_processor_id(), 0, 1);                     \
		leave_##function(regs->ax, UNKNOWN);                                              \
		return 0;                                                                         \
	}                                                                                         \
	static __always_inline void leave_##function(__s64 returned, __u64 first)

#define UNKNOWN (~0ull)

/* Errors, include/uapi/asm-generic/errno-base.h and include/linux/errno.h. */
enum { NOMEM = 12, EBUSY = 16, ERESTARTSYS = 512, MAX_ERRNO = 4095 };

/* A pointer that is an error, include/linux/err.h. */
static __always_inline int is_error(__s64 pointer)
{
	return (__u64)pointer >= (__u64)-MAX_ERRNO;
}

/* Commands of /dev/sgx_enclave, arch/x86/include/uapi/asm/sgx.h. */
enum { SGX_MAGIC = 0xa4, SGX_ADD_PAGES = SGX_MAGIC << 8 | 1, SGX_INIT = SGX_MAGIC << 8 | 2 };

AT_EXIT(sgx_open)
{
	if (!(int)returned)
		count(OPENED);
}

AT_EXIT(sgx_encl_create)
{
	if (!(int)returned)
		count(CREATED);
}

AT_ENTRY(sgx_ioctl)
{
	/* Type and number; the rest of the command is direction and size. */
	begin(&ioctls, second & 0xffff);
}

AT_EXIT(sgx_ioctl)
{
	struct call c;

	if (end(&ioctls, &c) && c.command == SGX_INIT && !returned)
		count(INITIALIZED);
}

AT_ENTRY(sgx_encl_release)
{
	count(REMOVED);
}

AT_EXIT(sgx_alloc_epc_page)
{
	__u32 thread = bpf_get_current_pid_tgid();
	struct call *c;

	if (!is_error(returned)) {
		count_by(ALLOCATED_BY);
		c = bpf_map_lookup_elem(&ioctls, &thread);
		/* A page without an owner is a version array of the driver. */
		if (c && c->command == SGX_ADD_PAGES && first)
			count(ADDED);
	} else if (returned == -EBUSY) {
		count(BUSY);
	} else if (returned == -NOMEM) {
		count(NO_MEMORY);
	} else if (returned == -ERESTARTSYS) {
		count(INTERRUPTED);
	} else {
		count(FAILED);
	}
}

AT_ENTRY(sgx_free_epc_page)
{
	count(FREED);
}

AT_ENTRY(sgx_reclaim_pages)
{
	begin(&reclaims, 0);
}

AT_EXIT(sgx_reclaim_pages)
{
	struct task_struct *task = bpf_get_current_task_btf();
	int background = !!(task->flags & PF_KTHREAD);
	struct call c;

	count(background ? BATCHES_BACKGROUND : BATCHES_DIRECT);
	if (end(&reclaims, &c))
		time(background ? RECLAIM_BACKGROUND : RECLAIM_DIRECT, &c);
}

AT_ENTRY(sgx_encl_ewb)
{
	count(EVICTED);
}

AT_EXIT(sgx_encl_eldu)
{
	if (!is_error(returned))
		count_by(LOADED_BY);
}

AT_EXIT(sgx_encl_test_and_clear_young)
{
	if ((int)returned)
		count(MARKED_OLD);
}

AT_ENTRY(sgx_vma_fault)
{
	begin(&faults, 0);
}

/* Results of a fault, include/linux/mm_types.h: out of memory, bus error, segmentation fault. */
enum { VM_FAULT_FAILED = 0x1 | 0x2 | 0x40 };

AT_EXIT(sgx_vma_fault)
{
	struct call c;

	count_by(FAULTS_BY);
	count(returned & VM_FAULT_FAILED ? FAULTS_FAILED : FAULTS_RESOLVED);
	if (end(&faults, &c))
		time(FAULT_TIME, &c);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
