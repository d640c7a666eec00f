package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/teescope/teescope/internal/await"
	"github.com/teescope/teescope/internal/host"
)

// arm is what runs next to a server.
type arm struct {
	name, doc string
	// commands are started one after the other; DIR, BIN and PORT are replaced, PORT by
	// one free port for all.
	commands [][]string
	// files are written into DIR first.
	files map[string]string
	// metrics is the path at PORT that is read every five seconds, as by a Prometheus;
	// "" for none.
	metrics string
}

var arms = []arm{
	{name: "off", doc: "nothing"},
	{name: "agent", doc: "agent, budget 1 %", metrics: "/metrics",
		commands: [][]string{{"BIN", "agent", "--listen", "127.0.0.1:PORT"}}},
	{name: "full", doc: "agent, every event", metrics: "/metrics",
		commands: [][]string{{"BIN", "agent", "--listen", "127.0.0.1:PORT", "--budget", "100%"}}},
	{name: "monitor", doc: "monitor, budget 1 %",
		commands: [][]string{{"BIN", "monitor", "--listen", "127.0.0.1:PORT", "--data", "DIR/data"}}},
	{name: "classic", doc: "node_exporter and Prometheus",
		commands: [][]string{
			{"prometheus-node-exporter", "--web.listen-address=127.0.0.1:PORT"},
			{"prometheus", "--config.file=DIR/prometheus.yml", "--storage.tsdb.path=DIR/tsdb", "--web.listen-address=127.0.0.1:0"},
		},
		files: map[string]string{"prometheus.yml": "global: {scrape_interval: 5s}\nscrape_configs: [{job_name: node, static_configs: [{targets: ['127.0.0.1:PORT']}]}]\n"}},
}

// kernelSources work in the kernel, on events or ticks.
var kernelSources = []string{"syscalls", "samples", "waits", "tls", "faults", "pagecache", "block", "tcp"}

// windowed are those of them that the budget detaches and attaches.
var windowed = []string{"syscalls", "tls", "faults", "pagecache", "block", "tcp"}

// armOf finds an arm by name.
func armOf(name string) (arm, error) {
	if i := slices.IndexFunc(arms, func(a arm) bool { return a.name == name }); i >= 0 {
		return arms[i], nil
	}
	return arm{}, fmt.Errorf("no arm %q; there are off, agent, full, monitor and classic", name)
}

var errMissing = errors.New("not installed")

func (a arm) possible(bin string) error {
	for _, c := range a.commands {
		if c[0] == "BIN" {
			if _, err := os.Stat(bin); err != nil {
				return fmt.Errorf("%w; run make build", err)
			}
		} else if _, err := exec.LookPath(c[0]); err != nil {
			return fmt.Errorf("%s: %w", c[0], errMissing)
		}
	}
	return nil
}

// watching is a running arm.
type watching struct {
	processes []*await.Program
	dir, url  string
	scraping  context.CancelFunc
	scraped   chan struct{}
}

func (a arm) start(ctx context.Context, bin string) (_ *watching, err error) {
	w := &watching{}
	defer func() {
		if err != nil {
			w.stop()
		}
	}()
	if len(a.commands) == 0 {
		return w, nil
	}
	if w.dir, err = os.MkdirTemp("", "throughput"); err != nil {
		return w, err
	}
	port, err := freePort()
	if err != nil {
		return w, err
	}
	fill := strings.NewReplacer("DIR", w.dir, "BIN", bin, "PORT", port).Replace
	for name, text := range a.files {
		if err := os.WriteFile(filepath.Join(w.dir, name), []byte(fill(text)), 0o644); err != nil {
			return w, err
		}
	}
	for _, c := range a.commands {
		args := make([]string, len(c))
		for i, s := range c {
			args[i] = fill(s)
		}
		p, err := await.Launch(exec.Command(args[0], args[1:]...))
		if err != nil {
			return w, err
		}
		w.processes = append(w.processes, p)
	}
	w.url = "http://127.0.0.1:" + port
	if err := w.answers(ctx); err != nil {
		return w, fmt.Errorf("%s: %w", a.name, err)
	}
	if a.metrics != "" {
		w.scrape(a.metrics)
	}
	return w, nil
}

