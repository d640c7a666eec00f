package sources

import (
	"context"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/machine"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/tee"
)

// netFields are the columns of machine.NetColumns, in that order.
var netFields = [len(machine.NetColumns)]*metric.Desc{
	netCounter("receive_bytes", "Bytes received"),
	netCounter("receive_packets", "Packets received"),
	netCounter("receive_errs", "Receive errors"),
	netCounter("receive_drop", "Packets dropped on receive"),
	netCounter("receive_fifo", "Receive buffer overruns"),
	netCounter("receive_frame", "Framing errors"),
	netCounter("receive_compressed", "Compressed packets received"),
	netCounter("receive_multicast", "Multicast packets received"),
	netCounter("transmit_bytes", "Bytes sent"),
	netCounter("transmit_packets", "Packets sent"),
	netCounter("transmit_errs", "Send errors"),
	netCounter("transmit_drop", "Packets dropped on send"),
	netCounter("transmit_fifo", "Send buffer overruns"),
	netCounter("transmit_colls", "Collisions"),
	netCounter("transmit_carrier", "Carrier losses"),
	netCounter("transmit_compressed", "Compressed packets sent"),
}

func netCounter(name, what string) *metric.Desc {
	return counter("node_network_"+name+"_total", what+", from /proc/net/dev.", "device")
}

var netCounted = gauge(string(metric.CountedNetworks), "1 for a network device that sums over devices include. 0 for a device whose bytes also pass another device, or stay inside the machine: bonds, VLANs, bridges, tunnels, links to containers, the loopback. Included are network cards, and a link with the default route. Without any card, as in most containers, links to the outside are included. From /sys/class/net, or else by name.", "device")

// netstat are the fields of /proc/net/snmp and /proc/net/netstat that node_exporter
// shows by default, without ICMP and IPv6, and with the failures that the source tcp
// counts in the kernel. They are untyped there too: CurrEstab and Forwarding are not
// counters, and the files do not say.
var netstat = table("node_netstat_", "/proc/net/snmp or /proc/net/netstat", metric.Untyped, `
	Ip_Forwarding IpExt_InOctets IpExt_OutOctets
	Tcp_ActiveOpens Tcp_PassiveOpens Tcp_AttemptFails Tcp_EstabResets Tcp_CurrEstab Tcp_InSegs Tcp_OutSegs Tcp_RetransSegs Tcp_InErrs Tcp_OutRsts
	TcpExt_ListenOverflows TcpExt_ListenDrops TcpExt_SyncookiesSent TcpExt_SyncookiesRecv TcpExt_SyncookiesFailed
	TcpExt_TCPSynRetrans TcpExt_TCPTimeouts TcpExt_TCPOFOQueue TcpExt_TCPRcvQDrop
	Udp_InDatagrams Udp_OutDatagrams Udp_NoPorts Udp_InErrors Udp_RcvbufErrors Udp_SndbufErrors`)

// sockstat are fields of /proc/net/sockstat; mem is in pages there.
var sockstat = table("node_sockstat_", "/proc/net/sockstat", metric.Gauge,
	"sockets_used TCP_inuse TCP_orphan TCP_tw TCP_alloc TCP_mem TCP_mem_bytes UDP_inuse UDP_mem UDP_mem_bytes")

var network = probe.Source{
	Name:    "network",
	Doc:     "Traffic by network device, TCP, UDP and socket counts, under node_exporter's names",
	Metrics: slices.Concat(netFields[:], []*metric.Desc{netCounted}, netstat.descs(), sockstat.descs()),
	Open: func(h *host.Host, _ []tee.Facts) (probe.Reader, error) {
		return reading(func(_ context.Context, out emitter) error {
			var bad machine.Faults
			bad.Add(readDevices(h, out))
			bad.Add(readNetstat(h, "snmp", out))
			bad.Add(readNetstat(h, "netstat", out))
			bad.Add(readSockstat(h, out))
			return bad.Err()
		}), nil
	},
}

func readDevices(h *host.Host, out emitter) error {
	file := witness(h) + "/net/dev"
	b, err := h.ReadFile(file)
	if err != nil {
		return err
	}
	var bad machine.Faults
	var names []string
	bad.Add(machine.ParseNetDev(file, b, func(d machine.NetDevice) {
		names = append(names, d.Name)
		for i, desc := range netFields {
			if d.Known[i] {
				out.send(desc, float64(d.Cells[i]), d.Name)
			}
		}
	}))
	counted, err := machine.CountedNetworks(h, witness(h), names)
	bad.Add(err)
	for _, name := range names {
		if c, known := counted[name]; known {
			out.send(netCounted, oneIf(c), name)
		}
	}
	return bad.Err()
}

func readNetstat(h *host.Host, name string, out emitter) error {
	file := witness(h) + "/net/" + name
	b, err := h.ReadFile(file)
	if err != nil {
		return err
	}
	return parseNetstat(file, b, netstat.emit(out))
}

// parseNetstat reads pairs of lines, "Tcp: NAME NAME" and "Tcp: 1 2".
func parseNetstat(file string, b []byte, emit func(string, float64)) error {
	t := machine.Text{File: file}
	var names []string
	for line := range t.Lines(b) {
		words := strings.Fields(line)
		if names == nil || words[0] != names[0] {
			if names != nil { // this line may be another protocol's names
				t.Bad("%.40s names without values", names[0])
			}
			names = words
			continue
		}
		if len(words) != len(names) { // cut off: which number is whose is not known
			t.Bad("%.40s has %d names and %d values", names[0], len(names)-1, len(words)-1)
			names = nil
			continue
		}
		for i := 1; i < len(words); i++ {
			// Numbers of no interest may be negative: Tcp MaxConn is -1.
			if name := strings.TrimSuffix(names[0], ":") + "_" + names[i]; netstat.names[name] != nil {
				if v, ok := t.Count(name, words[i]); ok {
					emit(name, float64(v))
				}
			}
		}
		names = nil
	}
	if names != nil {
		t.Bad("%.40s names without values", names[0])
	}
	return t.Err()
}

func readSockstat(h *host.Host, out emitter) error {
	file := witness(h) + "/net/sockstat"
	b, err := h.ReadFile(file)
	if err != nil {
		return err
	}
	return parseSockstat(file, b, sockstat.emit(out))
}

// parseSockstat reads lines "TCP: inuse 3 mem 1".
func parseSockstat(file string, b []byte, emit func(string, float64)) error {
	t := machine.Text{File: file}
	for line := range t.Lines(b) {
		words := strings.Fields(line)
		protocol, ok := strings.CutSuffix(words[0], ":")
		if !ok || len(words) < 3 || len(words)%2 != 1 { // cut off: the last number may be
			t.Bad("%.40q is not NAME: pairs of names and numbers", line)
			continue
		}
		for i := 1; i < len(words); i += 2 {
			v, ok := t.Count(protocol+" "+words[i], words[i+1])
			if !ok {
				continue
			}
			emit(protocol+"_"+words[i], float64(v))
			if words[i] == "mem" {
				emit(protocol+"_mem_bytes", float64(v)*float64(unix.Getpagesize()))
			}
		}
	}
	return t.Err()
}
