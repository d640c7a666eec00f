package workloads

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
)

var (
	networkRate     = loadGauge("received_bits_per_second", "bits_per_second", metric.Higher, "Bits of payload per second at the receiver, all streams together.")
	networkCost     = loadGauge("process_cpu_seconds_per_bit", "seconds_per_bit", metric.Lower, "CPU time (user and system) of the two processes per bit received; soft interrupts on other CPUs are not included.")
	networkSender   = ofCores(loadGauge("sender_cpu_ratio", "ratio", metric.Lower, "CPU time of the sender per second; near 1 with one stream, the sender was the bottleneck."))
	networkReceiver = ofCores(loadGauge("receiver_cpu_ratio", "ratio", metric.Lower, "CPU time of the receiver per second; near 1 with one stream or UDP, the receiver was the bottleneck."))
	networkP50      = loadGauge("round_trip_p50_seconds", "seconds", metric.Lower, "Median time of a round trip of one byte over TCP without other load, in seconds.")
	networkP99      = loadGauge("round_trip_p99_seconds", "seconds", metric.Lower, "The time within which 99 % of the round trips of one byte over TCP end, in seconds.")
	networkAgain    = &metric.Desc{Name: "retransmits_total", Unit: "retransmits", Kind: metric.Counter, Better: metric.Lower,
		Help: "TCP segments retransmitted in the measured time (TCP_INFO)."}
	networkMTU    = loadGauge("path_mtu_bytes", "bytes", metric.Higher, "Largest packet on the path in bytes, as the sender's kernel knows it (TCP_INFO); through a tunnel it is smaller than the interface's MTU.")
	networkLost   = loadGauge("lost_ratio", "ratio", metric.Lower, "Share of the datagrams that did not arrive, by their sequence numbers (UDP). A run is refused if no datagram of a stream arrived, or if none arrived in the last 2 % of the time or more (at least a quarter of a second).")
	networkJitter = loadGauge("jitter_seconds", "seconds", metric.Lower, "Mean deviation of the datagrams' transit times in seconds (UDP; RFC 1889, section 6.3.1).")
)

// network measures the way from the load to the servers of an environment. Both ends are
// our worker, so unlike iperf's, no image needs a tool of its own.
var network = bench.Workload{
	Name: "network",
	Doc: "TCP or UDP from the load to a server in the environment (our worker): throughput, round trips, loss, and the CPU time of both ends per bit. " +
		"It measures the existing network, such as the network between two pods.",
	Version: 1,
	Params: []bench.Param{
		{Name: "protocol", Default: "tcp", Values: []string{"tcp", "udp"}, Doc: "Transport protocol."},
		{Name: "streams", Default: "1", Doc: "Number of parallel streams, 1 to 128."},
		{Name: "rate", Default: "100000000", Doc: "Bits of payload per second that UDP sends, all streams together; 0 is no limit. TCP always sends as much as the network carries."},
		{Name: "datagram", Default: "1200", Doc: "Payload of a UDP datagram in bytes, the same in all environments whatever their MTU."},
		{Name: "congestion", Default: "cubic", Doc: "TCP congestion control, the same in all environments, because kernels have different defaults. Empty: the kernel's default."},
		{Name: "round-trips", Default: "2000", Doc: "Number of round trips of one byte over TCP, before the streams start."},
		{Name: "omit", Default: "1s", Doc: "Time at the start that is not measured."},
		{Name: "measure", Default: "10s", Doc: "Measured time."},
	},
	Metrics: func(p bench.Params) []*metric.Desc {
		out := []*metric.Desc{networkRate, networkCost, networkSender, networkReceiver, networkP50, networkP99}
		if p["protocol"] == "udp" {
			return append(out, networkLost, networkJitter)
		}
		return append(out, networkAgain, networkMTU)
	},
	Primary: func(bench.Params) *metric.Desc { return networkRate },
	Sweep:   map[string][]string{"protocol": {"tcp", "udp"}},
	Estimate: func(p bench.Params) (time.Duration, int64) {
		a, err := networkAsk(p)
		if err != nil {
			return time.Second, 0 // Job reports what is wrong
		}
		return 2*time.Second + a.omit + a.measure, 0
	},
	Job:    networkJob,
	Parse:  parseNetwork,
	Series: networkSeries,
	Check:  checkNetwork,
}

// networkParams are the parameters as numbers.
type networkParams struct {
	streams, datagram, trips int64
	rate                     float64
	omit, measure            time.Duration
}

