package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/await"
)

// TestScaleOut: an agent sends to a Prometheus, whose series a monitor without a store shows and explains.
func TestScaleOut(t *testing.T) {
	t.Parallel()
	prometheus := tool(t, "prometheus", "prometheus")
	dir := t.TempDir()
	config := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(config, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	engine := startPrometheus(t, prometheus, config, "--web.enable-remote-write-receiver")
	sends := filepath.Join(dir, "agent.yaml")
	text := fmt.Sprintf("remote_write:\n- url: %s/api/v1/write\n  name: central\n  queue_config: {batch_send_deadline: 1s}\n", engine.url)
	if err := os.WriteFile(sends, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	agent := startMonitor(t, "agent", "--config", sends, "--data", filepath.Join(dir, "agent"), "--interval", "1s")
	metrics, err := fetch(agent.url + "/metrics")
	if err != nil || !strings.Contains(metrics, `prometheus_remote_storage_samples_total{remote_name="central",url="`+engine.url) {
		t.Errorf("/metrics lacks the state of remote write: %v", err)
	}
	page := startMonitor(t, "monitor", "--query-url", engine.url, "--sources", "^self$")
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	await.Event(t, "the monitor has the agent's rates from the engine", func() error {
		if v := page.query(t, `rate(tee_process_cpu_seconds_total{job="teescope",process="teescope"}[10s])`, "instance"); v[host] == 0 {
			return fmt.Errorf("%v", v)
		}
		return nil
	})
	await.Event(t, "a rule has run on the engine's series", func() error {
		var found struct {
			Rules []struct{ Name, Answer, Reason string }
		}
		body, err := fetch(page.url + "/api/teescope/v1/findings")
		if err == nil {
			err = json.Unmarshal([]byte(body), &found)
		}
		for _, r := range found.Rules {
			if r.Name == "over_budget" && (r.Answer == "" || r.Answer == "cannot tell") {
				err = fmt.Errorf("%+v", r)
			}
		}
		return err
	})
	for _, args := range [][]string{{"--query-url", engine.url}, {"--server", page.url}} {
		await.Event(t, "the explanation "+args[0], func() error {
			out, err := exec.Command(binary, append([]string{"explain", "--process", "teescope", "--last", "30s"}, args...)...).CombinedOutput()
			if err != nil || !strings.Contains(string(out), "teescope") || strings.Contains(string(out), "No explanation") {
				return fmt.Errorf("%v\n%s", err, out)
			}
			return nil
		})
	}
	if _, err := os.Stat(filepath.Join(dir, "agent", "wal")); !os.IsNotExist(err) {
		t.Errorf("the agent has a store: %v", err)
	}
}
