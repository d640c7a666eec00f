package bpf

// The user-space side of tcp.bpf.c: what to load, where to attach it, and how to read its counters. It counts
// retransmissions and resets of TCP connections.

//go:generate ./compile.sh tcp tcp.bpf.c

// Phases are the label values of the phase of a TCP connection, in the order of tcp.bpf.c: opened
// from here, opened by the peer, open, closed, and no connection.
var Phases = [...]string{"connect", "accept", "open", "closed", "none"}

// The events of TCP, in the order of tcp.bpf.c. Retransmissions are counted in segments, resets
// in packets.
const (
	Retransmitted = iota
	ResetsSent
	ResetsReceived
	tcpEvents
)

// tcpHooks are the hooks that count each of them.
var tcpHooks = [tcpEvents]string{"tcp:tcp_retransmit_skb", "tcp:tcp_send_reset", "tcp:tcp_receive_reset"}

const (
	tcpSynack = "tcp:tcp_retransmit_synack"
	// tcpSynacks is the cell of that hook, the last one.
	tcpSynacks = tcpEvents * len(Phases)
)

// TCP counts retransmitted segments and resets.
var TCP = &Program{
	Name: "tcp",
	spec: spec{
		load: loadTcp,
		hooks: []hook{
			{name: tcpHooks[Retransmitted], variants: []variant{{"retransmit_btf", typed}, {"retransmit_raw", raw("tcp_retransmit_skb")}}},
			{name: tcpSynack, variants: []variant{{"synack_btf", typed}, {"synack_raw", raw("tcp_retransmit_synack")}}},
			{name: tcpHooks[ResetsSent], variants: []variant{{"sent_btf", typed}, {"sent_raw", raw("tcp_send_reset")}}},
			{name: tcpHooks[ResetsReceived], variants: []variant{{"received_btf", typed}, {"received_raw", raw("tcp_receive_reset")}}},
		},
	},
	layout: layout{
		row:  tcpSynacks + 1,
		read: []string{"counts"},
	},
}

// TCPCounts reads the counters of TCP.
type TCPCounts struct{ *Counters }

// ByPhase emits how often each counted event happened in each phase since the program was
// attached; phase is an index of Phases.
func (c TCPCounts) ByPhase(emit func(event, phase int, n uint64)) {
	cells := c.counts()
	for event, hook := range tcpHooks {
		for phase, name := range Phases {
			n, known := cells.sum(event*len(Phases)+phase), c.has(hook)
			if event == Retransmitted && name == "accept" {
				n, known = n+cells.sum(tcpSynacks), known && c.has(tcpSynack)
			}
			if known {
				emit(event, phase, n)
			}
		}
	}
}
