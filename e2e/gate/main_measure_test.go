//go:build measure

package main

import (
	"encoding/csv"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSelftestOnce makes one gate of each kind, so the self-test cannot rot. It does not
// judge the gates' decisions: the machine is shared.
func TestSelftestOnce(t *testing.T) {
	bin := os.Getenv("TEESCOPE_BIN")
	if bin == "" {
		t.Skip("TEESCOPE_BIN names no binary; `make test` does")
	}
	t.Chdir("../..")
	file := filepath.Join(t.TempDir(), "runs.csv")
	s := selftest{bin: bin, same: 1, slower: 1, pairs: 6, seed: 1}
	var said strings.Builder
	if _, err := s.run(t.Context(), file, &said); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil || len(rows) != 1+2*(10+6+6) {
		t.Errorf("%d rows, %v; want a head and two for each of 22 pairs", len(rows), err)
	}
	if !strings.Contains(said.String(), "| 10 % more work | 1 | 6 |") {
		t.Errorf("it said %q", said.String())
	}
}
