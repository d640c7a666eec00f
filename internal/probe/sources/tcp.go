package sources

import (
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/probe/bpf"
)

// tcpDescs are the metrics of bpf.Retransmitted and its siblings, in that order.
var tcpDescs = []*metric.Desc{
	counter("tee_tcp_retransmits_total",
		"TCP segments retransmitted since the monitor started, by the connection's phase: being opened from this machine (connect), by the peer (accept), or open (tracepoints tcp:tcp_retransmit_skb, tcp:tcp_retransmit_synack).", "phase"),
	counter("tee_tcp_resets_sent_total",
		"TCP resets sent since the monitor started, by the connection's phase; none: the answer to a packet without a connection, such as a packet to a closed port; closed: a socket closed with unread data or by SO_LINGER (tracepoint tcp:tcp_send_reset).", "phase"),
	counter("tee_tcp_resets_received_total",
		"TCP resets received since the monitor started, by the connection's phase; connect is a refused connection (tracepoint tcp:tcp_receive_reset).", "phase"),
}

var tcpNeeds = []probe.Need{
	{Capability: "cap_bpf", For: "to load the programs", Open: true},
	{Capability: "cap_perfmon", For: "to load programs that read the kernel's structures", Open: true},
}

// tcp adds the names and phases that /proc/net/snmp lacks, and all network namespaces;
// without it, node_netstat_Tcp_RetransSegs, OutRsts, EstabResets and AttemptFails of
// the source network only cover the host's own.
var tcp = probe.Source{
	Name:    "tcp",
	Doc:     "TCP retransmissions and resets in all network namespaces, counted in the kernel",
	Metrics: tcpDescs,
	Needs:   tcpNeeds,
	Kernels: "Linux 5.15 and later with CONFIG_DEBUG_INFO_BTF; resets sent in phase none since Linux 6.10",
	Cost:    "per retransmission and per reset: see the table of event costs in docs/lab/performance.md; none for other packets",
	Blind:   "the process, because retransmissions and most resets happen in timers and interrupts; before Linux 6.10, resets that answer a packet without a connection; retransmissions by network cards, and those of QUIC and other protocols; without BPF, node_netstat_Tcp_RetransSegs, OutRsts, EstabResets and AttemptFails count the host's own network namespace",
	Open: openProgram(bpf.TCP, func(c *counters, emit emitter) uint64 {
		bpf.TCPCounts{Counters: c.Counters}.ByPhase(func(event, phase int, n uint64) {
			emit.send(tcpDescs[event], float64(n), c.label(bpf.Phases[phase])...)
		})
		return 0
	}),
}
