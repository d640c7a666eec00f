package workloads

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/template"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/load"
	"github.com/teescope/teescope/internal/metric"
)

// nginxConfig is a complete configuration. Paths are relative to -p, those of certificates to the
// configuration's folder. Debian's nginx has other defaults compiled in, in folders that only its
// package creates.
//
// Worker processes run as the user who started nginx, since they read that user's folder. A log
// line is written when its request ends, unbuffered, as by default.
var nginxConfig = template.Must(template.New("nginx").Parse(`daemon off;
user root;
worker_processes {{.Threads}};
worker_rlimit_nofile 65536;
pid nginx.pid;
error_log {{.ErrorLog}};
events { worker_connections 16384; }
http {
	access_log {{.AccessLog}};
	client_body_temp_path body;
	proxy_temp_path proxy;
	fastcgi_temp_path fastcgi;
	uwsgi_temp_path uwsgi;
	scgi_temp_path scgi;
	default_type application/octet-stream;
	sendfile on;
	keepalive_requests 1000000000;
	keepalive_timeout 600s;
{{- if .Origin}}
	upstream origin {
		server {{.Origin}};
		keepalive 4096;
		keepalive_requests 1000000000;
	}
{{- end}}
	server {
		listen {host}:{port}{{if .TLS}} ssl http2{{end}} backlog=4096;
{{- if .TLS}}
		ssl_protocols TLSv1.2 TLSv1.3;
		ssl_certificate server.pem;
		ssl_certificate_key server-key.pem;
{{- end}}
{{- if .Origin}}
		location / {
			proxy_pass http://origin;
			proxy_http_version 1.1;
			proxy_set_header Connection "";
		}
{{- else}}
		root www;
{{- end}}
	}
{{- if .Status}}
	server {
		listen {host}:{{.Status}};
		access_log off;
		location = /stub_status { stub_status; }
	}
{{- end}}
}
`))

// nginxSettings fill in nginxConfig.
type nginxSettings struct {
	Threads, ErrorLog, AccessLog string
	Origin                       string // HOST:PORT; "" serves the files of www
	Status                       string // port of a status page; "" is none
	TLS                          bool
}

func (s nginxSettings) file(name string) bench.File {
	var b bytes.Buffer
	if err := nginxConfig.Execute(&b, s); err != nil {
		panic(err) // the template is a constant, and its values are texts
	}
	return bench.File{Name: name, Data: b.Bytes()}
}

// tlsFiles are the certificate and key of servers under test, the same in every run. A
// full handshake costs the server an ECDSA signature on P-256 and an X25519.
var tlsFiles = sync.OnceValues(func() ([]bench.File, error) {
	cert, key, err := load.Certificate(load.BenchmarkSecret, "localhost", "127.0.0.1", "::1")
	return []bench.File{{Name: "server.pem", Data: cert}, {Name: "server-key.pem", Data: key}}, err
})

// nginxLogs are the directives of a level; at info, nginx logs each request and events of
// connections.
func nginxLogs(level, file string) (errorLog, accessLog string) {
	switch level {
	case "error":
		return file + " error", "off"
	case "info":
		return file + " info", file
	}
	return "/dev/null crit", "off"
}

var logParam = bench.Param{Name: "log", Default: "off", Values: []string{"off", "error", "info"}, Subject: true,
	Doc: "The server's log, in a file in {data}: off, errors, or a line for each request (info)."}

// nginxThreads reads the parameter threads in nginx's notation.
func nginxThreads(p bench.Params) (string, error) {
	n, err := p.Int("threads", 0)
	if err != nil {
		return "", err
	}
	if n == 0 {
		return "auto", nil
	}
	return strconv.FormatInt(n, 10), nil
}

// mostAnswer is the largest file or answer, in bytes; it is held in memory.
const mostAnswer = 64 << 20

func answerSize(p bench.Params) (int64, error) {
	n, err := p.Bytes("size")
	if err == nil && n > mostAnswer {
		err = fmt.Errorf("parameter size=%s: want at most %d MiB", p["size"], mostAnswer>>20)
	}
	return n, err
}

var nginxDropped = loadGauge("dropped_connections_ratio", "ratio", metric.Lower,
	"Share of the connections accepted in the measured time that nginx did not handle (stub_status: accepts less handled), for example because its worker_connections are used up.")

