package workloads

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/load"
	"github.com/teescope/teescope/internal/metric"
)

var (
	messagesPerSecond = loadGauge("messages_per_second", "messages_per_second", metric.Higher,
		"Messages of all clients, divided by the time from the common start to the last answer, on the harness's clock.")
	messagesTotal = &metric.Desc{Name: "messages_total", Unit: "messages", Kind: metric.Counter,
		Help: "Messages answered in the whole run, including the warm-up; the run's counters are divided by this number."}
	measuredSeconds = loadGauge("measured_seconds", "seconds", metric.Lower, "Time from the common start of the clients to the last answer.")

	serverStartSeconds    = loadGauge("server_start_seconds", "seconds", metric.Lower, "Time from starting the process or enclave to the first answer: the sum of load, listen, first handshake and first answer; building is not included.")
	listenSeconds         = loadGauge("listen_seconds", "seconds", metric.Lower, "Time from the main function to a listening socket, in seconds on the harness's clock: reading the key, making the TLS context.")
	firstHandshakeSeconds = loadGauge("first_handshake_seconds", "seconds", metric.Lower, "Time of the first connection to the server, including the TLS handshake. The client is warm: the client has already made other connections.")
	firstMessageSeconds   = loadGauge("first_message_seconds", "seconds", metric.Lower, "Time from the first message to its answer.")
	buildSeconds          = loadGauge("build_seconds", "seconds", metric.Lower, "Time to build the server, as recorded by the build; not part of any other time.")
	warmupSeconds         = loadGauge("warmup_seconds", "seconds", metric.Lower, "Time under full load until the rate of answers stopped rising.")
	peakRSSBytes          = loadGauge("peak_rss_bytes", "bytes", metric.Lower, "Largest resident set of the server as its kernel reports it; in an enclave, as the library OS reports it.")
	programBytes          = loadGauge("program_bytes", "bytes", metric.Lower, "Size of the files needed to run the server: the executable, or the classes and the library of the JVM.")

	messageTime = newTiming("message", "the time from the sending of a message to its answer", func(r *load.Report) string { return r.Service }, false)
)

