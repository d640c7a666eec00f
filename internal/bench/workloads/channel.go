package workloads

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/channelbench"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/stats"
)

// channelMeasure is what one value of the parameter measure compares. The first
// variant is the channel itself, whose metric is the verdict's.
type channelMeasure struct {
	names   []string
	metrics map[string]*channelMetric
	// more are metrics of several variants together.
	more func(bench.Params) []*metric.Desc
}

// channelMetric holds the metrics of a variant.
type channelMetric struct {
	value *metric.Desc
	// tail are quantiles of single operations, nil where those are not timed.
	mean      *metric.Desc
	quantiles []quantile
	cpu       *metric.Desc // CPU seconds of both sides for one operation
	cycles    *metric.Desc
}

func channelTime(name, what string) *channelMetric {
	c := &channelMetric{value: loadGauge(name+"_seconds", "seconds", metric.Lower, "Time of "+what+" in seconds: the median of the windows, by the clock of the side that waits."),
		mean: loadGauge(name+"_mean_seconds", "seconds", metric.Lower, "Mean time of "+what+" in seconds, with its histogram."),
		cpu:  loadGauge(name+"_cpu_seconds", "seconds", metric.Lower, "CPU time of "+what+" in seconds, of both sides where both are in the environment.")}
	for _, q := range []struct {
		suffix, words string
		rank          float64
	}{{"p50", "Median", 50}, {"p95", "95th percentile", 95}, {"p99", "99th percentile", 99}} {
		c.quantiles = append(c.quantiles, quantile{loadGauge(name+"_"+q.suffix+"_seconds", "seconds", metric.Lower, q.words+" of the time of "+what+" in seconds."), q.rank})
	}
	return c
}

// channelHandshake is of handshakes. The connection is part of their CPU time and not of their
// time.
func channelHandshake(name, what, beside string) *channelMetric {
	c := channelTime(name, what)
	c.cpu.Help = strings.TrimSuffix(c.cpu.Help, ".") + "; this includes making and closing the connection" + beside + "."
	return c
}

func channelRate(name, what string) *channelMetric {
	return &channelMetric{value: loadGauge(name+"_bytes_per_second", "bytes_per_second", metric.Higher, "Message bytes that "+what+" carries per second, until the receiver has the last one: the median of the windows."),
		cpu: loadGauge(name+"_cpu_seconds", "seconds", metric.Lower, "CPU time of a message over "+what+" in seconds, of both sides where both are in the environment.")}
}

func channelHalf(name, what string) *channelMetric {
	return &channelMetric{value: loadGauge(name+"_seconds", "seconds", metric.Lower, "Time to "+what+" in seconds, without a connection: the median of the windows."),
		cycles: loadGauge(name+"_cycles_per_byte", "cycles_per_byte", metric.Lower, "CPU cycles per byte to "+what+", by the hardware counter in user space.")}
}

var channelMeasures = map[string]*channelMeasure{
	"handshake": {
		names: []string{"attested_handshake", "bare_handshake", "resumed_handshake", "tls_handshake", "tls_resumed_handshake", "x25519_handshake"},
		metrics: map[string]*channelMetric{
			"attested_handshake":    channelHandshake("attested_handshake", "a fresh handshake of the channel with evidence, both sides", ""),
			"bare_handshake":        channelHandshake("bare_handshake", "a fresh handshake of the channel without evidence, both sides", ""),
			"resumed_handshake":     channelHandshake("resumed_handshake", "a resumed handshake of the channel, both sides", ", and a share of the fresh handshakes that supply the tickets"),
			"tls_handshake":         channelHandshake("tls_handshake", "a full handshake of Go's TLS 1.3 with X25519 and an ECDSA P-256 certificate, both sides", ""),
			"tls_resumed_handshake": channelHandshake("tls_resumed_handshake", "a resumed handshake of Go's TLS 1.3, both sides", ", and a share of the fresh handshakes that supply the tickets"),
			"x25519_handshake":      channelTime("x25519_handshake", "the X25519 operations of both sides alone: two keys, two shared secrets"),
		},
		more: func(bench.Params) []*metric.Desc { return []*metric.Desc{channelOverX25519, channelOverTLS} },
	},
	"echo": {
		names: []string{"channel_echo", "plain_echo", "tls_echo"},
		metrics: map[string]*channelMetric{
			"channel_echo": channelTime("channel_echo", "a message and its echo over the channel"),
			"plain_echo":   channelTime("plain_echo", "a message and its echo over the plain transport in the same frames"),
			"tls_echo":     channelTime("tls_echo", "a message and its echo over Go's TLS 1.3 in the same frames"),
		},
		more: func(p bench.Params) []*metric.Desc {
			return []*metric.Desc{channelOverPlain, channelOverPlainRatio, channelOverTLS, inferenceShare(p)}
		},
	},
	"stream": {
		names: []string{"channel_stream", "plain_stream", "tls_stream"},
		metrics: map[string]*channelMetric{
			"channel_stream": channelRate("channel_stream", "the channel"),
			"plain_stream":   channelRate("plain_stream", "the plain transport in the same frames"),
			"tls_stream":     channelRate("tls_stream", "Go's TLS 1.3 in the same frames"),
		},
		more: func(bench.Params) []*metric.Desc { return []*metric.Desc{channelOverTLS, channelPerCore} },
	},
	"codec": {
		names: []string{"channel_send", "channel_receive", "plain_send", "plain_receive", "aead_seal", "aead_open"},
		metrics: map[string]*channelMetric{
			"channel_send":    channelHalf("channel_send", "frame and seal a message"),
			"channel_receive": channelHalf("channel_receive", "read the frames of a message and open it"),
			"plain_send":      channelHalf("plain_send", "frame a message without a cipher"),
			"plain_receive":   channelHalf("plain_receive", "read the frames of a message without a cipher"),
			"aead_seal":       channelHalf("aead_seal", "seal a whole message with the cipher alone"),
			"aead_open":       channelHalf("aead_open", "open a whole message with the cipher alone"),
		},
		more: func(bench.Params) []*metric.Desc { return nil },
	},
}

