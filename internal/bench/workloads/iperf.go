package workloads

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
)

var (
	iperfRate     = loadGauge("received_bits_per_second", "bits_per_second", metric.Higher, "Bits of payload per second at the receiver, all streams together (iperf3's intervals at the receiver).")
	iperfCost     = loadGauge("process_cpu_seconds_per_bit", "seconds_per_bit", metric.Lower, "CPU time of both ends of iperf3 and of the tunnel, user and system, per bit received.")
	iperfMachine  = loadGauge("machine_cpu_seconds_per_bit", "seconds_per_bit", metric.Lower, "CPU time of the whole machine (of both machines, if the ends are on two) per bit received, including interrupts and all other programs.")
	iperfSoftirq  = ofCores(loadGauge("softirq_cpu_ratio", "ratio", metric.Lower, "Number of CPUs busy with soft interrupts, on both machines if the ends are on two."))
	iperfSender   = ofCores(loadGauge("sender_cpu_ratio", "ratio", metric.Lower, "CPU time of iperf3's sender per second; near 1 the sender was the bottleneck, because iperf3 before 3.16 has one thread for all streams."))
	iperfReceiver = ofCores(loadGauge("receiver_cpu_ratio", "ratio", metric.Lower, "CPU time of iperf3's receiver per second; near 1 the receiver was the bottleneck."))
	iperfTunnel   = ofCores(loadGauge("tunnel_cpu_ratio", "ratio", metric.Lower, "CPU time of both ends of the tunnel per second."))
	iperfLost     = loadGauge("lost_ratio", "ratio", metric.Lower, "Share of the datagrams that did not arrive (UDP).")
	iperfJitter   = loadGauge("jitter_seconds", "seconds", metric.Lower, "Mean deviation of the datagrams' transit times in seconds (UDP; RFC 1889, section 6.3.1).")
	iperfSent     = &metric.Desc{Name: "sent_bytes_total", Unit: "bytes", Kind: metric.Counter,
		Help: "Bytes of payload sent in the whole run, including the omitted start. The run's counters are divided by this number."}
	iperfRetransmits = &metric.Desc{Name: "retransmits_total", Unit: "retransmits", Kind: metric.Counter, Better: metric.Lower,
		Help: "TCP segments retransmitted in the measured time."}
)

