//go:build measure

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/probe/probetest"
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
	cpus := probetest.CPUs(t)
	if len(cpus) < 2 {
		t.Skip("needs a CPU for the server and one for the generators")
	}
	var out strings.Builder
	o := options{out: &out, bin: filepath.Join(filepath.Dir(bin), "teescope-work"), pairs: 1, measure: time.Second, server: cpus[0], client: cpus[1]}
	if err := o.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), "\n"); n != 2+len(contests) || strings.Contains(out.String(), "left out") {
		t.Errorf("it says\n%s", out.String())
	}
}