// nginxStatic serves one static file; its own count of requests is reported next to the load's.
var nginxStatic = bench.Workload{
	Name:    "nginx",
	Doc:     "Requests for a static file to nginx, by number of connections, next to nginx's own count of requests.",
	Version: 1,
	Params: slices.Concat(loadParams("8"), []bench.Param{
		{Name: "size", Default: "1KiB", Doc: "Size of the file."},
		{Name: "threads", Default: "0", Doc: "Worker processes of nginx (worker_processes); 0 for one per CPU that it sees."},
		subject(tlsParam), keepAliveParam, resumeParam, logParam, httpLoad,
	}),
	Metrics: func(p bench.Params) []*metric.Desc {
		return append(loadMetrics(p), serverRequests, nginxDropped)
	},
	Primary:    loadPrimary,
	Operations: loadRequests,
	Sweep:      map[string][]string{"connections": {"8", "320", "560", "580", "960"}},
	Quick:      map[string]string{"connections": "8", "measure": quickMeasure},
	Tools:      slices.Concat(generatorTools, []bench.Tool{{Command: "nginx", Package: "nginx-light"}}),
	Estimate:   loadEstimate,
	Job:        nginxJob,
	Parse:      parseNginx,
	Series:     loadSeries,
	Failures:   loadFailures,
	Check: func(o bench.Outcome) (string, error) {
		size, err := answerSize(o.Params)
		if err != nil {
			return "", err
		}
		sum, err := checkLoad(o, "file", strconv.FormatInt(size, 10))
		if err != nil {
			return "", err
		}
		r, err := readLoad(o)
		if err != nil {
			return "", err
		}
		if err := checkServed(r, o.Params, sumOfStatistics(r, "requests")); err != nil {
			return "", err
		}
		return sum, nil
	},
}

// subject is a parameter in which arms may differ.
func subject(p bench.Param) bench.Param {
	p.Subject = true
	return p
}

func nginxJob(p bench.Params) (bench.Job, error) {
	size, err := answerSize(p)
	if err != nil {
		return bench.Job{}, err
	}
	threads, err := nginxThreads(p)
	if err != nil {
		return bench.Job{}, err
	}
	keys, err := tlsFiles()
	if err != nil {
		return bench.Job{}, err
	}
	files := slices.Concat(loadFiles, keys, []bench.File{{Name: "www/file", Data: bytes.Repeat([]byte("0123456789abcdef"), int(size+15)/16)[:size]}})
	files = append(files, nginxFiles(nginxSettings{Threads: threads, Status: "{port2}"}, "nginx.log")...)
	more := []string{"--protocol", "http1", "--path", "/file", "--stats", "nginx", "--stats-address", "{host}:{port2}"}
	if p["tls"] == "on" {
		more = append(more, "--ca", "{work}/server.pem", "--server-name", "localhost")
	}
	outside, err := loadOutside(p, more...)
	return bench.Job{
		Inside:  host.Cmd{Argv: []string{"nginx", "-p", "{work}/", "-c", "{work}/" + nginxFile(p["tls"], p["log"]), "-e", "stderr"}},
		Files:   files,
		Outside: outside,
		Window:  loadWindow,
		Waits:   loadWaits,
	}, err
}

// nginxFiles are the configurations of all values of tls and log: the data of arms must be
// equal, so each arm has all of them.
func nginxFiles(s nginxSettings, logFile string) []bench.File {
	var out []bench.File
	for _, tls := range tlsParam.Values {
		for _, level := range logParam.Values {
			s.TLS = tls == "on"
			s.ErrorLog, s.AccessLog = nginxLogs(level, logFile)
			out = append(out, s.file(nginxFile(tls, level)))
		}
	}
	return out
}

// nginxFile is the name of a configuration.
func nginxFile(tls, level string) string {
	return strings.Join([]string{"nginx", "tls", tls, "log", level}, "-") + ".conf"
}

func parseNginx(o bench.Outcome) ([]metric.Sample, error) {
	r, err := readLoad(o)
	if err != nil {
		return nil, err
	}
	var found reading
	found.load(r, o)
	const silent = "nginx's status page was not read"
	found.value(serverRequests, sumOfStatistics(r, "requests"), silent)
	accepts, handled := sumOfStatistics(r, "accepts"), sumOfStatistics(r, "handled")
	if accepts == 0 { // kept connections: none was accepted in the measured time, so none was dropped
		accepts = 1
	}
	found.derived(nginxDropped, (accepts-handled)/accepts, silent)
	return found.samples, errors.Join(found.missing...)
}