// iperf measures a link without a network card: two network namespaces inside the environment,
// joined by a veth pair. Without a wire and DMA, a ratio compares the CPU's work for the network.
// The bounce buffers of a confidential VM's card are not included.
//
// With peer=outside it measures the network between two machines, cards included: iperf3's server
// runs in the environment, its client where loads run.
var iperf = bench.Workload{
	Name: "iperf",
	Doc: "TCP or UDP between two network namespaces over a veth pair (iperf3), or between two machines (peer=outside), plain or through WireGuard in user space, with the CPU time per bit. " +
		"Namespaces exist only for the run.",
	Version: 1,
	Params: []bench.Param{
		{Name: "peer", Default: peerInside, Values: []string{peerInside, peerOutside}, Doc: "Where the two ends run. inside: both in the environment. outside: the server in the environment, the client on the harness's machine or the --client machine; the path must then carry packets of the MTU in all environments."},
		{Name: "direction", Default: toServer, Values: []string{toServer, toClient}, Doc: "Which end sends. to-server: the client. to-client: the server."},
		{Name: "protocol", Default: "tcp", Values: []string{"tcp", "udp"}, Doc: "Transport protocol."},
		{Name: "streams", Default: "1", Doc: "Number of parallel streams, 1 to 128."},
		{Name: "rate", Default: "0", Doc: "Offered load in bits per second, for all streams together; 0 is unlimited."},
		{Name: "tunnel", Default: "none", Values: []string{"none", "wireguard"}, Subject: true, Doc: "Tunnel around the streams; wireguard is golang.zx2c4.com/wireguard, a process at each end."},
		{Name: "mtu", Default: "1500", Subject: true, Doc: "Largest packet of the link in bytes; the tunnel's largest packet is 80 bytes smaller."},
		{Name: "congestion", Default: "cubic", Doc: "TCP congestion control, the same in all environments, because kernels have different defaults. Empty: the kernel's default."},
		{Name: "offload", Default: "on", Values: []string{"on", "off"}, Doc: "Segmentation offload, with peer=inside. off: no packet on the link is larger than the MTU. on: up to 64 KiB pass at once."},
		{Name: "omit", Default: "1s", Doc: "Time at the start that is not measured, in whole seconds."},
		{Name: "measure", Default: "10s", Doc: "Measured time, in whole seconds."},
	},
	Metrics: func(p bench.Params) []*metric.Desc {
		out := []*metric.Desc{iperfRate, iperfCost, iperfMachine, iperfSoftirq, iperfSender, iperfReceiver, iperfSent}
		if p["tunnel"] == "wireguard" {
			out = append(out, iperfTunnel)
		}
		if p["protocol"] == "udp" {
			return append(out, iperfLost, iperfJitter)
		}
		return append(out, iperfRetransmits)
	},
	Primary:    func(bench.Params) *metric.Desc { return iperfRate },
	Operations: iperfSent,
	Sweep:      map[string][]string{"streams": {"1", "4", "8"}},
	Tools: []bench.Tool{{Command: "iperf3", Package: "iperf3"}, {Command: "ip", Package: "iproute2"},
		{Command: "unshare", Package: "util-linux"}},
	Estimate: func(p bench.Params) (time.Duration, int64) {
		omit, err := wholeSeconds(p, "omit")
		measure, err2 := wholeSeconds(p, "measure")
		if err != nil || err2 != nil {
			return time.Second, 0 // Job reports what is wrong
		}
		return time.Second + omit + measure, 0
	},
	Job:    iperfJob,
	Parse:  parseIperf,
	Series: iperfSeries,
	Path:   networkPath,
	Check:  checkIperf,
}

// Values of the parameters peer and direction.
const (
	peerInside  = "inside"
	peerOutside = "outside"
	toServer    = "to-server"
	toClient    = "to-client"
)

// mostSegment is the largest segment that iperf3 accepts (its MAX_MSS).
const mostSegment = 9216

func iperfJob(p bench.Params) (bench.Job, error) {
	streams, err := p.Int("streams", 1)
	mtu, err2 := p.Int("mtu", 1280)
	omit, err3 := wholeSeconds(p, "omit")
	measure, err4 := wholeSeconds(p, "measure")
	rate, err5 := p.Number("rate", false)
	switch err := errors.Join(err, err2, err3, err4); {
	case err != nil:
		return bench.Job{}, err
	case streams > 128 || mtu > 65535:
		return bench.Job{}, fmt.Errorf("parameters streams=%d and mtu=%d: want at most 128 and 65535", streams, mtu)
	case err5 != nil:
		return bench.Job{}, fmt.Errorf("%w: want bits per second, or 0 for no limit", err5)
	case measure < time.Second:
		return bench.Job{}, fmt.Errorf("parameter measure=%q: want a second or more", p["measure"])
	case p["peer"] == peerOutside && mtu > mostSegment+40:
		return bench.Job{}, fmt.Errorf("parameter mtu=%d: between two machines iperf3 takes at most %d", mtu, mostSegment+40)
	case p["peer"] == peerOutside && p["offload"] == "off":
		return bench.Job{}, errors.New("parameter offload=off: needs peer=inside; the cards of machines keep their settings, which the result records")
	}
	argv := []string{"{work}/teescope-work", "iperf",
		"--streams", fmt.Sprint(streams), "--mtu", fmt.Sprint(mtu), "--omit", omit.String(), "--measure", measure.String()}
	if p["protocol"] == "tcp" {
		argv = append(argv, "--congestion", p["congestion"])
	}
	if rate > 0 {
		argv = append(argv, "--rate", strconv.FormatFloat(rate, 'f', 0, 64))
	}
	for _, f := range []struct{ param, value, flag string }{{"protocol", "udp", "--udp"}, {"tunnel", "wireguard", "--wireguard"}, {"offload", "off", "--offload=false"}, {"direction", toClient, "--reverse"}} {
		if p[f.param] == f.value {
			argv = append(argv, f.flag)
		}
	}
	// In its own user namespace, the job can make network namespaces wherever unprivileged user
	// namespaces are allowed, also in a container.
	apart := []string{"unshare", "--user", "--map-root-user"}
	job := bench.Job{Files: loadFiles, Processes: []string{"teescope-work", "iperf3"}, Programs: []string{"ip", "iperf3"}, Modules: []string{"veth", "tun"}}
	if p["peer"] != peerOutside {
		job.Inside = host.Cmd{Argv: slices.Concat(apart, argv)}
		return job, nil
	}
	far := []string{"{work}/teescope-work", "iperf", "--listen", "{host}:{port}", "--control", "{port2}", "--wireguard-port", "{port3}"}
	near := append(argv, "--connect", "{host}:{port}", "--control", "{port2}", "--wireguard-port", "{port3}")
	if p["tunnel"] == "wireguard" {
		far, near = slices.Concat(apart, far), slices.Concat(apart, near)
	}
	job.Inside, job.Outside = host.Cmd{Argv: far, Ready: "listening"}, &host.Cmd{Argv: near}
	job.Datagrams = p["protocol"] == "udp" || p["tunnel"] == "wireguard"
	return job, nil
}

