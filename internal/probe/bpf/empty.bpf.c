//go:build ignore
// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Programs that do nothing: what calling a program costs at all is measured
 * with them.
 */
#include "common.h"

SEC("socket")
int empty_socket(void *ctx) { return 0; }

SEC("raw_tp/task_rename")
int empty_rename(void *ctx) { return 0; }

SEC("tp_btf/sys_enter")
int empty_sys_enter(void *ctx) { return 0; }

SEC("tp_btf/sched_switch")
int empty_sched_switch(void *ctx) { return 0; }

SEC("tp_btf/page_fault_user")
int empty_page_fault_user(void *ctx) { return 0; }

char LICENSE[] SEC("license") = "Dual BSD/GPL";
