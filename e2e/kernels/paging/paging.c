// SPDX-License-Identifier: GPL-2.0-only
/*
 * Page faults on enclave memory of a known duration, without SGX. Two functions of
 * the kernel's own driver (arch/x86/kernel/cpu/sgx), which such a machine never
 * calls, are replaced as a livepatch does: sgx_vma_fault, and sgx_encl_eldu, which
 * loads a page back and takes delay_us. A device that is called as the driver's has
 * the first as its fault handler, so a process that touches its memory comes through
 * the functions that probes are attached to on a machine with SGX.
 *
 * They are replaced when the parameter "replace" is written, after the probes have been
 * attached: in the other order, Linux 6.1 calls neither (a list with an entry without a
 * function, which it warns of).
 */
#include <linux/err.h>
#include <linux/ftrace.h>
#include <linux/gfp.h>
#include <linux/kprobes.h>
#include <linux/ktime.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/version.h>

static unsigned int delay_us = 300;
module_param(delay_us, uint, 0444);

static unsigned long loaded;
module_param(loaded, ulong, 0444);

static struct page *page;

/* A function of the kernel, and what runs in its place. */
struct replaced {
	const char *name;
	void *instead;
	void *at;
	struct ftrace_ops ops;
};

static vm_fault_t known_fault(struct vm_fault *vmf);
static void *known_eldu(void *loading, void *secs);

static void notrace redirect(unsigned long ip, unsigned long parent, struct ftrace_ops *ops, struct ftrace_regs *regs)
{
	unsigned long to = (unsigned long)container_of(ops, struct replaced, ops)->instead;

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 2, 0)
	ftrace_regs_set_instruction_pointer(regs, to);
#else
	ftrace_instruction_pointer_set(regs, to);
#endif
}

#define REPLACED(function, by) \
	{ .name = #function, .instead = by, .ops = { .func = redirect, .flags = FTRACE_OPS_FL_IPMODIFY } }

static struct replaced fault = REPLACED(sgx_vma_fault, known_fault);
static struct replaced eldu = REPLACED(sgx_encl_eldu, known_eldu);

static void *known_eldu(void *loading, void *secs)
{
	u64 end = ktime_get_ns() + delay_us * NSEC_PER_USEC;

	while (ktime_get_ns() < end)
		cpu_relax();
	loaded++;
	return loading;
}

static vm_fault_t known_fault(struct vm_fault *vmf)
{
	void *(*load)(void *, void *) = eldu.at;

	if (IS_ERR(load(page, NULL)))
		return VM_FAULT_SIGBUS;
	return vmf_insert_pfn(vmf->vma, vmf->address, page_to_pfn(page));
}

/* find looks a function up: its name is not exported, but a probe may be placed on it. */
static int find(struct replaced *r)
{
	struct kprobe probe = { .symbol_name = r->name };
	int err = register_kprobe(&probe);

	if (err)
		return err;
	r->at = probe.addr;
	unregister_kprobe(&probe);
	return 0;
}

static int replace(struct replaced *r)
{
	int err = ftrace_set_filter_ip(&r->ops, (unsigned long)r->at, 0, 0);

	return err ?: register_ftrace_function(&r->ops);
}

static int replace_both(const char *value, const struct kernel_param *kp)
{
	int err = replace(&eldu);

	if (err)
		return err;
	err = replace(&fault);
	if (err)
		unregister_ftrace_function(&eldu.ops);
	return err;
}

static const struct kernel_param_ops replace_ops = { .set = replace_both };
module_param_cb(replace, &replace_ops, NULL, 0200);

static struct vm_operations_struct memory;

static int map(struct file *file, struct vm_area_struct *vma)
{
	const vm_flags_t flags = VM_PFNMAP | VM_DONTEXPAND | VM_DONTDUMP | VM_IO; /* as the driver's */

	vma->vm_ops = &memory;
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 3, 0)
	vm_flags_set(vma, flags);
#else
	vma->vm_flags |= flags;
#endif
	return 0;
}

static const struct file_operations operations = { .owner = THIS_MODULE, .mmap = map };
static struct miscdevice device = { .minor = MISC_DYNAMIC_MINOR, .name = "sgx_enclave", .nodename = "sgx_enclave", .fops = &operations };

static int __init known_init(void)
{
	int err;

	page = alloc_page(GFP_KERNEL | __GFP_ZERO);
	if (!page)
		return -ENOMEM;
	err = find(&eldu);
	err = err ?: find(&fault);
	memory.fault = fault.at;
	err = err ?: misc_register(&device);
	if (err)
		__free_page(page);
	return err;
}

/* Without an exit function the module stays until the guest ends. */
module_init(known_init);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Page faults of a known duration on the SGX driver's way, for tests of explanations");
