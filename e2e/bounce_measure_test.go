//go:build measure

package e2e

import (
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/explain"
	"github.com/teescope/teescope/internal/result"
)

// TestBounceIsNamed compares reads of a disk in an emulated guest with and without forced
// bounce buffers: counters from inside the guests name them as the cause of the cost.
func TestBounceIsNamed(t *testing.T) {
	tool(t, "qemu-system-x86_64", "qemu-system-x86")
	tool(t, "fio", "fio")
	t.Setenv("TMPDIR", t.TempDir())
	kernel, dir := debianKernel(t, t.TempDir()), t.TempDir()
	env := "qemu,accel=tcg,disk=128MiB,kernel=" + kernel + ",data=" + dir
	out := filepath.Join(dir, "r.json")
	_, said, code := run(t, "bench", "run", "fio", "--env", "off="+env, "--env", "on="+env+",bounce=on", "--pairs", "6",
		"--param", "rw=randread", "--param", "bs=256KiB", "--param", "size=32MiB", "--param", "runtime=2s", "--param", "ramp=0s", "--param", "steady=off", "--param", "ioengine=psync",
		"--out", out, "--data", t.TempDir())
	e, err := result.Read(out)
	if err != nil {
		t.Fatalf("status %d: %v\n%s", code, err, said)
	}
	for _, r := range e.Runs {
		if why := r.Missing["counters"]; why != "" || r.Status != result.OK {
			t.Errorf("run %s: %s %s; counters: %s", r.ID, r.Status, r.Reason, why)
		}
	}
	c := e.Comparisons[0]
	share := 0.0
	for _, a := range explain.RowsOf(e.Attribution, &c) {
		if a.Metric == explain.BounceTime && a.Share != nil {
			share += *a.Share
		}
	}
	t.Logf("cost %.3g, bounce buffers are %.1f %% of it: %s", *c.Ratio, 100*share, c.Cause)
	if !strings.Contains(c.Cause, "copying data through bounce buffers") || share < 0.3 || share > 1.3 {
		t.Errorf("bounce buffers are %.3g of the difference; the cause is %q", share, c.Cause)
	}
}

// TestServerInGuest: Redis in emulated guests answers a load from outside, with and without forced bounce buffers for
// its packets. Its system calls are counted inside: exactly those of the load's requests.
func TestServerInGuest(t *testing.T) {
	tool(t, "qemu-system-x86_64", "qemu-system-x86")
	tool(t, "redis-server", "redis-server")
	t.Setenv("TMPDIR", t.TempDir())
	env := "qemu,accel=tcg,kernel=" + debianKernel(t, t.TempDir())
	out := filepath.Join(t.TempDir(), "r.json")
	_, said, code := run(t, "bench", "run", "redis", "--env", "off="+env, "--env", "on="+env+",bounce=on", "--pairs", "1",
		"--param", "connections=4", "--param", "pipeline=1", "--param", "keys=2000", "--param", "warm=200ms", "--param", "measure=1s",
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
		checkCalls(t, r, []calls{{"write", 1, 1}, {"read", 1, 1}, {"epoll_wait", 0.25, 1}})
		bounced := 0.0
		for _, c := range r.Counters {
			if c.Name == explain.BouncedBytes && len(c.Labels) > 0 && c.Value != nil {
				bounced += *c.Value
			}
		}
		answers := *r.Metric("received_bytes_per_second").Value
		t.Logf("%s: %v bytes bounced, %v received a second", r.ID, bounced, answers)
		if on := r.Env == "on"; on != (bounced > 0) {
			t.Errorf("%s: %s bytes went through bounce buffers", r.ID, strconv.FormatFloat(bounced, 'f', -1, 64))
		}
	}
	if a, b := e.Environments[0], e.Environments[1]; a.Network == "" || a.Network != b.Network || a.Params["net"] != "user" {
		t.Errorf("the networks are %q and %q, net=%s", a.Network, b.Network, a.Params["net"])
	}
	if left := leftovers(t); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
