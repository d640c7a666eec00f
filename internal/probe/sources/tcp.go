package sources

import (
	"context"
	"errors"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/probe/bpf"
	"github.com/teescope/teescope/internal/tee"
)

// tcpDescs are the metrics of bpf.Retransmitted and its siblings, in that order.
var tcpDescs = []*metric.Desc{
	counter("tee_tcp_retransmits_total",
		"TCP segments sent again since the monitor started, by how far the connection was: being opened from here (connect), from there (accept), or open (tracepoints tcp:tcp_retransmit_skb, tcp:tcp_retransmit_synack).", "phase"),
	counter("tee_tcp_resets_sent_total",
		"TCP resets sent since the monitor started, by how far the connection was; none answers a packet for no connection, such as one to a closed port, closed is a socket that was closed with data left or by SO_LINGER (tracepoint tcp:tcp_send_reset).", "phase"),
	counter("tee_tcp_resets_received_total",
		"TCP resets received since the monitor started, by how far the connection was; connect is a refused connection (tracepoint tcp:tcp_receive_reset).", "phase"),
}

var (
	tcpAttempts = counter("tee_tcp_connects_total",
		"TCP connections that a process began to open since the monitor started, by process name (tracepoint sock:inet_sock_set_state).", "process")
	tcpFailures = counter("tee_tcp_connect_failures_total",
		"TCP connections that a process began to open and that were refused, timed out or were given up, since the monitor started, by process name; other are those whose beginning was not seen (tracepoint sock:inet_sock_set_state).", "process")
)

var tcpNeeds = []probe.Need{
	{Capability: "cap_bpf", For: "to load the programs", Open: true},
	{Capability: "cap_perfmon", For: "to load programs that read the kernel's structures", Open: true},
}

// tcp has the names and phases that /proc/net/snmp lacks, and all network
// namespaces; without it node_netstat_Tcp_RetransSegs, OutRsts, EstabResets and
// AttemptFails of the source network are the host's own.
var tcp = probe.Source{
	Name:    "tcp",
	Doc:     "TCP segments sent again, and resets, in all network namespaces, counted in the kernel",
	Metrics: tcpDescs,
	Needs:   tcpNeeds,
	Kernels: "Linux 5.15 and later with CONFIG_DEBUG_INFO_BTF; resets sent in phase none since Linux 6.10",
	Cost:    "about 70 ns for each segment sent again and each reset, of which 20 in the program (kernel run-time statistics, Linux 6.18 in a VM); none for other packets",
	Blind:   "the process: retransmissions and most resets happen in timers and interrupts; before Linux 6.10 resets that answer a packet for no connection; retransmissions by network cards, and those of QUIC and other protocols; without BPF the host's own network namespace is in node_netstat_Tcp_RetransSegs, OutRsts, EstabResets and AttemptFails",
	Open: openProgram(bpf.TCP, func(c *counters, emit emitter) uint64 {
		c.TCP(func(event, phase int, n uint64) {
			emit.send(tcpDescs[event], float64(n), c.label(bpf.Phases[phase])...)
		})
		return 0
	}),
}

// tcpConnect runs for every change of state of every connection, which a busy
// server has by the ten thousands, so it is on by request.
var tcpConnect = probe.Source{
	Name:    "tcp_connect",
	Doc:     "TCP connections opened, and those that fail, by process, counted in the kernel",
	Metrics: []*metric.Desc{tcpAttempts, tcpFailures, retiredEvents},
	OptIn:   true,
	Needs:   tcpNeeds,
	Kernels: "Linux 5.15 and later with CONFIG_DEBUG_INFO_BTF",
	Cost:    "about 0.25 us for each of the changes of state of a connection, two where it fails and about six with both ends on the machine (kernel run-time statistics, refused connections, Linux 6.18 in a VM)",
	Blind:   "connections that began to open while it was off or detached: their failures are other's; non-TCP protocols; connections of a TEE that has a network stack of its own",
	Open: func(h *host.Host, _ []tee.Facts) (probe.Reader, error) {
		c, err := bpf.TCPConnect.Open(h)
		if err != nil {
			return nil, err
		}
		return &connectReader{counters{Counters: c, decode: sendConnects, labels: map[[3]string][]string{}}}, nil
	},
}

// connectReader shares the table of process names, and so has to tend it.
type connectReader struct{ counters }

// Read implements probe.Reader.
func (c *connectReader) Read(ctx context.Context, emit func(metric.Sample)) error {
	err := c.counters.Read(ctx, emit)
	if rerr := c.Recycle(); err != nil { // only where the table is full does it matter that it stays so
		err = errors.Join(err, rerr)
	}
	return err
}

func sendConnects(c *counters, emit emitter) (folded uint64) {
	folded = c.TCPConnect(func(process string, attempts, failures uint64) {
		l := c.label(process)
		emit.send(tcpAttempts, float64(attempts), l...)
		emit.send(tcpFailures, float64(failures), l...)
	})
	emit.send(retiredEvents, float64(c.Retired), c.label("tcp_connect")...)
	return folded
}
