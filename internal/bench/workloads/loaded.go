package workloads

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/load"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/stats"
)

// Common to the workloads with a server: the job's inside is the server, which listens on
// {host}:{port}; its outside is `teescope-work load`, whose report (load.Report) is read here. A
// workload adds its server, its protocol's flags and the server's own statistics.
//
// Without a rate the loop is closed: it finds the capacity, and its latencies are those of a
// saturated server. With a rate the loop is open and latency counts from the moment a request was
// due. Arms of unequal capacity are compared under the same rate (an experiment's "then").

// loadParams are the parameters of a load; connections is the default number of connections.
func loadParams(connections string) []bench.Param {
	return []bench.Param{
		{Name: "connections", Default: connections, Doc: "Number of connections of the load generator."},
		{Name: "pipeline", Default: "1", Doc: "Concurrent requests per connection."},
		{Name: "rate", Default: "0", Doc: "Requests per second, sent on a schedule without waiting for answers (open loop). 0: each next request is sent when the previous one is answered (closed loop, which measures the capacity)."},
		{Name: "arrivals", Default: "constant", Values: []string{"constant", "poisson"}, Doc: "Distribution of the requests over time."},
		{Name: "warm", Default: "1s", Doc: "Warm-up: time under the same load before the measurement."},
		{Name: "measure", Default: "10s", Doc: "Measured time."},
		{Name: "requests", Default: "0", Doc: "Number of requests after the warm-up; the measurement ends with the last of these requests. 0: the measurement ends after the time of the parameter measure. Set a number for exact counts: all environments then do the same work."},
		{Name: "client-cores", Default: "1", Doc: "Threads of the load generator; each can use one CPU fully."},
	}
}

// Parameters that only some protocols have; loadOutside and loadMetrics look them up by name.
var (
	tlsParam       = bench.Param{Name: "tls", Default: "off", Values: []string{"off", "on"}, Doc: "Whether the connections are TLS."}
	keepAliveParam = bench.Param{Name: "keep-alive", Default: "on", Values: []string{"on", "off"}, Doc: "Whether connections are reused. off makes a new connection for each request."}
	resumeParam    = bench.Param{Name: "resume", Default: "off", Values: []string{"off", "on"}, Doc: "Whether TLS sessions are resumed."}
)

// loadFiles contain the load generator.
var loadFiles = []bench.File{{Name: "teescope-work", From: bench.Worker, Exec: true}}

// loadWindow is Job.Window of every job with loadOutside: counters run only while the requests of
// loadRequests do.
var loadWindow = [2]string{load.Begins, load.Ends}

// loadWaits is Job.Waits of them.
const loadWaits = load.Waits

// loadStart lets the limit of a run end the wait for a server that does not start.
const loadStart = "24h"

func loadGauge(name, unit string, better metric.Direction, help string) *metric.Desc {
	return &metric.Desc{Name: name, Unit: unit, Kind: metric.Gauge, Better: better, Help: help}
}

var (
	loadRate     = loadGauge("requests_per_second", "requests_per_second", metric.Higher, "Requests answered correctly, per second of the measured time.")
	loadReceived = loadGauge("received_bytes_per_second", "bytes_per_second", metric.Higher, "Bytes of answers per second, including the protocol's own bytes, but not those of TLS and TCP.")
	loadErrors   = loadGauge("error_ratio", "ratio", metric.Lower, "Share of the requests that were not answered correctly.")
	loadLate     = loadGauge("late_ratio", "ratio", metric.Lower, "Share of the requests that the load generator sent late (by more than 1 ms, and for a language model also by more than 1 % of the time to the first token); above 0.01 the load generator was the bottleneck.")
	loadCPU      = loadGauge("client_cpu_ratio", "ratio", metric.Lower, "CPU time of the load generator divided by the CPU time that its threads could use; above 0.9 the load generator was the bottleneck.")
	loadHello    = loadGauge("handshakes_per_second", "handshakes_per_second", metric.Higher, "TLS handshakes that were completed, per second of the measured time.")
	loadResumed  = loadGauge("resumed_ratio", "ratio", metric.Higher, "Share of the TLS handshakes that resumed a session.")

	loadRequests = &metric.Desc{Name: "requests_total", Unit: "requests", Kind: metric.Counter,
		Help: "Requests answered correctly while the counters ran; the counters are divided by this number. The number includes the few requests just before and after the measured time."}
)