func freePort() (string, error) {
	ports, err := host.Local().FreePorts(1)
	if err != nil {
		return "", err
	}
	return strconv.Itoa(ports[0]), nil
}

// answers waits until the arm's port answers, and no longer than its last program runs.
func (w *watching) answers(ctx context.Context) error {
	return w.processes[len(w.processes)-1].Until(ctx, "its port answers", func() error {
		r, err := http.Get(w.url + "/metrics")
		if err != nil {
			return err
		}
		return r.Body.Close()
	})
}

// scrape reads the metrics every five seconds until the arm is stopped.
func (w *watching) scrape(path string) {
	ctx, cancel := context.WithCancel(context.Background())
	w.scraping, w.scraped = cancel, make(chan struct{})
	go func() {
		defer close(w.scraped)
		for t := time.NewTicker(5 * time.Second); ; {
			select {
			case <-ctx.Done():
				t.Stop()
				return
			case <-t.C:
			}
			if r, err := http.Get(w.url + path); err == nil { // a missed scrape shows as less work, which it is
				_, _ = io.Copy(io.Discard, r.Body)
				_ = r.Body.Close()
			}
		}
	}()
}

func (w *watching) stop() {
	if w.scraping != nil {
		w.scraping()
		<-w.scraped
	}
	for _, p := range w.processes {
		p.Stop(syscall.SIGTERM)
	}
	if w.dir != "" {
		_ = os.RemoveAll(w.dir)
	}
}

// cpu returns the CPU time of the arm's processes in seconds (proc(5)).
func (w *watching) cpu() (float64, error) {
	var sum float64
	for _, p := range w.processes {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Process.Pid))
		if err != nil {
			return 0, err
		}
		f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
		if len(f) < 13 {
			return 0, fmt.Errorf("parse /proc/%d/stat: %d fields", p.Process.Pid, len(f))
		}
		for _, s := range f[11:13] {
			v, err := strconv.ParseFloat(s, 64)
			if err != nil {
				return 0, err
			}
			sum += v / 100
		}
	}
	return sum, nil
}

var resident = regexp.MustCompile(`(?m)^VmRSS:\s*(\d+) kB`)

// rss returns the resident memory of the arm's processes in MiB.
func (w *watching) rss() (float64, error) {
	var sum float64
	for _, p := range w.processes {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Process.Pid))
		if err != nil {
			return 0, err
		}
		m := resident.FindSubmatch(b)
		if m == nil {
			return 0, fmt.Errorf("parse /proc/%d/status: no VmRSS", p.Process.Pid)
		}
		v, err := strconv.ParseFloat(string(m[1]), 64)
		if err != nil {
			return 0, err
		}
		sum += v / 1024
	}
	return sum, nil
}

var covered = regexp.MustCompile(`(?m)^teescope_source_coverage_ratio\{source="syscalls"\} (\S+)`)

// coverage returns the share of all system calls that was counted, NaN if the arm does not report it.
func (w *watching) coverage() float64 {
	if v := w.metrics(covered); len(v) == 1 {
		return v[0]
	}
	return math.NaN()
}

// metrics returns the values of the arm's metrics that match, none without an arm.
func (w *watching) metrics(pattern *regexp.Regexp) (values []float64) {
	if w == nil {
		return nil
	}
	r, err := http.Get(w.url + "/metrics")
	if err != nil {
		return nil
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return nil
	}
	for _, m := range pattern.FindAllSubmatch(b, -1) {
		if v, err := strconv.ParseFloat(string(m[1]), 64); err == nil {
			values = append(values, v)
		}
	}
	return values
}
