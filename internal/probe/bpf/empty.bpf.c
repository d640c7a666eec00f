//go:build ignore
// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Programs that do nothing, to measure what calling a program
 * costs.
 */
#include "common.h"

#define EMPTY(name, section) \
	SEC(section)         \
	int empty_##name(void *ctx) { return 0; }

EMPTY(socket, "socket")
EMPTY(rename, "raw_tp/task_rename")

/* One for each program whose cost the benchmark splits up, under its name. */
EMPTY(sys_enter_btf, "tp_btf/sys_enter")
EMPTY(sys_enter_raw, "raw_tp/sys_enter")
EMPTY(sys_enter_classic, "tracepoint/raw_syscalls/sys_enter")
EMPTY(sys_exit_btf, "tp_btf/sys_exit")
EMPTY(sys_exit_raw, "raw_tp/sys_exit")
EMPTY(sys_exit_classic, "tracepoint/raw_syscalls/sys_exit")
EMPTY(sched_switch_btf, "tp_btf/sched_switch")
EMPTY(sched_switch_raw, "raw_tp/sched_switch")
EMPTY(sched_wakeup_btf, "tp_btf/sched_wakeup")
EMPTY(page_fault_user_btf, "tp_btf/page_fault_user")
EMPTY(page_fault_user_raw, "raw_tp/page_fault_user")
EMPTY(page_fault_user_classic, "tracepoint/exceptions/page_fault_user")
EMPTY(page_fault_kernel_btf, "tp_btf/page_fault_kernel")
EMPTY(page_fault_kernel_raw, "raw_tp/page_fault_kernel")
EMPTY(page_fault_kernel_classic, "tracepoint/exceptions/page_fault_kernel")
EMPTY(access_btf, "tp_btf/mm_filemap_get_pages")
EMPTY(access_raw, "raw_tp/mm_filemap_get_pages")

char LICENSE[] SEC("license") = "Dual BSD/GPL";
