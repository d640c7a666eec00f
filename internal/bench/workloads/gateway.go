package workloads

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/load"
	"github.com/teescope/teescope/internal/metric"
)

// What a gateway and its surroundings used, as counted in its own environment (worker command
// gateway). In a sandbox or enclave these are the accounts kept inside; the run's counters
// include what the layers below use in addition.
var (
	gatewayCost = loadGauge("gateway_cpu_per_request_seconds", "seconds", metric.Lower,
		"CPU time of the gateway's processes per request, in seconds; without a gateway, CPU time of the server itself.")
	gatewayCPU = loadGauge("server_cpu_ratio", "ratio", metric.Lower, "CPU time of the gateway's processes, as a share of all CPUs that it may use.")
	originCPU  = loadGauge("origin_cpu_ratio", "ratio", metric.Lower, "CPU time of the server behind the gateway, as a share of all CPUs that it may use.")
	machineCPU = loadGauge("machine_cpu_ratio", "ratio", metric.Lower, "Share of the time of all CPUs that any program used, excluding stolen time.")
	softirqCPU = loadGauge("softirq_busiest_ratio", "ratio", metric.Lower,
		"Largest share of time that one CPU spent in soft interrupts (mostly the network's). Above 0.9 that CPU was the bottleneck, even if other CPUs were idle.")
	softirqCost = loadGauge("softirq_per_request_seconds", "seconds", metric.Lower, "Time of all CPUs in soft interrupts per request, in seconds, including those of other programs.")
	logBusy     = loadGauge("log_busy_ratio", "ratio", metric.Lower,
		"Share of time in which a line of the log was being written. Only one line is written at a time; above 0.9 the log was the bottleneck.")
	logBytes = loadGauge("log_per_request_bytes", "bytes", metric.Lower, "Bytes that the gateway added to its log per request.")
)

// gatewayParts are the parts of the CPU time per request of our own proxy, as its
// CPU profile divides it.
var gatewayParts = []struct {
	name string // in the worker's page
	desc *metric.Desc
}{
	{"handshake", gatewayPart("handshake", "TLS handshakes")},
	{"records", gatewayPart("record", "sealing and opening TLS records")},
	{"hop", gatewayPart("hop", "reading, forwarding and writing requests and answers, including their system calls")},
	{"logging", gatewayPart("logging", "the log")},
	{"runtime", gatewayPart("runtime", "Go's scheduler and garbage collector")},
}

func gatewayPart(name, what string) *metric.Desc {
	return loadGauge(name+"_cpu_per_request_seconds", "seconds", metric.Lower,
		"CPU time per request of our own proxy (or server) for "+what+", in seconds: "+gatewayCost.Name+" times the share of samples in the CPU profile (100 samples a second).")
}

// Kinds of gateways.
const (
	directGateway  = "direct"
	ownGateway     = "own"
	nginxGateway   = "nginx"
	commandGateway = "command"
)

// gatewayParams are the parameters of a gateway and the server behind it, without a load.
var gatewayParams = []bench.Param{
	{Name: "gateway", Default: ownGateway, Values: []string{ownGateway, directGateway, nginxGateway, commandGateway}, Subject: true,
		Doc: "The gateway to measure. own: our own proxy on Go's standard library. direct: no gateway, the server itself answers. nginx: nginx. command: the parameter command."},
	{Name: "command", Text: true, Subject: true, Doc: "A gateway's command line, split into words as a shell does. " +
		"The gateway must listen on {host}:{port} and forward to 127.0.0.1:{port2}. The certificate and the key are in {work}/server.pem and {work}/server-key.pem. The gateway may write a log to {data}/gateway.log."},
	{Name: tlsParam.Name, Default: "on", Values: tlsParam.Values, Doc: tlsParam.Doc, Subject: true},
	logParam,
	{Name: "size", Default: "64", Doc: "Bytes of an answer; 1MiB measures bulk transfer."},
	{Name: "threads", Default: "0", Doc: "Concurrent threads of our own proxy, or worker processes of nginx; 0 for one per CPU."},
}

