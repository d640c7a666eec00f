package e2e

import (
	"math"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/result"
)

// TestDataServers: each server that is here is filled, asked and counts what it was
// asked, natively and in a sandbox. The metric is one that needs no steady state, which a
// busy machine does not have. The call is one that each answer takes once: that many are counted,
// however short the run and busy the machine.
func TestDataServers(t *testing.T) {
	for _, s := range []struct {
		name, command, outside, metric, sandbox, call string
	}{
		{"redis", "redis-server", "", "server_cpu_per_request_seconds", "runsc", "write"},
		{"memcached", "memcached", "", "server_cpu_per_request_seconds", "runsc", "sendmsg"},
		{"postgres", "postgres", "/usr/lib/postgresql/*/bin/postgres", "server_buffer_hit_ratio", "container", "sendto"},
	} {
		t.Run(s.name, func(t *testing.T) {
			found, _ := filepath.Glob(s.outside)
			if _, err := exec.LookPath(s.command); err != nil && found == nil {
				t.Skipf("%s is not here", s.command)
			}
			args := []string{"bench", "run", s.name, "--env", "native", "--param", "connections=4", "--param", "pipeline=1", "--param", "keys=2000", "--param", "warm=200ms", "--param", "measure=1s",
				"--metric", s.metric, "--pairs", "1", "--data", t.TempDir()}
			l, p := launcher(t, s.sandbox, nil)
			if err := l.Check(host.Local(), p); err == nil {
				args = append(args, "--env", s.sandbox)
			} else {
				t.Logf("natively only: %v", err)
			}
			path := filepath.Join(t.TempDir(), "r.json")
			_, errs, code := run(t, append(args, "--out", path)...)
			if code != 0 && code != 3 { // one pair gives no verdict
				t.Fatalf("exit status %d: %s", code, errs)
			}
			e := whole(t, path)
			for i := range e.Runs {
				r := &e.Runs[i]
				if r.Status != result.OK || r.OutputDigest != e.Runs[0].OutputDigest {
					t.Errorf("%s: %s %s, digest %s", r.ID, r.Status, r.Reason, r.OutputDigest)
				}
				for _, name := range []string{"requests_per_second", "server_requests_total", s.metric} {
					if m := r.Metric(name); m == nil || m.Value == nil || !(*m.Value > 0) {
						t.Errorf("%s: %s is %v", r.ID, name, valueOf(m))
					}
				}
				for _, c := range r.Counters {
					// An answer takes a read, a write and a wait, or a part of them where there is a pipeline.
					if c.Name == "tee_syscalls_total" && len(c.Labels) == 0 && r.Env == "native" && c.Trust == result.Full &&
						(c.PerOperation == nil || *c.PerOperation < 0.1 || *c.PerOperation > 10) {
						t.Errorf("%s: %v system calls per request", r.ID, c.PerOperation)
					}
					if c.Name == "tee_syscalls_total" && c.Labels["syscall"] == s.call && r.Env == "native" && c.Trust == result.Full &&
						c.PerOperation != nil && math.Abs(*c.PerOperation-1) > 0.02 {
						t.Errorf("%s: %v calls of %s for a request, which takes one", r.ID, *c.PerOperation, s.call)
					}
				}
			}
		})
	}
}
