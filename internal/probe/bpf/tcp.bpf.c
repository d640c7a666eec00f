//go:build ignore
// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Retransmissions and resets of TCP connections, in all network namespaces.
 *
 *   retransmit  tcp:tcp_retransmit_skb     segments sent again
 *   synack      tcp:tcp_retransmit_synack  answers to a connection request sent again
 *   sent        tcp:tcp_send_reset         resets sent
 *   received    tcp:tcp_receive_reset      resets received
 *
 * All of this happens in interrupts and timers, where the current process is
 * not the connection's, so it is counted by the connection's phase. Each
 * program has its own cells, because one may interrupt another.
 */
#include "runs.h"

enum { CONNECT, ACCEPT, OPEN, CLOSED, NONE, PHASES };
enum { RETRANSMITTED, SENT, RECEIVED, ANSWERED, EVENTS };
enum { SYNACKS = 3 * PHASES, STRIDE };

COUNTS(STRIDE);

struct sock_common {
	unsigned char skc_state;
} KERNEL_TYPE;

struct sock {
	struct sock_common __sk_common;
} KERNEL_TYPE;

struct tcp_skb_cb {
	__u16 tcp_gso_segs;
} KERNEL_TYPE;

struct sk_buff {
	char cb[48];
} KERNEL_TYPE;

/* include/net/tcp_states.h, part of the user interface. */
enum {
	TCP_ESTABLISHED = 1,
	TCP_SYN_SENT,
	TCP_SYN_RECV,
	TCP_FIN_WAIT1,
	TCP_FIN_WAIT2,
	TCP_TIME_WAIT,
	TCP_CLOSE,
	TCP_CLOSE_WAIT,
	TCP_LAST_ACK,
	TCP_LISTEN,
	TCP_CLOSING,
	TCP_NEW_SYN_RECV,
};

/* A typed program reads the kernel's memory directly; others copy it. */
#define READ(typed, p, field) ((typed) ? (p)->field : BPF_CORE_READ(p, field))

static __always_inline __u32 phase(struct sock *sk, int typed)
{
	/* Resets also answer packets that belong to no connection. */
	if (!sk)
		return NONE;
	switch (READ(typed, sk, __sk_common.skc_state)) {
	case TCP_SYN_SENT:
		return CONNECT;
	case TCP_SYN_RECV:
	case TCP_NEW_SYN_RECV:
	case TCP_LISTEN:
		return ACCEPT;
	case TCP_TIME_WAIT:
	case TCP_CLOSE:
		return CLOSED;
	}
	return OPEN;
}

static __always_inline int count(__u32 what, struct sock *sk, __u64 n, int typed)
{
	__u32 cpu = bpf_get_smp_processor_id();
	MEASURED struct run run = ran(cpu, what, EVENTS);

	add(&counts, STRIDE, cpu, what * PHASES + phase(sk, typed), n);
	return 0;
}

/* Segments, as the kernel's RetransSegs counts them: tcp_skb_pcount() of the packet. */
static __always_inline int retransmit(struct sock *sk, struct sk_buff *skb, int typed)
{
	void *cb = (void *)skb->cb + bpf_core_field_offset(struct tcp_skb_cb, tcp_gso_segs);
	__u16 segments = 0;

	if (typed)
		segments = *(__u16 *)cb;
	else
		bpf_probe_read_kernel(&segments, sizeof(segments), cb);
	return count(RETRANSMITTED, sk, segments ? segments : 1, typed);
}

/* The tracepoint's record; it has an error if the arguments have one. */
struct trace_event_raw_tcp_retransmit_skb {
	int err;
} KERNEL_TYPE;

/* Since Linux 6.17 the tracepoint also fires if nothing could be sent. */
static __always_inline int sent(__u64 *args)
{
	struct trace_event_raw_tcp_retransmit_skb *record = 0;

	return !bpf_core_field_exists(record->err) || !(int)args[2];
}

SEC("tp_btf/tcp_retransmit_skb")
int retransmit_btf(__u64 *args)
{
	return sent(args) ? retransmit((void *)args[0], (void *)args[1], 1) : 0;
}

SEC("raw_tp/tcp_retransmit_skb")
int retransmit_raw(__u64 *args)
{
	return sent(args) ? retransmit((void *)args[0], (void *)args[1], 0) : 0;
}

static __always_inline int synack(void)
{
	__u32 cpu = bpf_get_smp_processor_id();
	MEASURED struct run run = ran(cpu, ANSWERED, EVENTS);

	add(&counts, STRIDE, cpu, SYNACKS, 1);
	return 0;
}

SEC("tp_btf/tcp_retransmit_synack")
int synack_btf(__u64 *args) { return synack(); }

SEC("raw_tp/tcp_retransmit_synack")
int synack_raw(__u64 *args) { return synack(); }

SEC("tp_btf/tcp_send_reset")
int sent_btf(__u64 *args) { return count(SENT, (void *)args[0], 1, 1); }

SEC("raw_tp/tcp_send_reset")
int sent_raw(__u64 *args) { return count(SENT, (void *)args[0], 1, 0); }

SEC("tp_btf/tcp_receive_reset")
int received_btf(__u64 *args) { return count(RECEIVED, (void *)args[0], 1, 1); }

SEC("raw_tp/tcp_receive_reset")
int received_raw(__u64 *args) { return count(RECEIVED, (void *)args[0], 1, 0); }

char LICENSE[] SEC("license") = "Dual BSD/GPL";