var gatewayTools = []bench.Tool{{Command: "nginx", Package: "nginx-light", With: func(p bench.Params) bool { return p["gateway"] == nginxGateway }}}

// gateway is a reverse proxy that terminates TLS. The server behind it runs in the same
// environment, so the hop between the two stays within it.
//
// Three things that are often called its throughput are separate here: requests on kept
// connections (keep-alive=on), handshakes, full (keep-alive=off) or resumed (also resume=on), and
// bytes (a large size).
var gateway = bench.Workload{
	Name: "gateway",
	Doc: "A TLS-terminating reverse proxy (our own, nginx, or a command) with a server behind it: " +
		"requests, handshakes or bytes per second, the CPU time of each part, and the part that was the bottleneck.",
	Version: 1,
	Params:  slices.Concat(loadParams("200"), gatewayParams, []bench.Param{httpParam, keepAliveParam, resumeParam, httpLoad}),
	Metrics: func(p bench.Params) []*metric.Desc {
		return append(loadMetrics(p), gatewayMetrics(p)...)
	},
	Primary:    loadPrimary,
	Operations: loadRequests,
	Tools:      slices.Concat(generatorTools, gatewayTools),
	Quick:      map[string]string{"measure": quickMeasure},
	Estimate:   loadEstimate,
	Job:        gatewayJob,
	Parse:      parseGateway,
	Series:     loadSeries,
	Failures:   loadFailures,
	Check:      checkGateway,
}

// httpParam is the version between the client and the gateway. The hop behind it stays HTTP/1.1,
// as with nginx, so the versions differ in one thing.
var httpParam = bench.Param{Name: "http", Default: "1.1", Values: []string{"1.1", "2"}, Subject: true,
	Doc: "HTTP version between client and gateway. 2 needs TLS, because the TLS handshake (ALPN) negotiates HTTP/2; the parameter pipeline is then the number of concurrent streams. Behind the gateway the version is always 1.1."}

// mostStreams is the number of streams that any HTTP/2 server should allow on a connection: RFC
// 9113, section 6.5.2, recommends no lower limit.
const mostStreams = 100

// gatewayProtocol is the load generator's name of the version of HTTP.
func gatewayProtocol(p bench.Params) (string, error) {
	if p["http"] != "2" {
		return "http1", nil
	}
	if p["tls"] == "off" {
		return "", errors.New("parameter http=2: HTTP/2 is negotiated in the TLS handshake; set tls=on")
	}
	if streams, err := p.Int("pipeline", 1); err != nil || streams > mostStreams {
		return "", fmt.Errorf("parameter pipeline=%s: with http=2 want 1 to %d streams on a connection, which every server allows", p["pipeline"], mostStreams)
	}
	return "http2", nil
}

// gatewayMetrics are what a gateway and its surroundings used.
func gatewayMetrics(p bench.Params) []*metric.Desc {
	out := []*metric.Desc{gatewayCost, gatewayCPU, machineCPU, softirqCPU, softirqCost, logBytes, logBusy}
	if p["gateway"] != directGateway {
		out = append(out, originCPU)
	}
	if ownProgram(p) {
		for _, part := range gatewayParts {
			out = append(out, part.desc)
		}
	}
	return out
}

// ownProgram reports whether the worker itself answers.
func ownProgram(p bench.Params) bool {
	return p["gateway"] == ownGateway || p["gateway"] == directGateway
}

// pageAddress is where the worker's page of counts is.
const pageAddress = "{host}:{port3}"

func gatewayJob(p bench.Params) (bench.Job, error) {
	size, err := answerSize(p)
	if err != nil {
		return bench.Job{}, err
	}
	protocol, err := gatewayProtocol(p)
	if err != nil {
		return bench.Job{}, err
	}
	if p["resume"] == "on" && (p["tls"] == "off" || !freshConnections(p)) {
		return bench.Job{}, errors.New("parameter resume=on: only handshakes can resume a session; set tls=on and keep-alive=off")
	}
	job, err := gatewayInside(p)
	if err != nil {
		return bench.Job{}, err
	}
	more := []string{"--protocol", protocol, "--path", "/" + strconv.FormatInt(size, 10), "--stats", "counts", "--stats-address", pageAddress}
	if p["tls"] == "on" {
		more = append(more, "--ca", "{work}/server.pem", "--server-name", "localhost")
	}
	job.Outside, err = loadOutside(p, more...)
	job.Window, job.Waits = loadWindow, loadWaits
	return job, err
}

