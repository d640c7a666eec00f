package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/await"
)

// TestReaders gives one monitor and one agent to the tests that only read them.
func TestReaders(t *testing.T) {
	t.Parallel()
	m, agent := startMonitor(t, "monitor", "--interval", "1s"), startMonitor(t, "agent")
	for name, test := range map[string]func(*testing.T){
		"promtool":     func(t *testing.T) { promtool(t, m) },
		"top":          func(t *testing.T) { top(t, m) },
		"lint metrics": func(t *testing.T) { lintMetrics(t, agent) },
		"scrape agent": func(t *testing.T) { scrapeAgent(t, agent) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
}

// promtool: the stock tool works against the monitor's API.
func promtool(t *testing.T, m *monitor) {
	exe := tool(t, "promtool", "prometheus")
	await.Event(t, "the monitor has counted its own calls, and has two samples", func() error {
		calls, n := m.query(t, `sum by (process) (tee_syscalls_total{process="teescope"})`, "process"), m.query(t, "count_over_time(node_load1[5m])", "job")["teescope"]
		if len(calls) == 0 || n < 2 {
			return fmt.Errorf("calls %v, %v samples", calls, n)
		}
		return nil
	})
	ask := func(args ...string) string {
		t.Helper()
		out, err := exec.Command(exe, args...).CombinedOutput()
		if err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	if out := ask("query", "instant", m.url, `sum by (process) (tee_syscalls_total)`); !strings.Contains(out, `process="teescope"`) {
		t.Errorf("instant query does not show the monitor itself:\n%s", out)
	}
	if out := ask("query", "range", "--step=1s", m.url, `node_load1{job="teescope"}`); !strings.Contains(out, "@[") {
		t.Errorf("range query is empty:\n%s", out)
	}
	if out := ask("query", "labels", m.url, "process"); !strings.Contains(out, "teescope") {
		t.Errorf("label values lack teescope:\n%s", out)
	}
	if out := ask("query", "series", "--match", "node_load1", m.url); !strings.Contains(out, "node_load1") {
		t.Errorf("series are empty:\n%s", out)
	}
	for _, path := range []string{"metadata?metric=tee_syscalls_total", "targets", "rules"} {
		body, err := fetch(m.url + "/api/v1/" + path)
		want := map[string]string{"metadata?metric=tee_syscalls_total": `"type":"counter"`, "targets": `"teescope"`, "rules": "process:tee_syscalls:rate1m"}[path]
		if err != nil || !strings.Contains(body, want) {
			t.Errorf("%s lacks %s: %v\n%.300s", path, want, err, body)
		}
	}
}

// disliked matches the only complaints that promtool may have: node_exporter's own names, which
// contain the kernel's words.
var disliked = regexp.MustCompile(`^(node_(memory|netstat|sockstat)_\w+ metric names should be written in 'snake_case' not 'camelCase'|node_entropy_available_bits use base unit "bytes" instead of "bits")$`)

// lintMetrics: /metrics of the agent passes promtool's lint.
func lintMetrics(t *testing.T, m *monitor) {
	promtool := tool(t, "promtool", "prometheus")
	body, err := fetch(m.url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(promtool, "check", "metrics")
	c.Stdin = strings.NewReader(body)
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	err = c.Run()
	if c.ProcessState == nil || c.ProcessState.ExitCode() == 1 {
		t.Fatalf("promtool cannot parse it: %v\n%s", err, &out)
	}
	for line := range strings.Lines(out.String()) {
		if !disliked.MatchString(strings.TrimSpace(line)) {
			t.Errorf("promtool: %s", strings.TrimSpace(line))
		}
	}
}

// scrapeAgent: a real Prometheus takes the agent's metrics.
func scrapeAgent(t *testing.T, agent *monitor) {
	prometheus := tool(t, "prometheus", "prometheus")
	config := filepath.Join(t.TempDir(), "prometheus.yml")
	text := fmt.Sprintf("scrape_configs:\n- job_name: agents\n  scrape_interval: 1s\n  static_configs:\n  - targets: [%q]\n", strings.TrimPrefix(agent.url, "http://"))
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	server := startPrometheus(t, prometheus, config)
	await.Event(t, "Prometheus has two scrapes", func() error {
		if v := server.query(t, `count_over_time(up{job="agents"}[1m]) and up{job="agents"} == 1`, "job")["agents"]; v < 2 {
			return fmt.Errorf("%v scrapes", v)
		}
		return nil
	})
	await.Event(t, "Prometheus has a rate of the agent's own system calls", func() error {
		if v := server.query(t, `rate(tee_syscalls_total{process="teescope"}[10s]) > 0`, "process"); len(v) == 0 {
			return errors.New("none")
		}
		return nil
	})
}

// TestMonitorScrapesTargets: scrape_configs of --config work as in Prometheus.
func TestMonitorScrapesTargets(t *testing.T) {
	t.Parallel()
	agent := startMonitor(t, "agent")
	config := filepath.Join(t.TempDir(), "teescope.yaml")
	text := fmt.Sprintf("analysis:\n  every: 5s\nscrape_configs:\n- job_name: fleet\n  scrape_interval: 1s\n  static_configs:\n  - targets: [%q]\n", strings.TrimPrefix(agent.url, "http://"))
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	m := startMonitor(t, "monitor", "--config", config)
	await.Event(t, "the target's series are in the store", func() error {
		if v := m.query(t, `count(tee_syscalls_total{job="fleet"}) by (job)`, "job")["fleet"]; v == 0 {
			return fmt.Errorf("none yet; up is %v", m.query(t, "up", "job"))
		}
		return nil
	})
}
