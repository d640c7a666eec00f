// SPDX-License-Identifier: GPL-2.0-only
/*
 * A module that looks like two SGX drivers and is none: the parameter folder of
 * the out-of-tree driver isgx with the metrics patch, and functions with the
 * signatures of the in-tree driver (arch/x86/kernel/cpu/sgx) behind a prefix.
 * Writing a number to the parameter "trigger" calls them as the driver would for
 * so many enclaves, so that probes on them can be seen to fire.
 */
#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/err.h>
#include <linux/fs.h>
#include <linux/kref.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/module.h>

#define ADD_PAGES 0xc030a401u /* SGX_IOC_ENCLAVE_ADD_PAGES of uapi/asm/sgx.h */
#define INIT 0x4008a402u /* SGX_IOC_ENCLAVE_INIT */

/* The parameters, in the order of the patch. */
static unsigned int sgx_nr_total_epc_pages = 24064;
static unsigned int sgx_nr_free_pages = 24064;
static unsigned int sgx_nr_low_pages = 32;
static unsigned int sgx_nr_high_pages = 64;
static unsigned int sgx_nr_marked_old;
static unsigned int sgx_nr_evicted;
static unsigned int sgx_nr_reclaimed;
static unsigned int sgx_nr_alloc_pages;
static unsigned int sgx_nr_added_pages;
static unsigned int sgx_init_enclaves;
static unsigned int sgx_nr_enclaves;
static unsigned int sgx_loaded_back;
static unsigned int patch_metrics = 1;

module_param(sgx_nr_total_epc_pages, uint, 0440);
module_param(sgx_nr_free_pages, uint, 0440);
module_param(sgx_nr_low_pages, uint, 0440);
module_param(sgx_nr_high_pages, uint, 0440);
module_param(sgx_nr_marked_old, uint, 0440);
module_param(sgx_nr_evicted, uint, 0440);
module_param(sgx_nr_reclaimed, uint, 0440);
module_param(sgx_nr_alloc_pages, uint, 0440);
module_param(sgx_nr_added_pages, uint, 0440);
module_param(sgx_init_enclaves, uint, 0440);
module_param(sgx_nr_enclaves, uint, 0440);
module_param(sgx_loaded_back, uint, 0440);
module_param(patch_metrics, uint, 0444);

/* The driver's own types; what they hold is its own affair. */
struct stub_page {
	int number;
};

struct stub_encl {
	struct kref refcount;
};

static struct stub_page page;
static struct stub_encl encl;

/* noipa: a call is a call, with all its arguments, whatever the compiler knows. */
#define DRIVER __attribute__((noipa))

int stub_sgx_open(struct inode *inode, struct file *file);
int stub_sgx_encl_create(struct stub_encl *e, void *secs);
long stub_sgx_ioctl(struct file *file, unsigned int cmd, unsigned long arg);
void stub_sgx_encl_release(struct kref *ref);
struct stub_page *stub_sgx_alloc_epc_page(void *owner, bool reclaim);
void stub_sgx_free_epc_page(struct stub_page *p);
void stub_sgx_reclaim_pages(void);
void stub_sgx_encl_ewb(struct stub_page *p, void *backing);
struct stub_page *stub_sgx_encl_eldu(struct stub_page *p, struct stub_page *secs);
int stub_sgx_encl_test_and_clear_young(struct mm_struct *mm, struct stub_page *p);
vm_fault_t stub_sgx_vma_fault(struct vm_fault *vmf);

/* What the next call returns, and in a fault how many pages it takes. */
static int next;

DRIVER int stub_sgx_open(struct inode *inode, struct file *file)
{
	return next;
}

DRIVER int stub_sgx_encl_create(struct stub_encl *e, void *secs)
{
	if (!next)
		sgx_nr_enclaves++;
	return next;
}

DRIVER void stub_sgx_encl_release(struct kref *ref)
{
	if (sgx_nr_enclaves)
		sgx_nr_enclaves--;
}

DRIVER struct stub_page *stub_sgx_alloc_epc_page(void *owner, bool reclaim)
{
	if (next)
		return ERR_PTR(next);
	sgx_nr_alloc_pages++;
	sgx_nr_free_pages--;
	return &page;
}

DRIVER void stub_sgx_free_epc_page(struct stub_page *p)
{
	sgx_nr_free_pages++;
}

DRIVER void stub_sgx_encl_ewb(struct stub_page *p, void *backing)
{
	sgx_nr_evicted++;
	sgx_nr_reclaimed++;
}

DRIVER struct stub_page *stub_sgx_encl_eldu(struct stub_page *p, struct stub_page *secs)
{
	if (next)
		return ERR_PTR(next);
	sgx_loaded_back++;
	return p;
}