// A timing is a histogram of the report with the metrics derived from it.
type timing struct {
	encoded   func(*load.Report) string
	mean      *metric.Desc // carries the histogram
	quantiles []quantile
	max       *metric.Desc // nil where the largest is not reported
}

type quantile struct {
	desc *metric.Desc
	rank float64 // percent
}

// supportedBy reports whether n values are enough for the quantile. A median is reported of any number.
func (q quantile) supportedBy(n int64) bool { return q.rank <= 50 || enough(uint64(n), q.rank/100) }

// supportedBy returns the timing with the quantiles for which n values are enough.
func (t *timing) supportedBy(n int64) *timing {
	out := *t
	out.quantiles = slices.DeleteFunc(slices.Clone(t.quantiles), func(q quantile) bool { return !q.supportedBy(n) })
	return &out
}

func newTiming(name, what string, encoded func(*load.Report) string, max bool) *timing {
	t := &timing{encoded: encoded, mean: loadGauge(name+"_mean_seconds", "seconds", metric.Lower, "Mean of "+what+".")}
	for _, q := range []struct {
		suffix, words string
		rank          float64
	}{{"p50", "Median", 50}, {"p99", "99th percentile", 99}, {"p999", "99.9th percentile", 99.9}} {
		t.quantiles = append(t.quantiles, quantile{loadGauge(name+"_"+q.suffix+"_seconds", "seconds", metric.Lower, q.words+" of "+what+"."), q.rank})
	}
	if max {
		t.quantiles = t.quantiles[:2] // of some hundred connections
		t.max = loadGauge(name+"_max_seconds", "seconds", metric.Lower, "Largest of "+what+".")
	}
	return t
}

var (
	loadResponse  = newTiming("response", "the time from the moment a request was due to its answer", func(r *load.Report) string { return r.Response }, false)
	loadService   = newTiming("service", "the time from the sending of a request to its answer", func(r *load.Report) string { return r.Service }, false)
	loadConnect   = newTiming("connect", "the time until a connection is usable (TCP, TLS and the protocol's own set-up)", func(r *load.Report) string { return r.Connect }, true)
	loadHandshake = newTiming("handshake", "the time of a TLS handshake", func(r *load.Report) string { return r.Handshake }, true)
)

// loadTimings are the timings of a load with these parameters. Kept connections do not grow in
// number with the time, so percentiles that need more of them are left out.
func loadTimings(p bench.Params) []*timing {
	connect, handshake := loadConnect, loadHandshake
	if n, err := p.Int("connections", 1); err == nil && !freshConnections(p) {
		connect, handshake = connect.supportedBy(n), handshake.supportedBy(n)
	}
	out := []*timing{loadService, connect}
	if openLoop(p) {
		out = append(out, loadResponse)
	}
	if p["tls"] == "on" {
		out = append(out, handshake)
	}
	return out
}

// openLoop reports whether requests are sent on a schedule.
func openLoop(p bench.Params) bool { return p["rate"] != "" && p["rate"] != "0" }

// freshConnections reports whether each request has a connection of its own.
func freshConnections(p bench.Params) bool { return p["keep-alive"] == "off" }

// loadMetrics are the metrics of a workload with a server, before its own.
func loadMetrics(p bench.Params) []*metric.Desc {
	if g := foreignLoad(p); g != nil {
		return g.metrics()
	}
	out := []*metric.Desc{loadRate, loadReceived, loadErrors, loadCPU, loadRequests}
	if openLoop(p) {
		out = append(out, loadLate)
	}
	if p["tls"] == "on" && freshConnections(p) {
		out = append(out, loadHello, loadResumed)
	}
	for _, t := range loadTimings(p) {
		out = append(out, t.mean)
		for _, q := range t.quantiles {
			out = append(out, q.desc)
		}
		if t.max != nil {
			out = append(out, t.max)
		}
	}
	return out
}

// loadPrimary is the capacity of a closed loop, and the tail of an open one.
func loadPrimary(p bench.Params) *metric.Desc {
	if foreignLoad(p) != nil {
		return foreignRate
	}
	if openLoop(p) {
		return loadResponse.quantiles[1].desc
	}
	return loadRate
}