var (
	channelOverPlain = loadGauge("channel_over_plain_seconds", "seconds", metric.Lower,
		"Extra time of the channel over the plain transport, per message in seconds, both from the same run. As a percentage, it would be smaller on a slow transport.")
	channelOverPlainRatio = quotient(loadGauge("channel_over_plain_ratio", "ratio", metric.Lower,
		"The channel's time divided by the plain transport's time in the same run. Use it to compare machines, because effects that slow both cancel out. A slow plain transport makes the ratio small."))
	channelOverTLS = quotient(loadGauge("channel_over_tls_ratio", "ratio", metric.Lower,
		"The channel's cost divided by the cost of TLS 1.3 in the same run; below 1 the channel is faster."))
	channelOverX25519 = quotient(loadGauge("bare_over_x25519_ratio", "ratio", metric.Lower,
		"Time of a fresh handshake without evidence divided by the time of the X25519 operations of both sides, in the same run."))
	channelPerCore = loadGauge("channel_stream_per_core_bytes_per_second", "bytes_per_second", metric.Higher,
		"Bytes over the channel per second of CPU time, of the sealing and the opening side together.")
	measuredShare = loadGauge("inference_share_ratio", "ratio", metric.Lower,
		"Share of the total time that a message and its echo over the channel take, if the rest is one inference. The inference time was measured elsewhere.")
	assumedShare = loadGauge("assumed_inference_share_ratio", "ratio", metric.Lower,
		"Share of the total time that a message and its echo over the channel take, if the rest is one inference. The inference time is assumed.")
)

func inferenceShare(p bench.Params) *metric.Desc {
	if p["inference-source"] == "measured" {
		return measuredShare
	}
	return assumedShare
}

