//go:build ignore
// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Page-cache operations in pages: a folio counts as many pages as it has.
 *
 *   add           filemap:mm_filemap_add_to_page_cache
 *   access        filemap:mm_filemap_get_pages, else folio_mark_accessed
 *   dirty         writeback:writeback_dirty_folio
 *   buffer_dirty  block:block_dirty_buffer
 */
#include "runs.h"

enum { ADD, ACCESS, DIRTY, BUFFER_DIRTY, OPERATIONS, STRIDE = 8 };

COUNTS(STRIDE);

/* The flags are wrapped in a structure since Linux 6.18, and the size is kept in one of three places. */
typedef struct {
	unsigned long f;
} KERNEL_TYPE memdesc_flags_t;

struct folio {
	memdesc_flags_t flags;
	unsigned long _flags_1;
} KERNEL_TYPE;

struct folio___plain {
	unsigned long flags;
} KERNEL_TYPE;

struct folio___6_1 {
	unsigned char _folio_order;
} KERNEL_TYPE;

enum pageflags { PG_head };

/* A typed program reads the kernel's memory directly; others copy it. */
#define READ(typed, p, field) ((typed) ? (p)->field : BPF_CORE_READ(p, field))

static __always_inline __u64 pages(struct folio *folio, int typed)
{
	struct folio___plain *plain = (void *)folio;
	struct folio___6_1 *older = (void *)folio;
	__u64 flags, order;

	if (bpf_core_field_exists(plain->flags))
		flags = READ(typed, plain, flags);
	else
		flags = READ(typed, folio, flags.f);
	if (!(flags >> bpf_core_enum_value(enum pageflags, PG_head) & 1))
		return 1;
	if (bpf_core_field_exists(older->_folio_order))
		order = READ(typed, older, _folio_order);
	else
		order = READ(typed, folio, _flags_1);
	return 1ull << (order & 63);
}

static __always_inline int count(__u32 operation, struct folio *folio, int typed)
{
	__u32 cpu = bpf_get_smp_processor_id();
	MEASURED struct run run = ran(cpu, operation, OPERATIONS);

	add(&counts, STRIDE, cpu, operation, folio ? pages(folio, typed) : 1);
	return 0;
}

SEC("tp_btf/mm_filemap_add_to_page_cache")
int add_btf(__u64 *args) { return count(ADD, (void *)args[0], 1); }

SEC("raw_tp/mm_filemap_add_to_page_cache")
int add_raw(__u64 *args) { return count(ADD, (void *)args[0], 0); }

SEC("tp_btf/writeback_dirty_folio")
int dirty_btf(__u64 *args) { return count(DIRTY, (void *)args[0], 1); }

SEC("raw_tp/writeback_dirty_folio")
int dirty_raw(__u64 *args) { return count(DIRTY, (void *)args[0], 0); }

/* A buffer lies in one page. */
SEC("tp_btf/block_dirty_buffer")
int buffer_dirty_btf(__u64 *args) { return count(BUFFER_DIRTY, 0, 1); }

SEC("raw_tp/block_dirty_buffer")
int buffer_dirty_raw(__u64 *args) { return count(BUFFER_DIRTY, 0, 0); }

/*
 * A large read fetches its pages in several steps, and each requests everything
 * left: 4 MiB in one read(2) would count seventeen times. So a task's last step
 * is remembered, and a later step towards the same end adds nothing.
 */
struct step {
	__u64 task;
	__u64 mapping;
	__u64 index;
	__u64 last;
};

enum { STEPS_BITS = 10, STEPS = 1 << STEPS_BITS };

/* By hash of the task, not by CPU: a read sleeps, and wakes up elsewhere. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, STEPS);
	__type(key, __u32);
	__type(value, struct step);
} steps SEC(".maps");

static __always_inline int get_pages(__u64 *args)
{
	__u32 cpu = bpf_get_smp_processor_id();
	MEASURED struct run run = ran(cpu, ACCESS, OPERATIONS);
	__u64 mapping = args[0], index = args[1], last = args[2];
	__u64 task = bpf_get_current_task();
	__u32 i = task * 0x9e3779b97f4a7c15ull >> (64 - STEPS_BITS);
	struct step *s = bpf_map_lookup_elem(&steps, &i);

	if (!s)
		return 0;
	if (s->task == task && s->mapping == mapping && s->last == last && s->index < index) {
		s->index = index;
		return 0;
	}
	s->task = task;
	s->mapping = mapping;
	s->index = index;
	s->last = last;
	add(&counts, STRIDE, cpu, ACCESS, last - index + 1);
	return 0;
}

SEC("tp_btf/mm_filemap_get_pages")
int access_btf(__u64 *args) { return get_pages(args); }

SEC("raw_tp/mm_filemap_get_pages")
int access_raw(__u64 *args) { return get_pages(args); }

SEC("fentry/folio_mark_accessed")
int access_fentry(__u64 *args) { return count(ACCESS, (void *)args[0], 1); }

/* The first argument of a function on x86-64; elsewhere the object has no kprobe. */
struct pt_regs {
	unsigned long di;
} KERNEL_TYPE;

SEC("kprobe/folio_mark_accessed")
int access_kprobe(struct pt_regs *regs)
{
	return count(ACCESS, (void *)BPF_CORE_READ(regs, di), 0);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