// tlsScaling is the TLS server of the Java benchmark for Gramine-SGX, in Java and in
// Go (workloads/java, internal/worker/ack.go): strong scaling divides a number of
// messages among the clients, weak scaling gives each the same number.
//
// The published form is connect=inside, pause=10ms, warm=10, threads=10, tls=1.2: with its pause
// a client sends at most 100 messages a second whatever the server can do, so all arms tie, and
// from 11 clients on they wait for a thread.
var tlsScaling = bench.Workload{
	Name:    "tls-scaling",
	Doc:     "Messages to a TLS server in Java or Go from a growing number of clients, strong or weak scaling, with the server's start split into parts.",
	Version: 1,
	Params: []bench.Param{
		{Name: "server", Default: "go", Values: []string{"go", "go-dynamic", "jvm", "native-dynamic", "native-static"}, Subject: true,
			Doc: "The server. go: the Go server in teescope-work, a static program that teescope brings along. go-dynamic: the same, linked with the C library; it still makes its system calls itself. jvm: the Java server on a JVM. native-dynamic: the Java server as a native image with glibc. native-static: the same with musl."},
		{Name: "programs", Path: true, Subject: true, Doc: "Folder with the Java servers, workloads/java/target after make -C workloads/java jar (or go-dynamic, native-dynamic, native-static). Only server=go needs no such folder."},
		{Name: "java", Path: true, Named: true, Default: javaCommand, Subject: true, Doc: "The java command in the environment; Gramine needs its real path, like /usr/lib/jvm/java-17-openjdk-amd64/bin/java."},
		{Name: "jvm-flags", Text: true, Subject: true, Doc: "Flags of the JVM, split into words as a shell does: for example -Xint or -XX:TieredStopAtLevel=1."},
		{Name: "scaling", Default: "strong", Values: []string{"strong", "weak"}, Doc: "How the work grows with the clients. strong: strong-total messages are divided among the clients. weak: each client sends weak-per-client messages."},
		{Name: "clients", Default: "1", Doc: "Number of clients, each with its own connection and one message at a time."},
		{Name: "strong-total", Default: "20000", Doc: "Messages of all clients together (strong scaling)."},
		{Name: "weak-per-client", Default: "5000", Doc: "Messages of each client (weak scaling)."},
		{Name: "threads", Default: "auto", Doc: "Number of connections that the server serves at the same time; auto is one per client."},
		{Name: "tls", Default: "1.3", Values: []string{"1.2", "1.3"}, Doc: "TLS version. The cipher is AES-128-GCM, the key P-256. On a CPU without AES instructions, such as QEMU's qemu64, the Go server uses ChaCha20-Poly1305 with TLS 1.3."},
		{Name: "connect", Default: "before", Values: []string{"before", "inside"}, Doc: "When the clients connect. before: before the measured time. inside: within the measured time."},
		{Name: "warm", Default: "5s", Doc: "Warm-up before the measured time. A time: all clients send for this time, and for the same time again while the rate still rises, up to six times. A number: one client sends this many messages."},
		{Name: "pause", Default: "0s", Doc: "Pause of a client after each answer."},
	},
	Metrics: func(p bench.Params) []*metric.Desc {
		out := []*metric.Desc{messagesPerSecond, measuredSeconds, messagesTotal, serverStartSeconds, loadSeconds, listenSeconds, firstHandshakeSeconds,
			firstMessageSeconds, buildSeconds, warmupSeconds, peakRSSBytes, programBytes, loadCPU}
		for _, t := range []*timing{messageTime, scalingHandshake(p)} {
			out = append(out, t.mean)
			for _, q := range t.quantiles {
				out = append(out, q.desc)
			}
			if t.max != nil {
				out = append(out, t.max)
			}
		}
		return out
	},
	Primary:    func(bench.Params) *metric.Desc { return messagesPerSecond },
	Operations: messagesTotal,
	Tools: []bench.Tool{{Command: javaCommand, Package: javaPackage, Param: "java",
		With: func(p bench.Params) bool { return p["server"] == "jvm" }}},
	Sweep: map[string][]string{"scaling": {"strong", "weak"}, "clients": {"1", "2", "4", "8", "16"}},
	Estimate: func(p bench.Params) (time.Duration, int64) {
		size, err := scalingSizeOf(p)
		warm, _, err2 := scalingWarm(p)
		pause, err3 := time.ParseDuration(p["pause"])
		if errors.Join(err, err2, err3) != nil {
			return time.Second, 0 // Job reports what is wrong
		}
		const one = 200 * time.Microsecond // on one of few cores
		return 2*time.Second + warm + time.Duration(size.total())*one + time.Duration(size.total()/size.clients)*pause, 0
	},
	Job: scalingJob,
	Parse: func(o bench.Outcome) ([]metric.Sample, error) {
		r, err := readScaling(o)
		if err != nil {
			return nil, err
		}
		var found reading
		const none = "no message was answered"
		found.derived(messagesPerSecond, float64(r.Requests)/r.Seconds, none)
		found.value(measuredSeconds, r.Seconds, none)
		found.value(messagesTotal, float64(r.Answered), none)
		found.scalingStart(o, r)
		if r.BuildSeconds != nil {
			found.value(buildSeconds, *r.BuildSeconds, "the recorded build time is not a number above 0")
		} else {
			found.lack(buildSeconds, "the build of this server did not record the build time")
		}
		if s, cut, err := scalingSteady(r); err != nil {
			found.lack(warmupSeconds, err.Error())
		} else if !*s.Attained {
			found.lack(warmupSeconds, "the rate was still rising at the end of the warm-up")
		} else {
			found.derived(warmupSeconds, cut, none)
		}
		found.scalingEnd(o)
		found.derived(loadCPU, timeShare(r.CPUSeconds/(r.Seconds+float64(len(r.Windows))*r.Width)/float64(r.Cores)), none)
		found.timing(messageTime, r.Service)
		found.timing(scalingHandshake(o.Params), r.Handshake)
		return found.samples, errors.Join(found.missing...)
	},
	Series: func(o bench.Outcome) (bench.Series, error) {
		r, err := readScaling(o)
		if err != nil {
			return bench.Series{}, err
		}
		s, _, err := scalingSteady(r)
		return s, err
	},
	Check: func(o bench.Outcome) (string, error) {
		r, err := readScaling(o)
		if err != nil {
			return "", err
		}
		size, err := scalingSizeOf(o.Params)
		if err != nil {
			return "", err
		}
		began := map[string]string{"before": "connected", "inside": "unconnected"}[o.Params["connect"]]
		switch {
		case int64(r.Connections) != size.clients || int64(r.Requests) != size.total():
			return "", fmt.Errorf("%d clients got %d answers, want %d clients and %d answers", r.Connections, r.Requests, size.clients, size.total())
		case len(r.Errors) > 0:
			return "", fmt.Errorf("not all messages were answered: %v", r.Errors)
		case r.Began != began:
			return "", fmt.Errorf("the clients began the measured time %q, want %q", r.Began, began)
		case r.Digest == "" || r.Versions["tls"] != "TLS "+o.Params["tls"]:
			return "", fmt.Errorf("the report has the digest %q and the version %q, want a digest of the answers, and TLS %s", r.Digest, r.Versions["tls"], o.Params["tls"])
		}
		// A server in Go chooses another cipher in TLS 1.3 on a CPU without instructions for AES, so the digest names it.
		cipher := r.Versions["cipher"]
		return digest("tls-scaling", r.Digest, r.Versions["tls"], cipher, strconv.FormatFloat(r.PauseSeconds, 'g', -1, 64)) + " " + cipher, nil
	},
}

