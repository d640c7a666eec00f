//go:build ignore
// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Memory of a confidential VM that changes hands.
 *
 *   set_memory_decrypted  private pages become shared with the hypervisor
 *   set_memory_encrypted  shared pages become private again
 *   accept_memory         pages that the hypervisor gave are taken into use
 *
 * The first two are the generic functions, below which every platform has its
 * own (tdx_enc_status_changed, the page state changes of SEV-SNP, the RSI calls
 * of CCA). Outside a confidential VM they do nothing, but can be called.
 */
enum { TO_SHARED, TO_PRIVATE, ACCEPT, SPANS };

#include "guestspan.h"

SEC("fentry/set_memory_decrypted")
int to_shared_fentry(__u64 *args) { return begin(TO_SHARED, (__u32)args[1]); }

SEC("fexit/set_memory_decrypted")
int to_shared_fexit(__u64 *args) { return end(TO_SHARED, (int)args[2]); }

SEC("kprobe/set_memory_decrypted")
int to_shared_kprobe(struct pt_regs *regs) { return begin(TO_SHARED, (__u32)regs->si); }

SEC("kretprobe/set_memory_decrypted")
int to_shared_kretprobe(struct pt_regs *regs) { return end(TO_SHARED, (int)regs->ax); }

SEC("fentry/set_memory_encrypted")
int to_private_fentry(__u64 *args) { return begin(TO_PRIVATE, (__u32)args[1]); }

SEC("fexit/set_memory_encrypted")
int to_private_fexit(__u64 *args) { return end(TO_PRIVATE, (int)args[2]); }

SEC("kprobe/set_memory_encrypted")
int to_private_kprobe(struct pt_regs *regs) { return begin(TO_PRIVATE, (__u32)regs->si); }

SEC("kretprobe/set_memory_encrypted")
int to_private_kretprobe(struct pt_regs *regs) { return end(TO_PRIVATE, (int)regs->ax); }

/* The second argument is the end before Linux 6.12 and the size since: it is not read. */
SEC("fentry/accept_memory")
int accept_fentry(__u64 *args) { return begin(ACCEPT, 0); }

SEC("fexit/accept_memory")
int accept_fexit(__u64 *args) { return end(ACCEPT, 0); }

SEC("kprobe/accept_memory")
int accept_kprobe(struct pt_regs *regs) { return begin(ACCEPT, 0); }

SEC("kretprobe/accept_memory")
int accept_kretprobe(struct pt_regs *regs) { return end(ACCEPT, 0); }

char LICENSE[] SEC("license") = "Dual BSD/GPL";
