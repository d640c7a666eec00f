package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/result"
)

// benchUnder runs a workload once natively, under a load generator.
func benchUnder(t *testing.T, path, workload, generator string, params ...string) *result.Experiment {
	t.Helper()
	out := filepath.Join(t.TempDir(), "r.json")
	args := []string{"env", "PATH=" + path, binary, "bench", "run", workload, "--env", "native", "--pairs", "1", "--no-counters", "--out", out, "--data", filepath.Dir(out), "--param", "load=" + generator}
	for _, p := range params {
		args = append(args, "--param", p)
	}
	_, stderr, _ := runArgv(t, args...)
	e, err := result.Read(out)
	if err != nil {
		t.Fatalf("%v: %s", err, stderr)
	}
	return e
}

// TestLoadGenerators: each load generator makes the requests that it is told to, and the servers have counted them.
func TestLoadGenerators(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		workload, server, generator, pkg string
		params                           []string
		requests                         float64 // 0: those of a second
		counted                          string  // the server's count, if it is a metric
	}{
		{"redis", "redis-server", "redis-benchmark", "redis-tools", []string{"keys=500", "requests=4000", "connections=4"}, 4000, "server_requests_total"},
		{"redis", "redis-server", "memtier_benchmark", "memtier-benchmark", []string{"keys=500", "requests=4000", "connections=4"}, 4000, "server_requests_total"},
		{"memcached", "memcached", "memtier_benchmark", "memtier-benchmark", []string{"keys=500", "measure=1s", "connections=4"}, 0, "server_requests_total"},
		{"postgres", "/usr/lib/postgresql", "pgbench", "postgresql-contrib", []string{"keys=500", "requests=400", "connections=4"}, 400, "server_requests_total"},
		{"nginx", "nginx", "wrk", "wrk", []string{"measure=1s", "keep-alive=off", "tls=on"}, 0, "server_requests_total"},
		{"nginx", "nginx", "ab", "apache2-utils", []string{"requests=400", "connections=4"}, 400, "server_requests_total"},
		{"nginx", "nginx", "h2load", "nghttp2-client", []string{"requests=401", "connections=4", "tls=on"}, 401, "server_requests_total"},
		{"gateway", "", "h2load", "nghttp2-client", []string{"requests=401", "connections=4", "http=2"}, 401, ""},
		{"gateway", "", "hey", "hey", []string{"requests=400", "connections=4", "keep-alive=off"}, 400, ""},
		{"gateway", "nginx", "wrk", "wrk", []string{"measure=1s", "connections=4", "gateway=nginx"}, 0, ""},
	} {
		t.Run(c.workload+"/"+c.generator, func(t *testing.T) {
			tool(t, c.generator, c.pkg)
			if filepath.IsAbs(c.server) {
				if _, err := os.Stat(c.server); err != nil {
					t.Skipf("%s is not here", c.server)
				}
			} else if c.server != "" {
				tool(t, c.server, c.server)
			}
			r := &benchUnder(t, os.Getenv("PATH"), c.workload, c.generator, c.params...).Runs[0]
			for seconds := 2; c.requests == 0 && seconds <= 64 && strings.Contains(r.Reason, "no request was answered"); seconds *= 2 { // on a very slow machine
				r = &benchUnder(t, os.Getenv("PATH"), c.workload, c.generator, append(c.params, fmt.Sprintf("measure=%ds", seconds))...).Runs[0]
			}
			if r.Status != result.OK {
				t.Fatalf("%s: %s", r.Status, r.Reason)
			}
			m := r.Metric("requests_total")
			if m == nil || m.Value == nil || *m.Value <= 0 || c.requests > 0 && *m.Value != c.requests {
				t.Errorf("requests_total is %v, want %v", valueOf(m), c.requests)
			}
			if s := r.Metric(c.counted); c.counted != "" && (s == nil || s.Value == nil || *s.Value < *m.Value) {
				t.Errorf("the server counts %v of the %v requests", valueOf(s), *m.Value)
			}
			if s := r.Metric("said_requests_per_second"); s == nil || s.Value == nil {
				t.Errorf("said_requests_per_second is %v", valueOf(s))
			}
		})
	}
}

// TestLoadGeneratorOfAnotherVersion: what one prints otherwise is not guessed: the run has failed, with what to do.
func TestLoadGeneratorOfAnotherVersion(t *testing.T) {
	t.Parallel()
	tool(t, "redis-server", "redis-server")
	real := tool(t, "redis-benchmark", "redis-tools")
	dir := t.TempDir()
	script := "#!/bin/sh\n" + real + " \"$@\" | sed 's/ requests completed in / requests done in /'\n"
	if err := os.WriteFile(filepath.Join(dir, "redis-benchmark"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	r := &benchUnder(t, dir+":"+os.Getenv("PATH"), "redis", "redis-benchmark", "keys=100", "requests=800").Runs[0]
	const want = "install it where the load runs, or use load=teescope"
	if r.Status != result.Failed || !strings.Contains(r.Reason, want) || strings.Contains(r.Reason, "\n") {
		t.Errorf("the run is %s: %q, want one line with %q", r.Status, r.Reason, want)
	}
	for _, m := range r.Metrics {
		if m.Value != nil {
			t.Errorf("%s is %v of an output that cannot be read", m.Name, *m.Value)
		}
	}
}