// quickMeasure is the measured time of a quick run of a server.
const quickMeasure = "2s"

// loadEstimate is the time of a run and its space on disk; a server starts in about a second.
func loadEstimate(p bench.Params) (time.Duration, int64) {
	warm, err := p.Seconds("warm")
	measure, err2 := p.Seconds("measure")
	if err != nil || err2 != nil {
		return time.Second, 0 // Job reports what is wrong
	}
	return time.Second + warm + measure, 0
}

// loadOutside is the load generator's command; more are the flags of the protocol.
func loadOutside(p bench.Params, more ...string) (*host.Cmd, error) {
	connections, err := p.Int("connections", 1)
	if err != nil {
		return nil, err
	}
	pipeline, err := p.Int("pipeline", 1)
	if err != nil {
		return nil, err
	}
	cores, err := p.Int("client-cores", 1)
	if err != nil {
		return nil, err
	}
	if cores > connections {
		return nil, fmt.Errorf("parameter client-cores=%d: want at most one for each of the %d connections", cores, connections)
	}
	for _, name := range []string{"warm", "measure"} {
		if _, err := p.Seconds(name); err != nil {
			return nil, err
		}
	}
	if g := foreignLoad(p); g != nil {
		return generatorOutside(g, p, more)
	}
	argv := []string{"{work}/teescope-work", "load", "--json", "--hold", "--start", loadStart, "--address", "{host}:{port}", "--connections", fmt.Sprint(connections),
		"--pipeline", fmt.Sprint(pipeline), "--threads", fmt.Sprint(cores), "--warm", p["warm"]}
	if requests, err := p.Int("requests", 0); err != nil {
		return nil, err
	} else if requests > 0 {
		argv = append(argv, "--requests", fmt.Sprint(requests))
	} else {
		argv = append(argv, "--measure", p["measure"])
	}
	if openLoop(p) {
		if v, err := p.Number("rate", true); err != nil || v > load.MostRate {
			return nil, fmt.Errorf("parameter rate=%q: want requests per second above 0 and up to %g, or 0 for a closed loop", p["rate"], load.MostRate)
		}
		argv = append(argv, "--rate", p["rate"], "--arrivals", p["arrivals"])
	}
	for _, f := range []struct{ param, value, flag string }{{"tls", "on", "--tls"}, {"keep-alive", "off", "--no-keep-alive"}, {"resume", "on", "--resume"}} {
		if p[f.param] == f.value {
			argv = append(argv, f.flag)
		}
	}
	return &host.Cmd{Argv: append(argv, more...)}, nil
}

// readLoad reads the load generator's report.
func readLoad(o bench.Outcome) (*load.Report, error) {
	if g := foreignLoad(o.Params); g != nil {
		said, err := readForeignLoad(g, o)
		if err != nil {
			return nil, err
		}
		return said.report(g, o.Params)
	}
	var r load.Report
	if err := readReport("load generator", o.Outside.Stdout, &r); err != nil {
		return nil, err
	}
	if !(r.Seconds > 0) || r.Cores < 1 || r.Connections < 1 {
		return nil, fmt.Errorf("report of the load generator: %v seconds, %d cores, %d connections: want values above 0", r.Seconds, r.Cores, r.Connections)
	}
	return &r, nil
}

// parseLoad reads the metrics of loadMetrics.
func parseLoad(o bench.Outcome) ([]metric.Sample, error) {
	r, err := readLoad(o)
	if err != nil {
		return nil, err
	}
	var found reading
	found.load(r, o)
	return found.samples, errors.Join(found.missing...)
}

