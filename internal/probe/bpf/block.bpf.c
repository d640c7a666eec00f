//go:build ignore
// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Requests to block devices by device and operation, with their latency.
 *
 *   issue     block:block_rq_issue     the driver gets the request
 *   complete  block:block_rq_complete  the device has answered, for all or a part
 *
 * Requests and bytes are counted at completion, even if the issue was not seen;
 * the latency is counted only if it was. A request that the driver gave back
 * and was issued again counts from the last issue.
 */
#include "runs.h"

enum { OP_READ, OP_WRITE, OP_FLUSH, OP_DISCARD, OP_OTHER, OPERATIONS };

enum {
	DEVICES = 33, /* 32 named ones, and one for devices without a slot */
	NO_DEVICE = 0,
	PENDING = 8192,

	/* Cells of a device's operation, before its histogram. */
	REQUESTS = 0,
	BYTES,
	ERRORS,
	LATENCY,
	CELLS = LATENCY + HIST_CELLS,

	/* Cells of a row, before those. */
	LOST = 0, /* requests that found no free entry at issue */
	FIRST,
	STRIDE = FIRST + DEVICES * OPERATIONS * CELLS,
};

/* A completion interrupts an issue. */
enum { ISSUE, COMPLETION, EVENTS };

const volatile __u32 max_devices = DEVICES;

COUNTS(STRIDE);

struct gendisk {
	char disk_name[32];
} KERNEL_TYPE;

struct request_queue {
	struct gendisk *disk; /* since Linux 5.15 */
} KERNEL_TYPE;

struct request {
	struct request_queue *q;
	unsigned int cmd_flags;
	unsigned int __data_len;
	struct gendisk *rq_disk; /* until Linux 5.16 */
} KERNEL_TYPE;

enum req_op { REQ_OP_READ, REQ_OP_WRITE, REQ_OP_FLUSH, REQ_OP_DISCARD };

/* When the driver got a request, by its address. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PENDING);
	__type(key, __u64);
	__type(value, __u64);
} pending SEC(".maps");

/*
 * When the programs were attached last: what began before may have completed and
 * begun again unseen. User space sets it to zero, the first event to the time.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} since SEC(".maps");

struct device {
	__u64 word[2]; /* the first bytes of its name */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, DEVICES);
	__type(key, struct device);
	__type(value, __u32);
} device_slots SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, DEVICES);
	__type(key, __u32);
	__type(value, struct device);
} devices SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} devices_used SEC(".maps");

/* A slot is given out once and then belongs to that name. */
static __always_inline __u32 device_slot(const struct device *name)
{
	__u32 zero = 0, slot, *p = bpf_map_lookup_elem(&device_slots, name);
	struct device *d;

	if (p)
		return *p;
	p = bpf_map_lookup_elem(&devices_used, &zero);
	if (!p || *p + 1 >= max_devices)
		return NO_DEVICE;
	slot = __sync_fetch_and_add(p, 1) + 1;
	if (slot >= max_devices)
		return NO_DEVICE;
	d = bpf_map_lookup_elem(&devices, &slot);
	if (!d)
		return NO_DEVICE;
	*d = *name;
	if (!bpf_map_update_elem(&device_slots, name, &slot, BPF_NOEXIST))
		return slot;
	p = bpf_map_lookup_elem(&device_slots, name);
	return p ? *p : NO_DEVICE;
}

static __always_inline __u32 operation(__u32 flags)
{
	__u32 op = flags & 0xff; /* REQ_OP_MASK of include/linux/blk_types.h */

	if (op == bpf_core_enum_value(enum req_op, REQ_OP_READ))
		return OP_READ;
	if (op == bpf_core_enum_value(enum req_op, REQ_OP_WRITE))
		return OP_WRITE;
	if (op == bpf_core_enum_value(enum req_op, REQ_OP_FLUSH))
		return OP_FLUSH;
	if (op == bpf_core_enum_value(enum req_op, REQ_OP_DISCARD))
		return OP_DISCARD;
	return OP_OTHER;
}

static __always_inline int issue(__u64 rq)
{
	__u32 cpu = bpf_get_smp_processor_id(), zero = 0;
	MEASURED struct run run = ran(cpu, ISSUE, EVENTS);
	__u64 now = bpf_ktime_get_ns();
	__u64 *s = bpf_map_lookup_elem(&since, &zero);

	if (s && !*s)
		__sync_val_compare_and_swap(s, 0, now);
	if (bpf_map_update_elem(&pending, &rq, &now, 0 /* BPF_ANY */))
		add(&counts, STRIDE, cpu, LOST, 1);
	return 0;
}

/* A typed program reads the kernel's memory directly, others ask for a copy. */
#define READ(typed, p, field) ((typed) ? (p)->field : BPF_CORE_READ(p, field))

static __always_inline int complete(struct request *rq, __u32 error, __u32 bytes, int typed)
{
	__u64 key = (__u64)rq, *began, *s;
	__u32 cpu = bpf_get_smp_processor_id(), zero = 0, op, cell;
	MEASURED struct run run = ran(cpu, COMPLETION, EVENTS);
	struct request_queue *q;
	struct gendisk *disk = 0;
	struct device name;

	q = READ(typed, rq, q);
	if (bpf_core_field_exists(q->disk))
		disk = READ(typed, q, disk);
	else if (bpf_core_field_exists(rq->rq_disk))
		disk = READ(typed, rq, rq_disk);
	/* Queues without a disk carry drivers' commands to their devices. */
	if (!disk)
		return 0;
	op = operation(READ(typed, rq, cmd_flags));
	/*
	 * An empty write requested a flush (fsync of a device): the flush is a
	 * separate request, and this one was never issued to the driver.
	 */
	if (!bytes && op == OP_WRITE)
		return 0;
	if (typed) {
		name.word[0] = *(__u64 *)&disk->disk_name[0];
		name.word[1] = *(__u64 *)&disk->disk_name[8];
	} else {
		bpf_core_read(&name, sizeof(name), &disk->disk_name);
	}
	cell = FIRST + (device_slot(&name) * OPERATIONS + op) * CELLS;
	if (!error)
		add(&counts, STRIDE, cpu, cell + BYTES, bytes);
	if (bytes < READ(typed, rq, __data_len))
		return 0; /* the rest is to come */
	add(&counts, STRIDE, cpu, cell + REQUESTS, 1);
	if (error)
		add(&counts, STRIDE, cpu, cell + ERRORS, 1);
	began = bpf_map_lookup_elem(&pending, &key);
	if (!began)
		return 0;
	s = bpf_map_lookup_elem(&since, &zero);
	if (s && *s && *began >= *s)
		hist(&counts, STRIDE, cpu, cell + LATENCY, bpf_ktime_get_ns() - *began);
	bpf_map_delete_elem(&pending, &key);
	return 0;
}

SEC("tp_btf/block_rq_issue")
int issue_btf(__u64 *args) { return issue(args[0]); }

SEC("raw_tp/block_rq_issue")
int issue_raw(__u64 *args) { return issue(args[0]); }

/* The status is a byte since Linux 5.16; before, it was an error number. */
SEC("tp_btf/block_rq_complete")
int complete_btf(__u64 *args) { return complete((void *)args[0], (__u8)args[1], args[2], 1); }

SEC("raw_tp/block_rq_complete")
int complete_raw(__u64 *args) { return complete((void *)args[0], (__u8)args[1], args[2], 0); }

char LICENSE[] SEC("license") = "Dual BSD/GPL";