func networkAsk(p bench.Params) (a networkParams, err error) {
	var errs [6]error
	a.streams, errs[0] = p.Int("streams", 1)
	a.datagram, errs[1] = p.Int("datagram", 64)
	a.trips, errs[2] = p.Int("round-trips", 1000) // fewer have no 99th percentile
	a.rate, errs[3] = p.Number("rate", false)
	a.omit, errs[4] = time.ParseDuration(p["omit"])
	if errs[4] != nil || a.omit < 0 || a.omit > time.Hour {
		errs[4] = fmt.Errorf("parameter omit=%q: want a time up to an hour, like 1s", p["omit"])
	}
	a.measure, errs[5] = p.Seconds("measure")
	switch err := errors.Join(errs[:]...); {
	case err != nil:
		return a, err
	case a.streams > 128 || a.datagram > 65_507 || a.trips > 1_000_000:
		return a, fmt.Errorf("parameters streams=%d, datagram=%d and round-trips=%d: want at most 128, 65507 and 1000000", a.streams, a.datagram, a.trips)
	case a.measure < 100*time.Millisecond || a.measure > time.Hour:
		return a, fmt.Errorf("parameter measure=%q: want from 100ms to an hour", p["measure"])
	case a.rate > 1e15:
		return a, fmt.Errorf("parameter rate=%q: want bits per second, at most 1e15", p["rate"])
	}
	return a, nil
}

func networkJob(p bench.Params) (bench.Job, error) {
	a, err := networkAsk(p)
	if err != nil {
		return bench.Job{}, err
	}
	outside := []string{"{work}/teescope-work", "flow", "--address", "{host}:{port}", "--protocol", p["protocol"],
		"--streams", fmt.Sprint(a.streams), "--round-trips", fmt.Sprint(a.trips), "--omit", a.omit.String(), "--measure", a.measure.String()}
	if p["protocol"] == "udp" {
		outside = append(outside, "--rate", strconv.FormatFloat(a.rate, 'f', 0, 64), "--datagram", fmt.Sprint(a.datagram))
	} else {
		outside = append(outside, "--congestion", p["congestion"])
	}
	return bench.Job{
		Inside:    host.Cmd{Argv: []string{"{work}/teescope-work", "sink", "--address", "{host}:{port}"}},
		Outside:   &host.Cmd{Argv: outside},
		Files:     loadFiles,
		Processes: []string{"teescope-work"},
		Datagrams: p["protocol"] == "udp",
	}, nil
}

// networkReport is the document of the worker's flow.
type networkReport struct {
	Protocol   string  `json:"protocol"`
	Streams    int64   `json:"streams"`
	Rate       float64 `json:"rate_bits_per_second"`
	Datagram   int64   `json:"datagram_bytes"`
	Congestion string  `json:"congestion"`
	Omit       float64 `json:"omit_seconds"`
	Measure    float64 `json:"measure_seconds"`
	Trips      *struct {
		Count int64   `json:"count"`
		P50   float64 `json:"p50_seconds"`
		P99   float64 `json:"p99_seconds"`
	} `json:"round_trips"`
	Sender   networkEnd `json:"sender"`
	Receiver networkEnd `json:"receiver"`
}

type networkEnd struct {
	Seconds     float64  `json:"seconds"`
	CPU         *float64 `json:"cpu_seconds"`
	MTU         int64    `json:"mtu_bytes"`
	Bytes       float64  `json:"bytes"`
	Retransmits *float64 `json:"retransmits"`
	PathMTU     *float64 `json:"path_mtu_bytes"`
	Windows     []struct {
		Seconds float64 `json:"seconds"`
		Bytes   float64 `json:"bytes"`
	} `json:"windows"`
	Datagrams float64  `json:"datagrams"`
	Lost      float64  `json:"lost"`
	Streams   int64    `json:"streams"`
	Jitter    *float64 `json:"jitter_seconds"`
}

func readNetwork(o bench.Outcome) (*networkReport, error) {
	var r networkReport
	return &r, readReport("worker's flow", o.Outside.Stdout, &r)
}

func parseNetwork(o bench.Outcome) ([]metric.Sample, error) {
	r, err := readNetwork(o)
	if err != nil {
		return nil, err
	}
	var found reading
	rate := math.NaN()
	if r.Receiver.Bytes > 0 {
		rate = 8 * r.Receiver.Bytes / r.Receiver.Seconds
	}
	found.derived(networkRate, rate, "nothing arrived in the measured time")
	cores := func(e *networkEnd) float64 { return valueOrNaN(e.CPU) / e.Seconds }
	found.derived(networkCost, (cores(&r.Sender)+cores(&r.Receiver))/rate, "the CPU time of an end is missing, or nothing arrived")
	found.derived(networkSender, cores(&r.Sender), "the CPU time of the sender is missing")
	found.derived(networkReceiver, cores(&r.Receiver), "the CPU time of the receiver is missing")
	p50, p99 := math.NaN(), math.NaN()
	if r.Trips != nil && r.Trips.Count > 0 {
		p50, p99 = r.Trips.P50, r.Trips.P99
	}
	found.value(networkP50, p50, "no round trips were made")
	found.value(networkP99, p99, "no round trips were made")
	if o.Params["protocol"] == "udp" {
		found.derived(networkLost, r.Receiver.Lost/(r.Receiver.Lost+r.Receiver.Datagrams), "no datagram arrived")
		found.value(networkJitter, valueOrNaN(r.Receiver.Jitter), "no datagram arrived")
	} else {
		const untold = "the sender's kernel does not report this value (TCP_INFO)"
		found.value(networkAgain, valueOrNaN(r.Sender.Retransmits), untold)
		found.value(networkMTU, valueOrNaN(r.Sender.PathMTU), untold)
	}
	return found.samples, errors.Join(found.missing...)
}

