// SPDX-License-Identifier: GPL-2.0-only
/*
 * Calls what a confidential guest's kernel calls, so that probes on it can be
 * seen to fire where there is none: set_memory_decrypted and set_memory_encrypted,
 * which do nothing outside a confidential VM, and functions with the names and
 * signatures of the attestation drivers' own. Writing a number to the parameter
 * "trigger" makes so many calls of each, the conversions of two pages.
 */
#include <linux/gfp.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/set_memory.h>

struct tsm_report;

/* noipa: a call is a call, with all its arguments, whatever the compiler knows. */
#define DRIVER __attribute__((noipa))

int tdx_report_new(struct tsm_report *report, void *data);
int sev_report_new(struct tsm_report *report, void *data);
int arm_cca_report_new(struct tsm_report *report, void *data);

DRIVER int tdx_report_new(struct tsm_report *report, void *data)
{
	return 0;
}

DRIVER int sev_report_new(struct tsm_report *report, void *data)
{
	return 0;
}

/* Fails always. */
DRIVER int arm_cca_report_new(struct tsm_report *report, void *data)
{
	return -EIO;
}

static int trigger(const char *value, const struct kernel_param *kp)
{
	unsigned int i, n;
	unsigned long pages;
	int err = kstrtouint(value, 0, &n);

	if (err)
		return err;
	pages = __get_free_pages(GFP_KERNEL, 1);
	if (!pages)
		return -ENOMEM;
	for (i = 0; i < n && !err; i++) {
		err = set_memory_decrypted(pages, 2);
		err = err ?: set_memory_encrypted(pages, 2);
		tdx_report_new(NULL, NULL);
		sev_report_new(NULL, NULL);
		arm_cca_report_new(NULL, NULL);
	}
	free_pages(pages, 1);
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
MODULE_DESCRIPTION("Calls of a confidential guest's kernel, for tests of probes");