// The JVM of servers in Java.
const (
	javaCommand = "java"
	javaPackage = "openjdk-17-jre-headless"
)

// scalingSize is the number of messages.
type scalingSize struct {
	clients, strong, each int64 // strong is 0 in weak scaling, each in strong
}

func (s scalingSize) total() int64 { return max(s.strong, s.clients*s.each) }

// scalingHandshake is the timing of handshakes: one for each client.
func scalingHandshake(p bench.Params) *timing {
	n, err := p.Int("clients", 1)
	if err != nil {
		return loadHandshake // Job reports what is wrong
	}
	return loadHandshake.supportedBy(n)
}

// scalingSizeOf bounds the number of messages, whose times are kept one by one.
func scalingSizeOf(p bench.Params) (s scalingSize, err error) {
	if s.clients, err = p.Int("clients", 1); err != nil {
		return s, err
	}
	if p["scaling"] == "weak" {
		s.each, err = p.Int("weak-per-client", 1)
	} else {
		s.strong, err = p.Int("strong-total", s.clients)
	}
	if err == nil && (s.clients > mostClients || max(s.strong, s.each) > load.MostMessages || s.total() > load.MostMessages) {
		err = fmt.Errorf("parameters clients=%d, %s scaling: want at most %d clients and %d messages", s.clients, p["scaling"], mostClients, load.MostMessages)
	}
	return s, err
}

// scalingWarm reads the warm-up, a time or a number of messages.
func scalingWarm(p bench.Params) (time.Duration, int64, error) {
	if n, err := p.Int("warm", 0); err == nil {
		return 0, n, nil
	}
	d, err := p.Seconds("warm")
	if err != nil || d < 100*time.Millisecond {
		return 0, 0, fmt.Errorf("parameter warm=%q: want a time of at least 100ms, or a number of messages", p["warm"])
	}
	return d, 0, nil
}