// networkSeries is the rate of each window. TCP must only not drift, as in iperf; of UDP the offered rate must have been
// sent, or the figures are those of a slow sender.
func networkSeries(o bench.Outcome) (bench.Series, error) {
	r, err := readNetwork(o)
	if err != nil {
		return bench.Series{}, err
	}
	var s bench.Series
	for _, w := range r.Receiver.Windows {
		if s.Width == 0 {
			s.Width = w.Seconds
		}
		if w.Seconds > s.Width/2 { // the last may be cut short
			s.Values = append(s.Values, 8*w.Bytes/w.Seconds)
		}
	}
	if len(s.Values) == 0 {
		return bench.Series{}, errors.New("steady state: the receiver has no windows")
	}
	if r.Protocol == "udp" && r.Rate > 0 {
		ok := 8*r.Sender.Bytes/r.Sender.Seconds >= attained*r.Rate
		s.Attained, s.Method = &ok, "sent at the offered rate"
		return s, nil
	}
	return noDrift(s), nil
}

// Lost datagrams are known by the numbers of those after them, so nothing shows the loss after the last one that arrived.
// The ends count at slightly different times.
const (
	mostUnheard = 0.02 // of the measured time
	edgeSeconds = 0.25
)

// unheard is for how many seconds the sender sent datagrams of which the receiver does not know.
func (r *networkReport) unheard() float64 {
	s, known := &r.Sender, r.Receiver.Lost+r.Receiver.Datagrams+float64(r.Streams) // one of each stream may be on the way
	if s.Datagrams <= 0 || s.Seconds <= 0 {
		return 0
	}
	return r.Receiver.Seconds - known*s.Seconds/s.Datagrams
}

// checkNetwork verifies that the flow was the one that was asked for. The MTU is a property of the arm, not of the job.
func checkNetwork(o bench.Outcome) (string, error) {
	r, err := readNetwork(o)
	if err != nil {
		return "", err
	}
	p := o.Params
	a, err := networkAsk(p)
	if err != nil {
		return "", err
	}
	if p["protocol"] == "tcp" {
		a.rate, a.datagram = 0, r.Datagram
	}
	sum := 0.0
	for _, w := range r.Receiver.Windows {
		sum += w.Bytes
	}
	switch {
	case r.Protocol != p["protocol"] || r.Streams != a.streams || r.Rate != a.rate || r.Datagram != a.datagram:
		return "", fmt.Errorf("the flow was %d streams of %q at %g bits/s in datagrams of %d bytes, want %d streams of %s at %g bits/s in datagrams of %d bytes", r.Streams, r.Protocol, r.Rate, r.Datagram, a.streams, p["protocol"], a.rate, a.datagram)
	case p["protocol"] == "tcp" && p["congestion"] != "" && r.Congestion != p["congestion"]:
		return "", fmt.Errorf("the congestion control was %q, want %s", r.Congestion, p["congestion"])
	case r.Trips == nil || r.Trips.Count != a.trips:
		return "", fmt.Errorf("the flow did not make %d round trips", a.trips)
	case r.Omit != a.omit.Seconds() || r.Measure != a.measure.Seconds() || !(r.Receiver.Seconds >= 0.99*a.measure.Seconds()):
		return "", fmt.Errorf("the receiver measured %.3g s after omitting %g s, want %s after omitting %s", r.Receiver.Seconds, r.Omit, a.measure, a.omit)
	case p["protocol"] == "udp" && r.Receiver.Streams != r.Streams:
		return "", fmt.Errorf("of %d streams only %d reached the receiver, so the loss of the other streams is unknown", r.Streams, r.Receiver.Streams)
	case p["protocol"] == "udp" && r.unheard() > max(mostUnheard*r.Receiver.Seconds, edgeSeconds):
		return "", fmt.Errorf("the loss is unknown: for %.3g s the sender's datagrams did not arrive, and no later sequence number shows how many are missing", r.unheard())
	case r.Receiver.Bytes <= 0 || sum != r.Receiver.Bytes:
		return "", fmt.Errorf("the receiver counted %g bytes in total, but %g bytes in its windows", r.Receiver.Bytes, sum)
	}
	return digest("network", r.Protocol, fmt.Sprint(r.Streams), fmt.Sprint(r.Rate), fmt.Sprint(a.datagram), r.Congestion, a.omit.String(), a.measure.String()), nil
}
