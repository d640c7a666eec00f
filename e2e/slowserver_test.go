package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/await"
)

// TestSlowServer: a benchmark waits for a Redis that opens its port late, says so, and then counts the requests of one that
// does not.
func TestSlowServer(t *testing.T) {
	t.Parallel()
	redis := tool(t, "redis-server", "redis-server")
	dir, out := t.TempDir(), filepath.Join(t.TempDir(), "r.json")
	begin := filepath.Join(dir, "begin")
	script := "#!/bin/sh\n[ \"$1\" = --version ] || until [ -e " + begin + " ]; do sleep 0.05; done\nexec " + redis + " \"$@\"\n"
	if err := os.WriteFile(filepath.Join(dir, "redis-server"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	const requests = 500
	c := exec.Command(binary, "bench", "run", "redis", "--env", "native", "--pairs", "1", "--no-counters", "--param", "connections=2", "--param", "keys=100", "--param", "warm=50ms",
		"--param", "requests="+strconv.Itoa(requests), "--metric", "server_cpu_per_request_seconds", "--out", out, "--data", dir)
	c.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
	p := await.Start(t, c)
	await.Event(t, "progress says what is waited for", func() error {
		if said := p.Err.String(); !strings.Contains(said, "first run in native (not part of the result) waits for the server: connect to 127.0.0.1:") || !strings.Contains(said, "connection refused\n") {
			return fmt.Errorf("it said %q", said)
		}
		return nil
	})
	if err := os.WriteFile(begin, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p.ExitStatus(t)
	e := whole(t, out)
	if m := e.Runs[0].Metric("requests_total"); m == nil || m.Value == nil || *m.Value != requests {
		t.Errorf("requests_total is %v, want %d", valueOf(m), requests)
	}
}