// gatewayInside is the gateway and the server behind it, without a load.
func gatewayInside(p bench.Params) (bench.Job, error) {
	threads, err := nginxThreads(p)
	if err != nil {
		return bench.Job{}, err
	}
	keys, err := tlsFiles()
	if err != nil {
		return bench.Job{}, err
	}
	if (p["gateway"] == commandGateway) != (p["command"] != "") {
		return bench.Job{}, errors.New("parameter command: set it with gateway=command, and only then")
	}
	kind, argv, processes, programs := p["gateway"], []string(nil), []string{"gateway", "origin"}, []string(nil)
	switch kind {
	case nginxGateway:
		kind, argv = commandGateway, []string{"nginx", "-p", "{data}/", "-c", "{work}/" + nginxFile(p["tls"], p["log"]), "-e", "stderr"}
	case commandGateway:
		if argv, err = words(p["command"]); err != nil {
			return bench.Job{}, fmt.Errorf("parameter command: %w", err)
		}
	}
	inside := host.Cmd{Argv: []string{"{work}/gateway", "gateway", "-kind", kind, "-listen", "{host}:{port}", "-origin", "127.0.0.1:{port2}",
		"-page", pageAddress, "-log", p["log"], "-log-file", "{data}/gateway.log", "-data", "{data}"}}
	if p["tls"] == "on" {
		inside.Argv = append(inside.Argv, "-certificate", "{work}/server.pem", "-key", "{work}/server-key.pem")
	}
	if argv != nil {
		text, err := json.Marshal(argv)
		if err != nil {
			return bench.Job{}, err
		}
		processes, programs = append(processes, path.Base(argv[0])), []string{argv[0]}
		// A system command in front tells launchers that the machine's programs are needed.
		inside.Argv = slices.Concat([]string{"env"}, inside.Argv, []string{"-command", string(text)})
	}
	if threads != "auto" {
		inside.Env = map[string]string{"GOMAXPROCS": threads}
	}
	files := slices.Concat(loadFiles, keys, []bench.File{{Name: "gateway", From: bench.Worker, Exec: true}})
	return bench.Job{Inside: inside, Processes: processes, Programs: programs,
		Files: append(files, nginxFiles(nginxSettings{Threads: threads, Origin: "127.0.0.1:{port2}"}, "gateway.log")...)}, nil
}

func parseGateway(o bench.Outcome) ([]metric.Sample, error) {
	r, err := readLoad(o)
	if err != nil {
		return nil, err
	}
	var found reading
	found.load(r, o)
	found.gateway(r, o.Params)
	return found.samples, errors.Join(found.missing...)
}

