package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/load"
	"github.com/teescope/teescope/internal/result"
)

// TestClientElsewhere generates the load from another machine, for which this one stands in. The
// generator is copied there and removed again, its report comes back, and the result says where
// it ran. The test does not check a value, which would need a quiet machine.
func TestClientElsewhere(t *testing.T) {
	t.Parallel()
	tool(t, "redis-server", "redis-server")
	server := startSSH(t)
	out := t.TempDir()
	path := filepath.Join(out, "r.json")
	_, stderr, _ := run(t, "bench", "run", "redis", "--env", "native", "--pairs", "1", "--no-counters", "--out", path, "--data", out, "--client", server.client(),
		"--param", "connections=2", "--param", "keys=100", "--param", "warm=100ms", "--param", "measure=10s", "--param", "rate=200")
	e, err := result.Read(path)
	if err != nil {
		t.Fatalf("%v: %s", err, stderr)
	}
	if want := "ssh:" + server.user + "@127.0.0.1"; e.Design.Client != want {
		t.Errorf("the load came from %q, want %q", e.Design.Client, want)
	}
	var r load.Report
	for _, raw := range e.Runs[0].Raw {
		if strings.HasSuffix(raw.Path, ".outside.stdout") {
			b, err := os.ReadFile(filepath.Join(out, raw.Path))
			if err == nil {
				err = json.Unmarshal(b, &r)
			}
			if err != nil {
				t.Errorf("the report of the load: %v: %.300s", err, b)
			}
		}
	}
	if r.Requests == 0 || len(r.Errors) > 0 {
		t.Errorf("%d requests, errors %v; the run: %s", r.Requests, r.Errors, e.Runs[0].Reason)
	}
	if left, err := os.ReadDir(server.temp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
