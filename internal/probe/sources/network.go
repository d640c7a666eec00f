package sources

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/tee"
)

// netFields are the columns of /proc/net/dev.
var netFields = []struct {
	desc  *metric.Desc
	value func(*procfs.NetDevLine) uint64
}{
	{netCounter("receive_bytes", "Bytes received"), func(l *procfs.NetDevLine) uint64 { return l.RxBytes }},
	{netCounter("receive_packets", "Packets received"), func(l *procfs.NetDevLine) uint64 { return l.RxPackets }},
	{netCounter("receive_errs", "Receive errors"), func(l *procfs.NetDevLine) uint64 { return l.RxErrors }},
	{netCounter("receive_drop", "Packets dropped on receive"), func(l *procfs.NetDevLine) uint64 { return l.RxDropped }},
	{netCounter("receive_fifo", "Receive buffer overruns"), func(l *procfs.NetDevLine) uint64 { return l.RxFIFO }},
	{netCounter("receive_frame", "Framing errors"), func(l *procfs.NetDevLine) uint64 { return l.RxFrame }},
	{netCounter("receive_compressed", "Compressed packets received"), func(l *procfs.NetDevLine) uint64 { return l.RxCompressed }},
	{netCounter("receive_multicast", "Multicast packets received"), func(l *procfs.NetDevLine) uint64 { return l.RxMulticast }},
	{netCounter("transmit_bytes", "Bytes sent"), func(l *procfs.NetDevLine) uint64 { return l.TxBytes }},
	{netCounter("transmit_packets", "Packets sent"), func(l *procfs.NetDevLine) uint64 { return l.TxPackets }},
	{netCounter("transmit_errs", "Send errors"), func(l *procfs.NetDevLine) uint64 { return l.TxErrors }},
	{netCounter("transmit_drop", "Packets dropped on send"), func(l *procfs.NetDevLine) uint64 { return l.TxDropped }},
	{netCounter("transmit_fifo", "Send buffer overruns"), func(l *procfs.NetDevLine) uint64 { return l.TxFIFO }},
	{netCounter("transmit_colls", "Collisions"), func(l *procfs.NetDevLine) uint64 { return l.TxCollisions }},
	{netCounter("transmit_carrier", "Carrier losses"), func(l *procfs.NetDevLine) uint64 { return l.TxCarrier }},
	{netCounter("transmit_compressed", "Compressed packets sent"), func(l *procfs.NetDevLine) uint64 { return l.TxCompressed }},
}

func netCounter(name, what string) *metric.Desc {
	return counter("node_network_"+name+"_total", what+", from /proc/net/dev.", "device")
}

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
	Name: "network",
	Doc:  "Traffic by network device, TCP, UDP and socket counts, under node_exporter's names",
	Metrics: func() (out []*metric.Desc) {
		for _, f := range netFields {
			out = append(out, f.desc)
		}
		return slices.Concat(out, netstat.descs(), sockstat.descs())
	}(),
	Open: func(h *host.Host, _ []tee.Facts) (probe.Reader, error) {
		return reading(func(_ context.Context, out emitter) error {
			return cmp.Or(readDevices(h, out), readNetstat(h, out), readSockstat(h, out))
		}), nil
	},
}

func readDevices(h *host.Host, out emitter) error {
	fs, err := procfs.NewFS(h.Path(witness(h)))
	if err != nil {
		return err
	}
	devices, err := fs.NetDev()
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(devices)) {
		line := devices[name]
		for _, f := range netFields {
			out.send(f.desc, float64(f.value(&line)), name)
		}
	}
	return nil
}

func readNetstat(h *host.Host, out emitter) error {
	for _, file := range []string{"snmp", "netstat"} {
		name := witness(h) + "/net/" + file
		b, err := h.ReadFile(name)
		if err != nil {
			return err
		}
		if err := parseNetstat(b, netstat.emit(out)); err != nil {
			return fmt.Errorf("parse %s: %w", name, err)
		}
	}
	return nil
}

// parseNetstat reads pairs of lines, "Tcp: NAME NAME" and "Tcp: 1 2".
func parseNetstat(b []byte, emit func(string, float64)) error {
	var names []string
	for line := range bytes.Lines(b) {
		words := strings.Fields(string(line))
		if len(words) == 0 {
			return errors.New("empty line")
		}
		if names == nil {
			names = words
			continue
		}
		if len(words) != len(names) || words[0] != names[0] {
			return fmt.Errorf("%s names and values do not match", names[0])
		}
		for i := 1; i < len(words); i++ {
			v, err := strconv.ParseInt(words[i], 10, 64) // Tcp MaxConn is -1
			if err != nil {
				return fmt.Errorf("%s%s: %w", names[0], names[i], err)
			}
			emit(strings.TrimSuffix(names[0], ":")+"_"+names[i], float64(v))
		}
		names = nil
	}
	if names != nil {
		return fmt.Errorf("%s names without values", names[0])
	}
	return nil
}

func readSockstat(h *host.Host, out emitter) error {
	b, err := h.ReadFile(witness(h) + "/net/sockstat")
	if err != nil {
		return err
	}
	return parseSockstat(b, sockstat.emit(out))
}

// parseSockstat reads lines "TCP: inuse 3 mem 1".
func parseSockstat(b []byte, emit func(string, float64)) error {
	for line := range bytes.Lines(b) {
		words := strings.Fields(string(line))
		if len(words)%2 != 1 {
			return fmt.Errorf("parse /proc/net/sockstat: line %q", line)
		}
		protocol := strings.TrimSuffix(words[0], ":")
		for i := 1; i < len(words); i += 2 {
			v, err := strconv.ParseUint(words[i+1], 10, 64)
			if err != nil {
				return fmt.Errorf("parse /proc/net/sockstat: %s: %w", words[i], err)
			}
			emit(protocol+"_"+words[i], float64(v))
			if words[i] == "mem" {
				emit(protocol+"_mem_bytes", float64(v)*float64(unix.Getpagesize()))
			}
		}
	}
	return nil
}