// wholeSeconds reads a duration that iperf3 accepts.
func wholeSeconds(p bench.Params, name string) (time.Duration, error) {
	d, err := time.ParseDuration(p[name])
	if err != nil || d < 0 || d > time.Hour || d%time.Second != 0 {
		return 0, fmt.Errorf("parameter %s=%q: want whole seconds up to an hour, like 10s", name, p[name])
	}
	return d, nil
}

// iperfOutput is the worker's document, with the part read of iperf3's own.
type iperfOutput struct {
	Client    iperfEnd           `json:"client"`
	Server    iperfEnd           `json:"server"`
	Processes map[string]float64 `json:"process_cores"`
	Machine   map[string]float64 `json:"machine_cores"`
	Unknown   string             `json:"machine_cores_unknown"`
	Tunnel    *struct {
		Version string `json:"version"`
		Offload bool   `json:"offload"`
	} `json:"tunnel"`

	reversed bool // the server sends
}

// sender and receiver return iperf3's own documents by what the end did.
func (r *iperfOutput) sender() *iperfEnd {
	if r.reversed {
		return &r.Server
	}
	return &r.Client
}

func (r *iperfOutput) receiver() *iperfEnd {
	if r.reversed {
		return &r.Client
	}
	return &r.Server
}

// iperfEnd is iperf3's output with --json. The format is not specified; the fields read here are
// the same from 3.1 to 3.21.
type iperfEnd struct {
	Start struct {
		Version string  `json:"version"`
		MSS     float64 `json:"tcp_mss_default"`
		Set     float64 `json:"tcp_mss"` // by us
		Test    struct {
			Protocol string  `json:"protocol"`
			Streams  int     `json:"num_streams"`
			Block    float64 `json:"blksize"`
			Reverse  int     `json:"reverse"`
			Omit     float64 `json:"omit"`
			Duration float64 `json:"duration"`
		} `json:"test_start"`
	} `json:"start"`
	Intervals []struct {
		Sum iperfSum `json:"sum"`
	} `json:"intervals"`
	End struct {
		Sum        iperfSum `json:"sum"` // UDP
		SumSent    iperfSum `json:"sum_sent"`
		Congestion string   `json:"sender_tcp_congestion"`
	} `json:"end"`
}