DRIVER int stub_sgx_encl_test_and_clear_young(struct mm_struct *mm, struct stub_page *p)
{
	sgx_nr_marked_old += next;
	return next;
}

/* Five pages and the array for their versions, which has no owner. */
DRIVER long stub_sgx_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	int i;

	if (cmd == ADD_PAGES) {
		stub_sgx_alloc_epc_page(NULL, true);
		for (i = 0; i < 5; i++) {
			stub_sgx_alloc_epc_page(&encl, true);
			sgx_nr_added_pages++;
		}
	}
	if (cmd == INIT && !next)
		sgx_init_enclaves++;
	return next;
}

/* One batch: sixteen pages, and ten looked at of which some are young. */
DRIVER void stub_sgx_reclaim_pages(void)
{
	int i, n = current->flags & PF_KTHREAD ? 4 : 16;

	for (i = 0; i < 10; i++) {
		next = i < (n == 4 ? 3 : 4);
		stub_sgx_encl_test_and_clear_young(NULL, &page);
	}
	next = 0;
	for (i = 0; i < n; i++)
		stub_sgx_encl_ewb(&page, NULL);
	usleep_range(300, 400);
}

/* A page that was evicted comes back, or the caller tries again, or gets a signal. */
DRIVER vm_fault_t stub_sgx_vma_fault(struct vm_fault *vmf)
{
	int gone = next == -EFAULT;

	if (!gone && !IS_ERR(stub_sgx_alloc_epc_page(&encl, false)))
		stub_sgx_encl_eldu(&page, NULL);
	usleep_range(300, 400);
	return gone ? VM_FAULT_SIGBUS : VM_FAULT_NOPAGE;
}

static int background(void *done)
{
	stub_sgx_reclaim_pages();
	complete(done);
	return 0;
}

static void set(int value, int times, void (*call)(void))
{
	for (next = value; times > 0; times--)
		call();
	next = 0;
}

static void do_open(void) { stub_sgx_open(NULL, NULL); }
static void do_create(void) { stub_sgx_encl_create(&encl, NULL); }
static void do_add(void) { stub_sgx_ioctl(NULL, ADD_PAGES, 0); }
static void do_init(void) { stub_sgx_ioctl(NULL, INIT, 0); }
static void do_alloc(void) { stub_sgx_alloc_epc_page(&encl, true); }
static void do_fault(void) { stub_sgx_vma_fault(NULL); }
static void do_load(void) { stub_sgx_encl_eldu(&page, NULL); }
static void do_free(void) { stub_sgx_free_epc_page(&page); }
static void do_release(void) { stub_sgx_encl_release(&encl.refcount); }

/*
 * The life of one enclave, and of another that is opened but never created.
 * internal/probe/bpf/sgx_test.go has the numbers.
 */
static int live(void)
{
	DECLARE_COMPLETION_ONSTACK(done);
	struct task_struct *thread;

	set(0, 2, do_open);
	set(-EMFILE, 1, do_open);
	set(0, 1, do_create);
	set(-EINVAL, 1, do_create);
	set(0, 1, do_add); /* 6 pages, 5 of them added */
	set(-EPERM, 1, do_init);
	set(0, 1, do_init);
	set(-EBUSY, 2, do_alloc);
	set(-ENOMEM, 2, do_alloc);
	set(-ERESTARTSYS, 1, do_alloc);
	set(-EIO, 1, do_alloc);
	set(0, 3, do_fault); /* 3 pages loaded back */
	set(-EBUSY, 1, do_fault); /* the third that is busy */
	set(-EFAULT, 1, do_fault);
	set(-EIO, 1, do_load);
	stub_sgx_reclaim_pages();
	thread = kthread_run(background, &done, "ksgxd-stub");
	if (IS_ERR(thread))
		return PTR_ERR(thread);
	wait_for_completion(&done);
	set(0, 9, do_free);
	set(0, 2, do_release);
	return 0;
}

static int trigger(const char *text, const struct kernel_param *kp)
{
	unsigned int n;
	int err = kstrtouint(text, 10, &n);

	for (; !err && n > 0; n--)
		err = live();
	return err;
}

static const struct kernel_param_ops trigger_ops = { .set = trigger };
module_param_cb(trigger, &trigger_ops, NULL, 0200);

static int __init stub_init(void)
{
	return 0;
}

static void __exit stub_exit(void)
{
}

module_init(stub_init);
module_exit(stub_exit);
MODULE_LICENSE("GPL");
MODULE_VERSION("2.11.0");
MODULE_DESCRIPTION("SGX driver functions that do nothing, for tests of probes");
