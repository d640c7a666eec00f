//go:build ignore
// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Bounce buffers by device.
 *
 *   bounced  swiotlb:swiotlb_bounced, once for each mapping that asks for a buffer
 *   full     the return of swiotlb_tbl_map_single: no room for a mapping
 *
 * A device gets its own slot when it first bounces. If all are taken or its
 * name cannot be read, it is counted in slot OTHER.
 */
#include "common.h"

enum {
	OTHER = 0,
	DEVICES = 65,
	DEVICE_NAME = 48, /* a VMBus device has a GUID for a name */
	MAPPINGS = 0,
	BYTES,
	CELLS,
	RETURNS = DEVICES * CELLS,
	FULL,
	STRIDE,
};

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

static __always_inline int bounced(__u32 slot, __u64 bytes)
{
	__u32 cpu = bpf_get_smp_processor_id();

	if (slot >= DEVICES)
		return 0;
	add(&counts, STRIDE, cpu, slot * CELLS + MAPPINGS, 1);
	add(&counts, STRIDE, cpu, slot * CELLS + BYTES, bytes);
	return 0;
}

SEC("tp_btf/swiotlb_bounced")
int bounced_btf(__u64 *args) { return bounced(device_slot((void *)args[0], 1), args[2]); }

SEC("raw_tp/swiotlb_bounced")
int bounced_raw(__u64 *args) { return bounced(device_slot((void *)args[0], 0), args[2]); }

/* Lockdown in confidentiality mode forbids reading the kernel's memory, so names too. */
SEC("raw_tp/swiotlb_bounced")
int bounced_nameless(__u64 *args) { return bounced(OTHER, args[2]); }

static __always_inline int returned(__u64 address)
{
	__u32 cpu = bpf_get_smp_processor_id();

	add(&counts, STRIDE, cpu, RETURNS, 1);
	if (address == ~0ull) /* DMA_MAPPING_ERROR */
		add(&counts, STRIDE, cpu, FULL, 1);
	return 0;
}

/* The number of arguments differs by version, so a helper finds the result. */
SEC("fexit/swiotlb_tbl_map_single")
int full_fexit(__u64 *args)
{
	__u64 address = 0;

	bpf_get_func_ret(args, &address);
	return returned(address);
}

/* The result of a function on x86-64; elsewhere the object has no kretprobe. */
struct pt_regs {
	unsigned long ax;
} KERNEL_TYPE;

SEC("kretprobe/swiotlb_tbl_map_single")
int full_kretprobe(struct pt_regs *regs) { return returned(regs->ax); }

char LICENSE[] SEC("license") = "Dual BSD/GPL";