// secureChannel is the attested channel (docs/channel.md) against the plain transport and Go's
// TLS 1.3, which take turns in one process, so each run has its own baseline and arms are
// compared by what the channel adds.
//
// With peer=outside the far side alone runs in the environment, and the near side,
// which has the clock, on the harness's machine.
var secureChannel = bench.Workload{
	Name:    "channel",
	Doc:     "An attested secure channel, compared with the plain transport and TLS 1.3: handshakes, echo, streaming, sealing alone.",
	Version: 1,
	Params: []bench.Param{
		{Name: "measure", Default: "echo", Values: []string{"handshake", "echo", "stream", "codec"}, Doc: "What is measured. handshake: fresh and resumed handshakes, and handshakes with evidence. echo: a message and its echo. stream: data in one direction until the receiver has all. codec: sealing and framing alone, without a connection."},
		{Name: "transport", Default: "tcp", Values: []string{"pipe", "tcp", "unix", "vsock"}, Doc: "Transport below the channel. pipe stays in the process; vsock stays on the machine and needs the module vsock_loopback."},
		{Name: "peer", Default: "inside", Values: []string{"inside", "outside"}, Doc: "Where the two sides run. inside: both in the environment. outside: the far side in the environment, the near side on the harness's machine, over TCP."},
		{Name: "suite", Default: "aes-gcm", Values: []string{"aes-gcm", "chacha20-poly1305"}, Doc: "Cipher of the channel; Go chooses the cipher of TLS."},
		{Name: "threads", Default: "cross", Values: []string{"same", "cross"}, Doc: "Threads of the two sides. same: one thread for both, so no wake-up of another thread. cross: one thread for each side."},
		{Name: "evidence", Default: "mock", Values: []string{"mock", "simulated", "configfs-tsm"}, Doc: "The server's evidence in attested handshakes. mock: a signature that proves nothing. simulated: a provider without hardware. configfs-tsm: the TEE's quote."},
		{Name: "mutual", Default: "no", Values: []string{"no", "yes"}, Doc: "Whether the client also gives evidence."},
		{Name: "quote-delay", Default: "39ms", Doc: "Duration of a simulated quote; 39 ms was measured on a TDX guest (flashbots/attested-tls-benchmarks, 2026)."},
		{Name: "message", Default: "bytes", Values: []string{"bytes", "tensor"}, Doc: "Content of a message: bytes, or a tensor of F32 values, 768 in a row, with a header of name, type and shape."},
		{Name: "size", Default: "384KiB", Doc: "Bytes of a message (16 to 16MiB) or of a tensor's data."},
		{Name: "inference", Default: "100ms", Doc: "Duration of the model inference that a message belongs to. The message's share of the total time is computed from this duration."},
		{Name: "inference-source", Default: "assumed", Values: []string{"assumed", "measured"}, Doc: "Whether the inference time was measured or is assumed."},
		{Name: "windows", Default: "20", Doc: "Number of timed windows of each variant, in random order."},
		{Name: "window", Default: "100ms", Doc: "Length of a window."},
		{Name: "warm", Default: "500ms", Doc: "Warm-up before the windows, for all variants together."},
	},
	Metrics:    channelMetrics,
	Primary:    func(p bench.Params) *metric.Desc { return channelMain(p).value },
	Operations: operations,
	Sweep:      map[string][]string{"measure": {"handshake", "echo", "stream", "codec"}},
	Estimate: func(p bench.Params) (time.Duration, int64) {
		windows, err := p.Int("windows", 1)
		window, err2 := p.Seconds("window")
		if err != nil || err2 != nil {
			return time.Second, 0 // Job reports what is wrong
		}
		return time.Second + time.Duration(min(windows, mostWindows))*min(window, time.Minute)*time.Duration(len(channelKind(p).names)), 0
	},
	Job:    channelJob,
	Parse:  parseChannel,
	Series: channelSeries,
	Path:   networkPath,
	Check: func(o bench.Outcome) (string, error) {
		r, _, err := readChannel(o)
		if err != nil {
			return "", err
		}
		if r.Wrong > 0 {
			return "", fmt.Errorf("%d answers were wrong", r.Wrong)
		}
		p := o.Params
		return digest("channel", p["measure"], p["transport"], p["suite"], p["threads"], p["evidence"], p["mutual"], p["message"], p["size"], p["windows"], p["window"]), nil
	},
}

// channelKind is the measure that the parameters name.
func channelKind(p bench.Params) *channelMeasure {
	if k := channelMeasures[p["measure"]]; k != nil {
		return k
	}
	return channelMeasures["echo"]
}

func channelMain(p bench.Params) *channelMetric {
	k := channelKind(p)
	return k.metrics[k.names[0]]
}

// descs are all metrics of a variant.
func (c *channelMetric) descs() []*metric.Desc {
	out := []*metric.Desc{c.value}
	for _, q := range c.quantiles {
		out = append(out, q.desc)
	}
	for _, d := range []*metric.Desc{c.mean, c.cpu, c.cycles} {
		if d != nil {
			out = append(out, d)
		}
	}
	return out
}

func channelMetrics(p bench.Params) []*metric.Desc {
	k := channelKind(p)
	var out []*metric.Desc
	for _, name := range k.names {
		out = append(out, k.metrics[name].descs()...)
	}
	out = append(out, k.more(p)...)
	if p["peer"] != "outside" { // where the clock is the harness's own
		out = append(out, clockDisagreement)
	}
	return append(out, operations)
}