// load adds the metrics of a report, for workloads that add more.
func (r *reading) load(rep *load.Report, o bench.Outcome) {
	p := o.Params
	if g := foreignLoad(p); g != nil {
		if said, err := readForeignLoad(g, o); err == nil { // rep is made of it
			r.foreignLoad(g, rep, said)
		}
		return
	}
	all := float64(rep.Attempts())
	const none = "no request was sent in the measured time"
	if rep.Requests == 0 { // then the rate is unknown, not 0
		r.lack(loadRate, "no request was answered in the measured time")
		r.lack(loadReceived, "no request was answered in the measured time")
	} else {
		r.derived(loadRate, float64(rep.Requests)/rep.Seconds, none)
		r.derived(loadReceived, float64(rep.Received)/rep.Seconds, none)
	}
	r.derived(loadErrors, float64(rep.Failed())/all, none)
	r.derived(loadCPU, timeShare(rep.CPUSeconds/rep.Seconds/float64(rep.Cores)), none)
	r.value(loadRequests, float64(rep.Counted), none)
	if openLoop(p) {
		r.derived(loadLate, float64(rep.Late)/all, none)
	}
	if p["tls"] == "on" && freshConnections(p) {
		r.derived(loadHello, float64(rep.Handshakes)/rep.Seconds, none)
		r.derived(loadResumed, float64(rep.Resumed)/float64(rep.Handshakes), "no handshake was completed in the measured time")
	}
	for _, t := range loadTimings(p) {
		r.timing(t, t.encoded(rep))
	}
}

// timing adds the metrics of a histogram.
func (r *reading) timing(t *timing, encoded string) {
	if encoded == "" {
		r.lackTiming(t, "the load generator timed no such event")
		return
	}
	h, err := decodeHistogram(encoded)
	if err != nil {
		r.lackTiming(t, err.Error())
		return
	}
	n := h.TotalCount()
	mean := metric.Sample{Desc: t.mean, Value: h.Mean() / 1e9, Trust: metric.Derived, Hist: loadHistogram(h)}
	r.sample(mean, "the histogram has no mean")
	for _, q := range t.quantiles {
		if !q.supportedBy(n) {
			r.lack(q.desc, fmt.Sprintf("fewer than %d of %d values lie above this percentile; measure for longer", rare, n))
			continue
		}
		r.value(q.desc, float64(h.ValueAtPercentile(q.rank))/1e9, "the histogram has no such percentile")
	}
	if t.max != nil {
		r.value(t.max, float64(h.Max())/1e9, "the histogram has no largest value")
	}
}

// lackTiming records why all metrics of a timing are missing.
func (r *reading) lackTiming(t *timing, why string) {
	r.lack(t.mean, why)
	for _, q := range t.quantiles {
		r.lack(q.desc, why)
	}
	if t.max != nil {
		r.lack(t.max, why)
	}
}

// mostEncoded bounds a histogram's text: those of the load generator have at most about ten
// thousand counts.
const mostEncoded = 256 << 10

// decodeHistogram reads a histogram in HdrHistogram's V2 encoding. The text comes from another
// program, so the decoder's panics become errors.
func decodeHistogram(text string) (h *hdrhistogram.Histogram, err error) {
	if len(text) > mostEncoded {
		return nil, fmt.Errorf("the histogram has %d bytes, more than any of the load generator's", len(text))
	}
	defer func() {
		if r := recover(); r != nil {
			h, err = nil, fmt.Errorf("the load generator's latency histogram cannot be decoded: %v", r)
		}
	}()
	if h, err = hdrhistogram.Decode([]byte(text)); err != nil {
		return nil, fmt.Errorf("the load generator's latency histogram cannot be decoded: %w", err)
	}
	if h.TotalCount() <= 0 {
		return nil, errors.New("the histogram is empty")
	}
	return h, nil
}

// loadBounds are the bounds of the histograms in results, ten to a decade from 1
// microsecond to 10 seconds, as fio's are.
var loadBounds = fioBounds

// loadHistogram sums a histogram's ten thousand counts into those buckets.
func loadHistogram(h *hdrhistogram.Histogram) *metric.Hist {
	out := &metric.Hist{Bounds: loadBounds, Counts: make([]uint64, len(loadBounds)+1), Sum: h.Mean() / 1e9 * float64(h.TotalCount())}
	for _, bar := range h.Distribution() {
		if bar.Count > 0 {
			i, _ := slices.BinarySearch(loadBounds, float64(bar.To)/1e9)
			out.Counts[i] += uint64(bar.Count)
		}
	}
	return out
}

// attained is the share of an offered rate that must be answered: below it the queue grew, and
// latencies depend on the length of the run.
const attained = 0.97

// parts is the number of parts of a run whose rates are compared to detect a drift.
const parts = 10