// gateway adds the metrics of the worker's page: differences between the two ends of the measured
// time.
func (r *reading) gateway(rep *load.Report, p bench.Params) {
	const silent = "the gateway does not report this value, because the environment's kernel does not count it"
	seconds := sumOfStatistics(rep, "seconds_total") // between the two readings
	requests := float64(rep.Expected)                // in that time
	available := seconds * sumOfStatistics(rep, "cpus")
	held := available // limited by the parameter threads, which is GOMAXPROCS of the server behind, too
	if threads, err := p.Int("threads", 1); err == nil {
		held = min(available, seconds*float64(threads))
	}
	gateways := held
	if p["gateway"] == commandGateway { // which does not get the parameter
		gateways = available
	}
	used := sumOfStatistics(rep, "gateway_cpu_seconds_total")
	r.derived(gatewayCost, used/requests, silent)
	r.derived(gatewayCPU, timeShare(used/gateways), silent)
	if p["gateway"] != directGateway {
		r.derived(originCPU, timeShare(sumOfStatistics(rep, "origin_cpu_seconds_total")/held), silent)
	}
	soft, most, cpus := 0.0, 0.0, 0.0
	for name, v := range rep.Server {
		if strings.HasPrefix(name, "softirq_cpu") {
			soft, most, cpus = soft+v, max(most, v), cpus+1
		}
	}
	if cpus == 0 {
		soft, most = math.NaN(), math.NaN()
	}
	r.derived(machineCPU, timeShare(sumOfStatistics(rep, "machine_cpu_seconds_total")/seconds/cpus), silent)
	r.derived(softirqCPU, timeShare(most/seconds), silent)
	r.derived(softirqCost, soft/requests, silent)
	r.derived(logBytes, sumOfStatistics(rep, "log_bytes_total")/requests, "the gateway's log is not at the given path")
	writing := sumOfStatistics(rep, "log_write_seconds_total")
	if sumOfStatistics(rep, "log_bytes_total") == 0 {
		writing = 0 // regardless of which side wrote nothing
	}
	r.derived(logBusy, timeShare(writing/seconds), "only our own proxy reports the time for writing the log")
	if !ownProgram(p) {
		return
	}
	samples := 0.0
	for _, part := range gatewayParts {
		samples += sumOfStatistics(rep, "split_"+part.name+"_seconds_total")
	}
	if samples < fewestSamples {
		samples = math.NaN()
	}
	for _, part := range gatewayParts {
		r.derived(part.desc, sumOfStatistics(rep, "split_"+part.name+"_seconds_total")/samples*used/requests, "the gateway's CPU profile has too few samples; measure for longer")
	}
}

// fewestSamples is the least CPU time, in seconds, of a profile that is divided: with 50 samples,
// a part of one half has a standard error of about 15 %.
const fewestSamples = 0.5

// checkGateway verifies, in addition to the load's own check, that the parameters were in effect:
// a setting that a gateway ignores would compare equal arms.
func checkGateway(o bench.Outcome) (string, error) {
	size, err := answerSize(o.Params)
	if err != nil {
		return "", err
	}
	if _, err := checkLoad(o); err != nil {
		return "", err
	}
	r, err := readLoad(o)
	if err != nil {
		return "", err
	}
	p := o.Params
	protocol, err := gatewayProtocol(p)
	if err != nil {
		return "", err
	}
	if err := logInEffect(p, float64(r.Requests), sumOfStatistics(r, "log_bytes_total")); err != nil {
		return "", err
	}
	if served, counted := r.Server["requests_total"]; counted || foreignLoad(p) != nil { // results of older versions have no such count
		if !counted {
			served = math.NaN()
		}
		if err := checkServed(r, p, served); err != nil {
			return "", err
		}
	}
	switch {
	case r.Protocol != protocol:
		return "", fmt.Errorf("http=%s is not in effect: the load generator used %s", p["http"], r.Protocol)
	case p["tls"] == "off" || !freshConnections(p) || foreignLoad(p) != nil: // ours alone counts handshakes
	case r.Handshakes < r.Requests*99/100:
		return "", fmt.Errorf("keep-alive=off is not in effect: %d handshakes for %d requests", r.Handshakes, r.Requests)
	case p["resume"] == "on" && r.Resumed < r.Handshakes*95/100:
		return "", fmt.Errorf("resume=on is not in effect: the gateway resumed %d of %d sessions", r.Resumed, r.Handshakes)
	case p["resume"] == "off" && r.Resumed > 0:
		return "", fmt.Errorf("resume=off is not in effect: %d sessions were resumed", r.Resumed)
	}
	// The answers are the same whichever version of HTTP brings them, in which arms may differ.
	return digest("load", "http1", r.Digest, "gateway", strconv.FormatInt(size, 10)), nil
}

// logInEffect verifies the level of the log by the bytes written to it.
func logInEffect(p bench.Params, requests, written float64) error {
	const line = 20 // bytes of the shortest line of a log
	switch {
	case p["log"] == "info" && p["gateway"] != commandGateway && !(written >= line*requests):
		return fmt.Errorf("log=info is not in effect: %.0f requests added only %.0f bytes to the log", requests, written)
	case p["log"] == "off" && written > 0:
		return fmt.Errorf("log=off is not in effect: the log grew by %.0f bytes", written)
	}
	return nil
}
