//go:build ignore
// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Attestation evidence that is made for a confidential VM. All but the first are
 * what the kernel's one interface for it, configfs-tsm, calls in the platform's
 * module (drivers/virt/coco, struct tsm_ops).
 *
 *   tdx_mcall_get_report0  TDX: a report of the TDX module, for this machine
 *   tdx_report_new         TDX: a quote, which the host's quoting service signs
 *   sev_report_new         SEV-SNP: a report that the secure processor signs
 *   arm_cca_report_new     CCA: a token of the realm management monitor
 */
enum { TDX_REPORT, TDX_QUOTE, SEV_REPORT, CCA_TOKEN, SPANS };

#include "guestspan.h"

SEC("fentry/tdx_mcall_get_report0")
int tdx_report_fentry(__u64 *args) { return begin(TDX_REPORT, 1); }

SEC("fexit/tdx_mcall_get_report0")
int tdx_report_fexit(__u64 *args) { return end(TDX_REPORT, (int)args[2]); }

SEC("fentry/tdx_report_new")
int tdx_quote_fentry(__u64 *args) { return begin(TDX_QUOTE, 1); }

SEC("fexit/tdx_report_new")
int tdx_quote_fexit(__u64 *args) { return end(TDX_QUOTE, (int)args[2]); }

SEC("fentry/sev_report_new")
int sev_report_fentry(__u64 *args) { return begin(SEV_REPORT, 1); }

SEC("fexit/sev_report_new")
int sev_report_fexit(__u64 *args) { return end(SEV_REPORT, (int)args[2]); }

SEC("fentry/arm_cca_report_new")
int cca_token_fentry(__u64 *args) { return begin(CCA_TOKEN, 1); }

SEC("fexit/arm_cca_report_new")
int cca_token_fexit(__u64 *args) { return end(CCA_TOKEN, (int)args[2]); }

char LICENSE[] SEC("license") = "Dual BSD/GPL";
