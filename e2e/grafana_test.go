package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/teescope/teescope/internal/await"
)

// quiet maps prefixes of metrics to the event without which they have no series. This test
// causes none of these events.
var quiet = map[string]string{
	"tee_info":                           "no TEE is here",
	"tee_vm_":                            "no virtual machine runs, or its exits are hidden",
	"tee_swiotlb_bounced_bytes_total":    "nothing is bounced",
	"tee_swiotlb_mapping_failures_total": "the function cannot be hooked on this kernel",
	"tee_tls_handshakes_total":           "no program shakes hands with libssl",
	"tee_tcp_retransmits_total":          "no segment was lost",
	"container_cpu_cfs_":                 "no control group has a quota",
	"container_spec_memory_limit_bytes":  "no control group has a limit",
	"container_threads":                  "no control group counts its threads (the pids controller)",
	"container_network_":                 "no container has a network of its own",
	"container_fs_":                      "no control group of its own used a disk",
	"teescope_finding_open":              "nothing is found",
	"teescope_bench_guard":               "no guard spoke",
	"teescope_bench_missing":             "no value is missing",
}

// silence returns the reason why one of a query's metrics has no series, or "".
func (m *monitor) silence(t *testing.T, expr string, missing map[string]string) string {
	t.Helper()
	for _, name := range metricsOf(t, expr) {
		why := missing[name]
		for prefix, event := range quiet {
			if why == "" && strings.HasPrefix(name, prefix) {
				why = event
			}
		}
		if why != "" && len(m.series(t, "count("+name+")")) == 0 {
			return name + " is absent: " + why
		}
	}
	return ""
}

// TestGrafana runs every query of every panel against a monitor with live data: servers under
// load, disk writes, refused connections and a benchmark. Each query returns series, unless
// this machine lacks the source or the event does not happen here.
func TestGrafana(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	results := httptest.NewServer(benchmarkMetrics(t, dir))
	defer results.Close()
	config := filepath.Join(dir, "config.yaml")
	text := fmt.Sprintf("sources:\n  syscalls: {level: latency}\n  run_queue: {on: true}\n  block: {on: true}\n  tcp: {on: true}\n"+
		"scrape_configs:\n- job_name: bench\n  scrape_interval: 1s\n  static_configs:\n  - targets: [%q]\n", strings.TrimPrefix(results.URL, "http://"))
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	m := startMonitor(t, "monitor", "--interval", "1s", "--config", config)
	_, port := startRedis(t)
	start(t, tool(t, "redis-benchmark", "redis-tools"), "-p", fmt.Sprint(port), "-n", "100000000", "-q", "-t", "get")
	stop := make(chan struct{})
	defer close(stop)
	go disturb(filepath.Join(dir, "written"), stop)
	await.Event(t, "there are rates of processes and benchmark results", func() error {
		for _, expr := range []string{`sum by (process) (rate(tee_syscalls_total{process="redis-server"}[15s])) > 0`, `teescope_bench_info`} {
			if len(m.query(t, expr, "process")) == 0 {
				return fmt.Errorf("nothing for %s", expr)
			}
		}
		return nil
	})
	missing := m.unavailable(t)
	for _, d := range readDashboards(t) {
		t.Run(d.name, func(t *testing.T) {
			for _, a := range d.Annotations.List {
				d.Panels = append(d.Panels, grafanaPanel{Title: a.Name, Targets: []grafanaQuery{{Expr: a.Expr}}})
			}
			answered := 0
			for _, p := range d.Panels {
				for _, q := range p.Targets {
					expr := variables.Replace(q.Expr)
					await.Event(t, p.Title+" has series", func() error { // a reading may be late
						if len(m.series(t, expr)) > 0 {
							answered++
						} else if why := m.silence(t, expr, missing); why == "" {
							return fmt.Errorf("none for %s", expr)
						} else {
							t.Logf("%s: %s", p.Title, why)
						}
						return nil
					})
				}
			}
			if answered < 8 {
				t.Errorf("only %d queries have series", answered)
			}
		})
	}
}

// variables replaces Grafana's variables with the choice of everything.
var variables = strings.NewReplacer("$__rate_interval", "15s", "$instance", ".*", "$process", ".*", "$container", ".*", "$experiment", ".*", "$metric", ".*")

// benchmarkMetrics serves a benchmark's result as Prometheus scrapes it.
func benchmarkMetrics(t *testing.T, dir string) http.Handler {
	t.Helper()
	result := filepath.Join(dir, "r.json")
	if out, errs, code := run(t, "bench", "run", "custom", "--param", "command=sleep 0.05", "--env", "native", "--env", "again=native", "--pairs", "6",
		"--no-counters", "--out", result, "--data", dir); code != 0 && code != 3 {
		t.Fatalf("bench run: exit status %d: %s%s", code, out, errs)
	}
	text, errs, _ := run(t, "compare", result, "--format", "openmetrics")
	if !strings.HasSuffix(text, "# EOF\n") {
		t.Fatalf("compare: %s%s", text, errs)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/openmetrics-text; version=1.0.0; charset=utf-8")
		fmt.Fprint(w, text)
	})
}

// disturb writes to the disk and makes connections that are refused, until stop is closed.
func disturb(file string, stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(200 * time.Millisecond): // clock: a pace, not a wait
		}
		if f, err := os.Create(file); err == nil {
			_, _ = f.Write(make([]byte, 1<<20))
			_ = f.Sync()
			_ = f.Close()
		}
		if c, err := net.DialTimeout("tcp", "127.0.0.1:1", time.Second); err == nil { // nobody listens there
			_ = c.Close()
		}
	}
}

// series runs a query and returns its series.
func (m *monitor) series(t *testing.T, expr string) []json.RawMessage {
	t.Helper()
	body, err := fetch(m.url + "/api/v1/query?query=" + url.QueryEscape(expr))
	if err != nil {
		t.Errorf("%s: %v", expr, err)
		return nil
	}
	var a struct {
		Data struct{ Result []json.RawMessage }
	}
	if err := json.Unmarshal([]byte(body), &a); err != nil {
		t.Fatal(err)
	}
	return a.Data.Result
}

// unavailable maps the metrics of sources that do not work here to the reason.
func (m *monitor) unavailable(t *testing.T) map[string]string {
	t.Helper()
	body, err := fetch(m.url + "/api/teescope/v1/sources")
	if err != nil {
		t.Fatal(err)
	}
	var list []struct {
		Name, State, Reason string
		Metrics             []string
	}
	if err := json.Unmarshal([]byte(body), &list); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, s := range list {
		for _, name := range s.Metrics {
			if s.State != "available" {
				out[name] = fmt.Sprintf("source %s is %s: %s", s.Name, s.State, s.Reason)
			}
		}
	}
	for _, s := range list { // another source may provide it
		for _, name := range s.Metrics {
			if s.State == "available" {
				delete(out, name)
			}
		}
	}
	return out
}

// metricsOf returns the metrics that a query names; those of a histogram without their suffix.
func metricsOf(t *testing.T, expr string) []string {
	t.Helper()
	e, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	var out []string
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		if v, ok := n.(*parser.VectorSelector); ok {
			out = append(out, v.Name, regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(v.Name, ""))
		}
		return nil
	})
	return out
}