// loadSeries returns the rate over the run. An open loop's rate is given, so its steady state
// means that enough of the offered requests were answered. A closed loop must only not drift
// after the warm-up. A band around the mean would be too strict for servers, which share CPUs
// with their load and collect garbage; the interval over the pairs shows how much a rate varies.
func loadSeries(o bench.Outcome) (bench.Series, error) {
	r, err := readLoad(o)
	if err != nil {
		return bench.Series{}, err
	}
	if foreignLoad(o.Params) != nil {
		return bench.Series{}, errors.New("steady state: only our load generator reports numbers for parts of the time")
	}
	if len(r.Windows) == 0 || !(r.Width > 0) {
		return bench.Series{}, errors.New("steady state: the load generator reports no windows")
	}
	s := bench.Series{Width: r.Width}
	for _, n := range r.Windows {
		s.Values = append(s.Values, n/r.Width)
	}
	if openLoop(o.Params) {
		ok := float64(r.Requests) >= attained*float64(r.Due) // random arrivals do not match the rate exactly
		s.Attained, s.Method = &ok, "answered at the offered rate"
		return s, nil
	}
	n := max(len(s.Values)/parts, 1)
	var means []float64
	for group := range slices.Chunk(s.Values, n) {
		if len(group) == n {
			means = append(means, mean(group, n))
		}
	}
	return noDrift(bench.Series{Values: means, Width: s.Width * float64(n)}), nil
}

// noDrift requires a series neither to rise nor to fall, however far single windows deviate: an
// interruption is not a warm-up.
func noDrift(s bench.Series) bench.Series {
	steady := stats.Steady(s.Values, stats.SteadyOptions{MaxDeviation: math.Inf(1)}).OK
	s.Attained, s.Method = &steady, "no drift after the warm-up"
	return s
}

// loadFailures are the errors of a run by kind.
func loadFailures(o bench.Outcome) map[string]int {
	r, err := readLoad(o)
	if err != nil {
		return nil // Parse reports it
	}
	return failures(r.Errors)
}

// failures returns numbers of failures by their kind as a run has them.
func failures(counts map[string]uint64) map[string]int {
	out := map[string]int{}
	for kind, n := range counts {
		out[kind] = int(min(n, math.MaxInt32))
	}
	return out
}

// asides is the maximum number of requests to the server that are not the load's, such as those
// for its statistics.
const asides = 8

// checkServed returns an error unless the server's own count matches the load's requests. Failed
// requests may or may not have been answered, and another load generator than ours drops those under way when its time is over.
func checkServed(r *load.Report, p bench.Params, served float64) error {
	slack := float64(asides + r.Failed())
	if foreignLoad(p) != nil && p["requests"] == "0" {
		under, err := p.Int("pipeline", 1)
		if err != nil {
			return err
		}
		slack += float64(int64(r.Connections) * under)
	}
	if !(math.Abs(served-float64(r.Expected)) <= slack) {
		return fmt.Errorf("the server counts %.0f requests, but the load generator counts %d in the same time. Other clients used the server, or another server answered", served, r.Expected)
	}
	return nil
}

// checkLoad returns an error unless the load matched the parameters and the answers were right.
// more are the workload's words for the digest of requests and answers.
func checkLoad(o bench.Outcome, more ...string) (string, error) {
	r, err := readLoad(o)
	if err != nil {
		return "", err
	}
	connections, err := o.Params.Int("connections", 1)
	if err != nil {
		return "", err
	}
	loop := "closed"
	if openLoop(o.Params) {
		loop = "open"
	}
	if g := foreignLoad(o.Params); g != nil {
		if err := checkForeignLoad(g, o); err != nil {
			return "", err
		}
	}
	switch {
	case int64(r.Connections) != connections:
		return "", fmt.Errorf("the load had %d connections, want %d", r.Connections, connections)
	case r.Loop != loop:
		return "", fmt.Errorf("the load generator's loop was %q, want %q", r.Loop, loop)
	case r.Requests == 0 && len(r.Words) > 0:
		return "", fmt.Errorf("no request was answered. Errors by kind: %v; the first error of each kind: %v", r.Errors, r.Words)
	case r.Requests == 0:
		return "", fmt.Errorf("no request was answered. Errors by kind: %v", r.Errors)
	case r.Digest == "":
		return "", errors.New("the load generator reports no digest of the answers")
	}
	return digest(append([]string{"load", r.Protocol, r.Digest}, more...)...), nil
}
