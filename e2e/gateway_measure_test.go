//go:build measure

package e2e

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestGateway: the answers are the same directly, through our proxy with either version of HTTP and through nginx, and each run reports
// what its parts used. The metric needs no steady state, which
// a busy machine does not have.
func TestGateway(t *testing.T) {
	if _, err := exec.LookPath("nginx"); err != nil {
		t.Skip("nginx is not here; package nginx-light has it")
	}
	path := filepath.Join(t.TempDir(), "r.json")
	_, errs, code := run(t, "bench", "run", "gateway", "--env", "direct=native,gateway=direct", "--env", "own=native,log=info", "--env", "http2=native,http=2,log=info", "--env", "nginx=native,gateway=nginx,log=info",
		"--param", "connections=8", "--param", "keep-alive=on|off", "--param", "warm=100ms", "--param", "measure=1s", "--metric", "gateway_cpu_per_request_seconds", "--pairs", "1", "--no-counters", "--out", path, "--data", t.TempDir())
	if code != 0 && code != 3 { // one pair gives no verdict
		t.Fatalf("exit status %d: %s", code, errs)
	}
	e := whole(t, path)
	if t.Failed() {
		return
	}
	digests := map[string]string{}
	for i := range e.Runs {
		r := &e.Runs[i]
		if d := digests[r.Case]; d != "" && d != r.OutputDigest {
			t.Errorf("%s: digest %s, of others %s", r.ID, r.OutputDigest, d)
		}
		digests[r.Case] = r.OutputDigest
		above := []string{"received_bytes_per_second", "gateway_cpu_per_request_seconds", "machine_cpu_ratio"}
		if r.Env != "direct" {
			above = append(above, "origin_cpu_ratio", "log_per_request_bytes")
		}
		if r.Env != "nginx" {
			above = append(above, "hop_cpu_per_request_seconds")
			if r.Case == "keep-alive=off" {
				above = append(above, "handshake_cpu_per_request_seconds")
			}
		}
		for _, name := range above {
			m := r.Metric(name)
			if m != nil && strings.Contains(m.Reason, "too few samples") {
				continue // on a busy machine
			}
			if m == nil || m.Value == nil || !(*m.Value > 0) {
				t.Errorf("%s: %s is %v", r.ID, name, valueOf(m))
			}
		}
	}
	for _, g := range e.Guards {
		if g.ID == "bottleneck" {
			return
		}
	}
	t.Error("nothing is said of the bottleneck")
}
