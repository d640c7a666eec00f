//go:build measure

package e2e

import (
	"math"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/result"
)

// calls is the range of calls of one name per request.
type calls struct {
	name        string
	least, most float64
}

// aside is the number of calls of one name that belong to no request: connecting, reading statistics, and a server's
// own timer (10 times a second in Redis).
const aside = 100

// TestDataServers: each installed server is filled, loaded and counts its requests, natively and
// in a sandbox, and the calls of the native one are counted exactly: one for each answer,
// whatever the length of the run or the load of the machine. The metric is one that needs no
// steady state, which a busy machine lacks.
func TestDataServers(t *testing.T) {
	for _, s := range []struct {
		name, command, outside, metric, sandbox string
		calls                                   []calls // the first is the answer's
	}{
		{"redis", "redis-server", "", "server_cpu_per_request_seconds", "runsc",
			[]calls{{"write", 1, 1}, {"read", 1, 1}, {"epoll_wait", 0.25, 1}}}, // a turn of its loop serves up to four connections
		{"memcached", "memcached", "", "server_cpu_per_request_seconds", "runsc",
			[]calls{{"sendmsg", 1, 1}, {"read", 1, 1}, {"epoll_wait", 0.25, 1}}},
		{"postgres", "postgres", "/usr/lib/postgresql/*/bin/postgres", "server_buffer_hit_ratio", "container",
			[]calls{{"sendto", 1, 1}, {"recvfrom", 1, 2}}}, // it tries to read before it waits
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
				if r.Env == "native" {
					checkCalls(t, r, s.calls)
				}
			}
		})
	}
}

// checkCalls compares a run's counts of system calls with those that its requests need.
func checkCalls(t *testing.T, r *result.Run, want []calls) {
	t.Helper()
	m := r.Metric("requests_total")
	if m == nil || m.Value == nil {
		t.Errorf("%s: requests_total is %v", r.ID, valueOf(m))
		return
	}
	requests, sum, total := *m.Value, 0.0, math.NaN()
	counted := map[string]float64{}
	for _, c := range r.Counters {
		if c.Name != "tee_syscalls_total" {
			continue
		}
		if c.Trust != result.Full || c.Value == nil || c.PerOperation == nil {
			t.Errorf("%s: the count of %v is %v, its trust %s; want all calls counted", r.ID, c.Labels, c.Value, c.Trust)
			return
		}
		if len(c.Labels) == 0 {
			total = *c.Value
			continue
		}
		sum += *c.Value
		counted[c.Labels["syscall"]] += *c.Value
	}
	for i, w := range want {
		n := counted[w.name]
		if n < w.least*requests || n > w.most*requests+aside {
			t.Errorf("%s: %v calls of %s for %v requests, each of which takes %v to %v", r.ID, n, w.name, requests, w.least, w.most)
		}
		if i == 0 && math.Abs(n/requests-w.most) > 0.02 {
			t.Errorf("%s: %v calls of %s for a request, which takes one", r.ID, n/requests, w.name)
		}
	}
	if sum != total {
		t.Errorf("%s: the calls by name add up to %v, all calls are %v", r.ID, sum, total)
	}
}