// warmMost is the factor by which the warm-up may grow.
const warmMost = "6"

// The names under which the server knows certificate and key, and the client the server.
const (
	scalingCert   = "server.pem"
	scalingKey    = "server.key"
	scalingServer = "server.test"
)

func scalingJob(p bench.Params) (bench.Job, error) {
	size, err := scalingSizeOf(p)
	if err != nil {
		return bench.Job{}, err
	}
	warm, _, err := scalingWarm(p)
	if err != nil {
		return bench.Job{}, err
	}
	pause, err := time.ParseDuration(p["pause"])
	if err != nil || pause < 0 {
		return bench.Job{}, fmt.Errorf("parameter pause=%q: want a time like 10ms, or 0s", p["pause"])
	}
	threads := size.clients
	if p["threads"] != "auto" {
		if threads, err = p.Int("threads", 1); err != nil {
			return bench.Job{}, err
		}
	}
	switch {
	case p["connect"] == "before" && threads < size.clients:
		return bench.Job{}, fmt.Errorf("parameter threads=%d: %d clients that connect before they begin need as many threads; want threads=auto or connect=inside", threads, size.clients)
	case p["connect"] == "inside" && warm > 0:
		return bench.Job{}, fmt.Errorf("parameter warm=%q: with connect=inside the clients connect in the measured time, so they cannot warm up before it; want a number of messages", p["warm"])
	}
	cert, key, err := load.Certificate(load.BenchmarkSecret, scalingServer)
	if err != nil {
		return bench.Job{}, err
	}
	program, file, note, err := scalingProgram(p)
	if err != nil {
		return bench.Job{}, err
	}
	job := bench.Job{
		Inside: host.Cmd{Argv: append(program, "--host", "{host}", "--port", "{port}", "--threads", fmt.Sprint(threads), "--tls", p["tls"],
			"--cert", "{work}/"+scalingCert, "--key", "{work}/"+scalingKey), Dir: "{work}", Ready: "ready"},
		Files: append([]bench.File{file, {Name: scalingCert, Data: cert}, {Name: scalingKey, Data: key}}, loadFiles...),
		Outside: &host.Cmd{Argv: []string{"{work}/teescope-work", "tlsclient", "--address", "{host}:{port}", "--ca", "{work}/" + scalingCert,
			"--server-name", scalingServer, "--tls", p["tls"], "--clients", fmt.Sprint(size.clients), "--connect", p["connect"], "--warm", p["warm"], "--pause", pause.String()}},
	}
	if warm > 0 {
		job.Outside.Argv = append(job.Outside.Argv, "--warm-most", warmMost)
	}
	if size.each > 0 {
		job.Outside.Argv = append(job.Outside.Argv, "--per-client", fmt.Sprint(size.each))
	} else {
		job.Outside.Argv = append(job.Outside.Argv, "--messages", fmt.Sprint(size.strong))
	}
	if note != "" {
		job.Outside.Argv = append(job.Outside.Argv, "--build", note)
	}
	return job, nil
}

// scalingProgram returns the server's command, the file that it needs, and the path of the note
// with its build time.
func scalingProgram(p bench.Params) (argv []string, file bench.File, note string, err error) {
	if p["server"] == "go" { // its own name separates its counters from the clients'
		return []string{"{work}/tls-bench-go", "tlsserver"}, bench.File{Name: "tls-bench-go", From: bench.Worker, Exec: true}, "", nil
	}
	if p["programs"] == "" {
		target := p["server"]
		if target == "jvm" {
			target = "jar"
		}
		return nil, bench.File{}, "", fmt.Errorf("parameter programs: want the folder with the server %s: make -C workloads/java %s makes workloads/java/target", p["server"], target)
	}
	name, target := "native-bench-"+strings.TrimPrefix(p["server"], "native-"), p["server"]
	argv = []string{"{work}/" + name}
	switch p["server"] {
	case "go-dynamic":
		name = "tls-bench-go-dynamic"
		argv = []string{"{work}/" + name, "tlsserver"}
	case "jvm":
		flags, err := words(p["jvm-flags"])
		if err != nil {
			return nil, bench.File{}, "", fmt.Errorf("parameter jvm-flags: %w", err)
		}
		name, target = "tls-bench.jar", "jar"
		argv = append(append([]string{p["java"]}, flags...), "-cp", "{work}/"+name, "server.BenchServer")
	}
	from := path.Join(p["programs"], name)
	return argv, bench.File{Name: name, From: from, Exec: true, Hint: "make -C workloads/java " + target + " makes it"}, from + ".build", nil
}