func channelJob(p bench.Params) (bench.Job, error) {
	size, err := p.Bytes("size")
	if err != nil {
		return bench.Job{}, err
	}
	windows, err := p.Int("windows", 1)
	if err != nil {
		return bench.Job{}, err
	}
	args := []string{"-measure", p["measure"], "-transport", p["transport"], "-suite", p["suite"], "-threads", p["threads"],
		"-evidence", p["evidence"], "-message", p["message"], "-size", fmt.Sprint(size), "-windows", fmt.Sprint(windows)}
	if p["mutual"] == "yes" {
		args = append(args, "-mutual")
	}
	var window time.Duration
	for _, name := range []string{"window", "warm", "quote-delay", "inference"} {
		d, err := p.Seconds(name)
		if err != nil {
			return bench.Job{}, err
		}
		if name == "window" {
			window = d
		}
		if name != "inference" {
			args = append(args, "-"+name, d.String())
		}
	}
	switch {
	case size < 16 || size > 16<<20:
		return bench.Job{}, fmt.Errorf("parameter size=%s: want 16 to 16MiB", p["size"])
	case window < time.Millisecond || window > time.Minute:
		return bench.Job{}, fmt.Errorf("parameter window=%s: want 1ms to 1m", p["window"])
	case p["message"] == "tensor" && size%3072 != 0:
		return bench.Job{}, fmt.Errorf("parameter size=%s: a tensor with 768 F32 in a row has a multiple of 3072 bytes", p["size"])
	case windows > mostWindows:
		return bench.Job{}, fmt.Errorf("parameter windows=%d: want at most %d", windows, mostWindows)
	case p["peer"] == "outside" && (p["transport"] != "tcp" || p["measure"] == "codec"):
		return bench.Job{}, errors.New("parameter peer=outside: needs transport=tcp and a measure with a connection")
	case p["peer"] == "outside" && p["evidence"] == "simulated":
		return bench.Job{}, errors.New("parameter peer=outside: the keys of evidence=simulated are made in one process; use mock")
	}
	worker := []string{"{work}/teescope-work", "channel"}
	job := bench.Job{Inside: host.Cmd{Argv: slices.Concat(worker, args)}, Files: loadFiles}
	if p["peer"] == "outside" {
		job.Inside.Argv = slices.Concat(worker, []string{"-listen", "{host}:{port}", "-evidence", p["evidence"], "-threads", p["threads"]})
		job.Outside = &host.Cmd{Argv: slices.Concat(worker, args, []string{"-connect", "{host}:{port}"})}
	}
	return job, nil
}

// readChannel returns the report, and the time from the line "begin" to it on the harness's
// clock.
func readChannel(o bench.Outcome) (*channelbench.Report, time.Duration, error) {
	out := o.Inside
	if o.Params["peer"] == "outside" {
		out = o.Outside
	}
	var begin, end time.Duration
	began := false
	for _, l := range out.Lines {
		if l.Text == "begin" {
			begin, began = l.At, true
		}
		end = l.At
	}
	_, text, ok := bytes.Cut(out.Stdout, []byte("begin\n"))
	if !ok || !began {
		return nil, 0, errors.New("the worker's output is cut off")
	}
	var r channelbench.Report
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, 0, fmt.Errorf("the worker's output is cut off or not a report: %w", err)
	}
	k := channelKind(o.Params)
	if r.Measure != o.Params["measure"] || r.Size <= 0 || r.Size > 1<<30 || !(r.Seconds > 0) {
		return nil, 0, fmt.Errorf("the worker reports measure %q, messages of %d bytes and a run of %v s: want measure %q, and a valid size and time", r.Measure, r.Size, r.Seconds, o.Params["measure"])
	}
	windows, err := o.Params.Int("windows", 1)
	if err != nil {
		return nil, 0, err
	}
	for _, name := range k.names {
		v := variantOf(&r, name)
		if v == nil || int64(len(v.Windows)) != windows {
			return nil, 0, fmt.Errorf("the worker's report does not have the requested %d windows of %s", windows, name)
		}
		for i, w := range v.Windows {
			if w.Operations == 0 || !(w.Seconds > 0) || math.IsInf(w.Seconds, 0) || !(w.CPU >= 0) || len(w.Parts) != channelbench.Parts || !(stats.Median(w.Parts) > 0) {
				return nil, 0, fmt.Errorf("window %d of %s is invalid: it has %d operations in %v s, in parts of %v s", i, name, w.Operations, w.Seconds, w.Parts)
			}
		}
	}
	return &r, end - begin, nil
}

func variantOf(r *channelbench.Report, name string) *channelbench.Variant {
	i := slices.IndexFunc(r.Variants, func(v channelbench.Variant) bool { return v.Name == name })
	if i < 0 {
		return nil
	}
	return &r.Variants[i]
}

