//go:build measure

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestOnce runs one short pair of each comparison, so the measurement does not rot; its
// numbers mean nothing.
func TestOnce(t *testing.T) {
	bin := os.Getenv("TEESCOPE_BIN")
	if bin == "" {
		t.Skip("TEESCOPE_BIN names no binary; make test does")
	}
	for _, tool := range []string{"taskset", "nginx", "wrk", "redis-server", "redis-benchmark"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(err)
		}
	}
	var cpus unix.CPUSet
	if err := unix.SchedGetaffinity(0, &cpus); err != nil || !cpus.IsSet(0) || !cpus.IsSet(1) {
		t.Skip("needs CPU 0 for the server and CPU 1 for the generators")
	}
	var out strings.Builder
	o := options{out: &out, bin: filepath.Join(filepath.Dir(bin), "teescope-work"), pairs: 1, measure: time.Second, server: "0", client: "1"}
	if err := o.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), "\n"); n != 2+len(contests) || strings.Contains(out.String(), "left out") {
		t.Errorf("it says\n%s", out.String())
	}
}