// readScaling reads the clients' report.
func readScaling(o bench.Outcome) (*load.Scaling, error) {
	var r load.Scaling
	if err := readReport("clients", o.Outside.Stdout, &r); err != nil {
		return nil, err
	}
	if !(r.Seconds > 0) || r.Cores < 1 || r.Connections < 1 || r.Requests < 1 || r.Width < 0 || r.FirstHandshake <= 0 || r.FirstAnswer <= 0 {
		return nil, errors.New("report of the clients: want seconds, cores, connections, requests and the first times above 0")
	}
	return &r, nil
}

// scalingSteady finds the end of the warm-up, which the clients extend until it is found or
// warmMost is reached.
func scalingSteady(r *load.Scaling) (s bench.Series, end float64, err error) {
	at, warm, known := load.WarmUp(r.Windows)
	if !known || !(r.Width > 0) {
		return s, 0, errors.New("the rate is not recorded during a warm-up that is given as a number of messages; give a time, such as warm=5s")
	}
	s.Width, s.Method, s.Attained = r.Width, "the last quarter of the warm-up is at most a ninth faster than the quarter before", &warm
	for _, answers := range r.Windows {
		s.Values = append(s.Values, answers/r.Width)
	}
	return s, float64(at) * r.Width, nil
}

// scalingStart reads how the server started: two lines of its own, then what the
// first client saw.
func (r *reading) scalingStart(o bench.Outcome, rep *load.Scaling) {
	r.value(firstHandshakeSeconds, rep.FirstHandshake, "")
	r.value(firstMessageSeconds, rep.FirstAnswer, "")
	var loaded, ready time.Duration
	for _, l := range o.Inside.Lines {
		switch {
		case l.Text == "loaded" && loaded == 0:
			loaded = l.At
		case l.Text == "ready" && ready == 0:
			ready = l.At
		}
	}
	if loaded <= 0 || ready < loaded {
		const why = `the server did not print "loaded" and then "ready"`
		for _, d := range []*metric.Desc{loadSeconds, listenSeconds, serverStartSeconds} {
			r.lack(d, why)
		}
		return
	}
	r.value(loadSeconds, loaded.Seconds(), "")
	r.value(listenSeconds, (ready - loaded).Seconds(), "")
	r.derived(serverStartSeconds, ready.Seconds()+rep.FirstHandshake+rep.FirstAnswer, "")
}

// scalingEnd reads the server's last line.
func (r *reading) scalingEnd(o bench.Outcome) {
	var end struct {
		PeakRSS float64 `json:"peak_rss_bytes"`
		Program float64 `json:"program_bytes"`
	}
	why := "the server does not report this value, because the kernel or library OS below it does not"
	if lines := o.Inside.Lines; len(lines) == 0 || json.Unmarshal([]byte(lines[len(lines)-1].Text), &end) != nil {
		end.PeakRSS, end.Program = 0, 0
		why = "the server was stopped before it printed its last line"
	}
	for _, v := range []struct {
		desc  *metric.Desc
		bytes float64
	}{{peakRSSBytes, end.PeakRSS}, {programBytes, end.Program}} {
		if v.bytes > 0 {
			r.value(v.desc, v.bytes, "")
		} else {
			r.lack(v.desc, why)
		}
	}
}