type iperfSum struct {
	Seconds     *float64 `json:"seconds"`
	Bytes       float64  `json:"bytes"`
	Omitted     bool     `json:"omitted"`
	Retransmits *float64 `json:"retransmits"`
	Jitter      *float64 `json:"jitter_ms"`
	Lost        float64  `json:"lost_packets"`
	Packets     float64  `json:"packets"`
}

func readIperf(o bench.Outcome) (*iperfOutput, error) {
	text := o.Inside.Stdout
	if o.Params["peer"] == peerOutside {
		text = withoutLink(o.Outside.Stdout)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	r := iperfOutput{reversed: o.Params["direction"] == toClient}
	if err := d.Decode(&r); err != nil {
		return nil, fmt.Errorf("cannot read the document of the iperf worker: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("cannot read the document of the iperf worker: more than one document found")
	}
	return &r, nil
}

// received is the sum of the receiver's intervals after the omitted start. iperf3's own sum at
// the sender includes the losses of that start (3.12).
func (r *iperfOutput) received() (sum iperfSum, seconds float64) {
	for _, i := range r.receiver().Intervals {
		if !i.Sum.Omitted {
			seconds += valueOrNaN(i.Sum.Seconds)
			sum.Bytes += i.Sum.Bytes
			sum.Lost += i.Sum.Lost
			sum.Packets += i.Sum.Packets
		}
	}
	return sum, seconds
}

func parseIperf(o bench.Outcome) ([]metric.Sample, error) {
	r, err := readIperf(o)
	if err != nil {
		return nil, err
	}
	var found reading
	received, seconds := r.received()
	rate := math.NaN()
	if received.Bytes > 0 {
		rate = 8 * received.Bytes / seconds
	}
	found.derived(iperfRate, rate, "iperf3's receiver has no interval in which something arrived")
	cores := 0.0
	for _, v := range r.Processes {
		cores += v
	}
	if len(r.Processes) == 0 {
		cores = math.NaN()
	}
	found.derived(iperfCost, cores/rate, "the CPU time of the processes is missing, or nothing arrived")
	uncounted := cmp.Or(r.Unknown, "the environment's kernel does not count CPU time")
	core := func(of map[string]float64, name string) float64 {
		if v, ok := of[name]; ok {
			return v
		}
		return math.NaN()
	}
	found.derived(iperfMachine, core(r.Machine, "busy")/rate, uncounted)
	found.derived(iperfSoftirq, core(r.Machine, "softirq"), uncounted)
	sends, receives := "client", "server"
	if r.reversed {
		sends, receives = receives, sends
	}
	found.derived(iperfSender, core(r.Processes, sends), "the CPU time of the sender is missing")
	found.derived(iperfReceiver, core(r.Processes, receives), "the CPU time of the receiver is missing")
	if o.Params["tunnel"] == "wireguard" {
		found.derived(iperfTunnel, core(r.Processes, "tunnel-near")+core(r.Processes, "tunnel-far"), "the CPU time of the tunnel is missing")
	}
	sent := 0.0
	for _, i := range r.sender().Intervals {
		sent += i.Sum.Bytes
	}
	if sent == 0 {
		sent = math.NaN()
	}
	found.value(iperfSent, sent, "iperf3's sender has no interval in which something was sent")
	if o.Params["protocol"] == "udp" {
		found.derived(iperfLost, received.Lost/received.Packets, "iperf3's receiver counted no datagrams")
		found.derived(iperfJitter, valueOrNaN(r.receiver().End.Sum.Jitter)/1000, "iperf3 does not report the jitter")
	} else {
		found.value(iperfRetransmits, valueOrNaN(r.Client.End.SumSent.Retransmits), "the kernel does not report retransmits to the sender (TCP_INFO)")
	}
	return found.samples, errors.Join(found.missing...)
}

// valueOrNaN returns an optional number, or NaN if it is missing.
func valueOrNaN(v *float64) float64 {
	if v == nil {
		return math.NaN()
	}
	return *v
}

// iperfSeries is the rate of each interval after the omitted start; the last may be cut short. It
// only must not drift: TCP probes for the rate of its path, so it would never stay within the
// band of a steady state.
func iperfSeries(o bench.Outcome) (bench.Series, error) {
	r, err := readIperf(o)
	if err != nil {
		return bench.Series{}, err
	}
	var s bench.Series
	for _, i := range r.receiver().Intervals {
		if i.Sum.Omitted {
			continue
		}
		seconds := valueOrNaN(i.Sum.Seconds)
		if s.Width == 0 {
			s.Width = seconds
		}
		if seconds > s.Width/2 {
			s.Values = append(s.Values, 8*i.Sum.Bytes/seconds)
		}
	}
	if len(s.Values) == 0 {
		return bench.Series{}, errors.New("steady state: iperf3's receiver has no intervals")
	}
	return noDrift(s), nil
}

// checkIperf verifies the number and kind of the streams, and the MTU of their path by the
// sender's largest segment.
func checkIperf(o bench.Outcome) (string, error) {
	r, err := readIperf(o)
	if err != nil {
		return "", err
	}
	p, test := o.Params, r.Client.Start.Test
	streams, err := p.Int("streams", 1)
	mtu, err2 := p.Int("mtu", 1280)
	omit, err3 := wholeSeconds(p, "omit")
	measure, err4 := wholeSeconds(p, "measure")
	if err := errors.Join(err, err2, err3, err4); err != nil {
		return "", err
	}
	if r.Tunnel != nil {
		mtu -= 80
	}
	const headers = 52 // IPv4's and TCP's with timestamps
	const untold = 536 // RFC 9293's default, which gVisor reports whatever it sends
	payload := r.Client.Start.MSS
	received, seconds := r.received()
	outside := p["peer"] == peerOutside
	if outside {
		payload = r.Client.Start.Set - (headers - 40) // timestamps are in its segments too
	}
	if p["protocol"] == "udp" {
		payload = test.Block
	}
	switch {
	case test.Protocol != map[string]string{"tcp": "TCP", "udp": "UDP"}[p["protocol"]] || int64(test.Streams) != streams:
		return "", fmt.Errorf("iperf3 ran %d streams of %q, want %d streams of %s", test.Streams, test.Protocol, streams, p["protocol"])
	case test.Omit != omit.Seconds() || test.Duration != measure.Seconds():
		return "", fmt.Errorf("iperf3 measured %g s after omitting %g s, want %s after omitting %s", test.Duration, test.Omit, measure, omit)
	case (r.Tunnel != nil) != (p["tunnel"] == "wireguard"):
		return "", fmt.Errorf("tunnel=%s is not in effect", p["tunnel"])
	case received.Bytes == 0 || !(math.Abs(seconds-measure.Seconds()) <= 1+measure.Seconds()/10): // data in flight are drained after the end
		return "", fmt.Errorf("iperf3's receiver measured %.3g s and received %g bytes, want about %s and more than 0 bytes", seconds, received.Bytes, measure)
	case p["protocol"] == "tcp" && p["congestion"] != "" && r.Client.End.Congestion != p["congestion"]:
		return "", fmt.Errorf("the congestion control was %q, want %s", r.Client.End.Congestion, p["congestion"])
	case (test.Reverse != 0) != r.reversed:
		return "", fmt.Errorf("iperf3 sent in the wrong direction, want direction=%s", p["direction"])
	case payload != float64(mtu)-headers && (payload != untold || outside):
		return "", fmt.Errorf("the largest payload is %g bytes, want %g: the MTU of %d bytes is not in effect", payload, float64(mtu)-headers, mtu)
	}
	parts := []string{"iperf", test.Protocol, fmt.Sprint(streams), p["rate"], p["congestion"], p["offload"], omit.String(), measure.String(), r.Client.Start.Version}
	if outside || r.reversed {
		parts = append(parts, p["peer"], p["direction"], r.Server.Start.Version)
	}
	return digest(parts...), nil
}
