package e2e

import (
	"path/filepath"
	"strconv"
	"testing"

	"github.com/teescope/teescope/internal/explain"
)

// TestServerInGuest: Redis in emulated guests answers a fixed number of requests from outside, with and without forced
// bounce buffers for its packets. Inside the guests as many answers are counted, however slow they are.
func TestServerInGuest(t *testing.T) {
	tool(t, "qemu-system-x86_64", "qemu-system-x86")
	tool(t, "redis-server", "redis-server")
	t.Setenv("TMPDIR", t.TempDir())
	const requests = 1000
	// This model boots in half the time of the default, max.
	env := "qemu,accel=tcg,cpu=qemu64,kernel=" + debianKernel(t, t.TempDir())
	out := filepath.Join(t.TempDir(), "r.json")
	_, said, code := run(t, "bench", "run", "redis", "--env", "off="+env, "--env", "on="+env+",bounce=on", "--pairs", "1",
		"--param", "connections=4", "--param", "pipeline=1", "--param", "keys=1000", "--param", "warm=50ms", "--param", "requests="+strconv.Itoa(requests),
		"--metric", "server_cpu_per_request_seconds", "--out", out, "--data", t.TempDir())
	if code != 0 && code != 3 { // one pair gives no verdict
		t.Fatalf("exit status %d: %s", code, said)
	}
	e := whole(t, out)
	for i := range e.Runs {
		r := &e.Runs[i]
		if why := r.Missing["counters"]; why != "" || r.OutputDigest != e.Runs[0].OutputDigest {
			t.Errorf("%s: digest %s, counters: %s", r.ID, r.OutputDigest, why)
		}
		bounced, answers, reads := 0.0, 0.0, 0.0
		for _, c := range r.Counters {
			switch {
			case c.Value == nil || len(c.Labels) == 0:
			case c.Name == explain.BouncedBytes:
				bounced += *c.Value
			case c.Name == "tee_syscalls_total" && c.Labels["syscall"] == "write":
				answers += *c.Value
			case c.Name == "tee_syscalls_total" && c.Labels["syscall"] == "read":
				reads += *c.Value
			}
		}
		if m := r.Metric("requests_total"); m == nil || m.Value == nil || *m.Value != requests {
			t.Errorf("%s: requests_total is %v, want %d", r.ID, valueOf(m), requests)
		}
		// Redis also answers what asks for its statistics, and its timer reads files of /proc.
		if answers < requests || answers > requests+4 || reads < requests {
			t.Errorf("%s: %v writes and %v reads for %d requests, each of which takes one", r.ID, answers, reads, requests)
		}
		t.Logf("%s: %v bytes bounced, %v writes, %v reads", r.ID, bounced, answers, reads)
		if on := r.Env == "on"; on != (bounced > 0) {
			t.Errorf("%s: %v bytes went through bounce buffers", r.ID, bounced)
		}
	}
	if a, b := e.Environments[0], e.Environments[1]; a.Network == "" || a.Network != b.Network || a.Params["net"] != "user" {
		t.Errorf("the networks are %q and %q, net=%s", a.Network, b.Network, a.Params["net"])
	}
	if left := leftovers(t); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
