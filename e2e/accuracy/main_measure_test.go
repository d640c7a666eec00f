//go:build measure

package main

import (
	"os"
	"os/exec"
	"testing"
	"time"
)

// TestOnce compares two short windows, so the comparison does not rot; its numbers mean nothing.
func TestOnce(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to count in the kernel")
	}
	bin := os.Getenv("TEESCOPE_BIN")
	if bin == "" {
		t.Skip("TEESCOPE_BIN names no binary; make test does")
	}
	if _, err := exec.LookPath("redis-benchmark"); err != nil {
		t.Skip("redis-benchmark is not installed (package redis-tools)")
	}
	o := options{bin: bin, budget: "1%", minutes: 2, minute: 6 * time.Second}
	if err := o.run(t.Context(), []string{"full"}); err != nil {
		t.Fatal(err)
	}
}
