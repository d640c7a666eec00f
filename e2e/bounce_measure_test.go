//go:build measure

package e2e

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/explain"
	"github.com/teescope/teescope/internal/result"
)

// TestBounceIsNamed: counters from inside an emulated guest name forced bounce buffers as the cause of what reads of its disk cost.
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
