//go:build ignore
// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Reads one word of the kernel's memory when user space runs it
 * (BPF_PROG_TEST_RUN of a program of type syscall, Linux 5.14 and later).
 */
#include "common.h"

const volatile __u64 address = 0;

SEC("syscall")
int read_word(__u64 *word)
{
	__u64 value = 0;
	int err = bpf_probe_read_kernel(&value, sizeof(value), (void *)address);

	*word = value;
	return err;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