// costs are the seconds of one operation in each window: the median of its parts.
func costs(v *channelbench.Variant) []float64 {
	out := make([]float64, len(v.Windows))
	for i, w := range v.Windows {
		out[i] = stats.Median(w.Parts)
	}
	return out
}

// totals are the operations of a variant and their CPU time.
func totals(v *channelbench.Variant) (operations, cpu float64) {
	for _, w := range v.Windows {
		operations += float64(w.Operations)
		cpu += w.CPU
	}
	return operations, cpu
}

func parseChannel(o bench.Outcome) ([]metric.Sample, error) {
	r, took, err := readChannel(o)
	if err != nil {
		return nil, err
	}
	k := channelKind(o.Params)
	var out reading
	all := 0.0
	cost := map[string]float64{}
	for _, name := range k.names {
		v := variantOf(r, name)
		cost[name] = stats.Median(costs(v))
		n, _ := totals(v)
		all += n
		k.metrics[name].read(&out, r, v, cost[name])
	}
	switch r.Measure {
	case "handshake":
		out.derived(channelOverX25519, cost["bare_handshake"]/cost["x25519_handshake"], "")
		out.derived(channelOverTLS, cost["attested_handshake"]/cost["tls_handshake"], "")
	case "echo":
		out.derived(channelOverPlain, cost["channel_echo"]-cost["plain_echo"], "")
		out.derived(channelOverPlainRatio, cost["channel_echo"]/cost["plain_echo"], "")
		out.derived(channelOverTLS, cost["channel_echo"]/cost["tls_echo"], "")
		inference, err := o.Params.Seconds("inference")
		if err != nil {
			return nil, err
		}
		out.derived(inferenceShare(o.Params), cost["channel_echo"]/(cost["channel_echo"]+inference.Seconds()), "")
	case "stream":
		out.derived(channelOverTLS, cost["channel_stream"]/cost["tls_stream"], "")
		n, cpu := totals(variantOf(r, "channel_stream"))
		out.derived(channelPerCore, n*float64(r.Size)/cpu, "the process's CPU time is not known")
	}
	switch {
	case o.Params["peer"] == "outside":
	case took > 0:
		out.derived(clockDisagreement, math.Abs(r.Seconds/took.Seconds()-1), "")
	default:
		out.lack(clockDisagreement, "the lines of the output arrived together")
	}
	out.value(operations, all, "")
	return out.samples, errors.Join(out.missing...)
}

// read adds the metrics of a variant in a report; cost is the seconds of one of its operations.
func (c *channelMetric) read(out *reading, r *channelbench.Report, v *channelbench.Variant, cost float64) {
	if c.value.Better == metric.Higher {
		out.value(c.value, float64(r.Size)/cost, "")
	} else {
		out.value(c.value, cost, "")
	}
	n, cpu := totals(v)
	if c.cpu != nil {
		out.value(c.cpu, cpu/n, "")
	}
	if c.cycles != nil {
		if v.Cycles > 0 {
			out.value(c.cycles, float64(v.Cycles)/(n*float64(r.Size)), "")
		} else {
			out.lack(c.cycles, strings.ReplaceAll(r.Absent["cycles"], "\n", " "))
		}
	}
	if c.mean == nil {
		return
	}
	h, err := decodeHistogram(v.Histogram)
	if err != nil {
		out.lack(c.mean, err.Error())
		for _, q := range c.quantiles {
			out.lack(q.desc, err.Error())
		}
		return
	}
	hist := loadHistogram(h)
	out.sample(metric.Sample{Desc: c.mean, Value: hist.Sum / float64(h.TotalCount()), Hist: hist}, "")
	for _, q := range c.quantiles {
		if !enough(uint64(h.TotalCount()), q.rank/100) {
			out.lack(q.desc, fmt.Sprintf("%d operations are too few: at least ten must lie above it", h.TotalCount()))
			continue
		}
		out.value(q.desc, float64(h.ValueAtQuantile(q.rank))/1e9, "")
	}
}

func channelSeries(o bench.Outcome) (bench.Series, error) {
	r, _, err := readChannel(o)
	if err != nil {
		return bench.Series{}, err
	}
	k := channelKind(o.Params)
	v := variantOf(r, k.names[0])
	s := bench.Series{Values: costs(v)}
	for i, w := range v.Windows {
		s.Width += w.Seconds / float64(len(v.Windows))
		if k.metrics[k.names[0]].value.Better == metric.Higher {
			s.Values[i] = float64(r.Size) / s.Values[i]
		}
	}
	return noDrift(s), nil
}
