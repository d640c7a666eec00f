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

var (
	tcpAttempts = counter("tee_tcp_connects_total",
		"TCP connections that a process started to open since the monitor started, by process name (tracepoint sock:inet_sock_set_state).", "process")
	tcpFailures = counter("tee_tcp_connect_failures_total",
		"TCP connections that a process started to open and that were refused, timed out or were abandoned since the monitor started, by process name; other counts connections whose start was missed (tracepoint sock:inet_sock_set_state).", "process")
)

// tcpConnect runs at every state change of every connection, tens of thousands on a
// busy server, so it is off by default.
var tcpConnect = probe.Source{
	Name:    "tcp_connect",
	Doc:     "TCP connections opened and failed, by process, counted in the kernel",
	Metrics: []*metric.Desc{tcpAttempts, tcpFailures, retiredEvents},
	OptIn:   true,
	Needs:   tcpNeeds,
	Kernels: "Linux 5.15 and later with CONFIG_DEBUG_INFO_BTF",
	Cost:    "about 0.25 µs for each state change of a connection: two changes if it fails, about six if both ends are on the machine (kernel run-time statistics, refused connections, Linux 6.18 in a VM)",
	Blind:   "connections that began while the source was off or detached: their failures count as other; protocols other than TCP; connections of a TEE with its own network stack",
	Open: func(h *host.Host, _ []tee.Facts) (probe.Reader, error) {
		c, err := bpf.TCPConnect.Open(h)
		if err != nil {
			return nil, err
		}
		return &connectReader{counters{Counters: c, decode: sendConnects, labels: map[[3]string][]string{}}}, nil
	},
}

// connectReader shares the table of process names, so it must tend it too.
type connectReader struct{ counters }

// Read implements probe.Reader.
func (c *connectReader) Read(ctx context.Context, emit func(metric.Sample)) error {
	err := c.counters.Read(ctx, emit)
	if rerr := (bpf.Table{Counters: c.Counters}).Recycle(); err != nil { // only if the table is full does it matter that it stays so
		err = errors.Join(err, rerr)
	}
	return err
}

func sendConnects(c *counters, emit emitter) (folded uint64) {
	folded = bpf.ConnectCounts{Counters: c.Counters}.ByProcess(func(process string, attempts, failures uint64) {
		l := c.label(process)
		emit.send(tcpAttempts, float64(attempts), l...)
		emit.send(tcpFailures, float64(failures), l...)
	})
	emit.send(retiredEvents, float64(bpf.Table{Counters: c.Counters}.Retired()), c.label("tcp_connect")...)
	return folded
}
