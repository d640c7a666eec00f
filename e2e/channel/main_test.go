package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestOnce measures everything once, briefly, so the measurement does not rot; its
// numbers mean nothing.
func TestOnce(t *testing.T) {
	bin := os.Getenv("TEESCOPE_BIN")
	if bin == "" {
		t.Skip("TEESCOPE_BIN names no binary; make test does")
	}
	var out strings.Builder
	worker := filepath.Join(filepath.Dir(bin), "teescope-work")
	if err := run(t.Context(), &out, comparisons, worker, 1, []string{"-windows", "1", "-window", "10ms", "-warm", "10ms"}); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), "\n"); n != 2+len(comparisons) {
		t.Errorf("it says\n%s", out.String())
	}
}
