//go:build measure

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestOnce runs two short rounds, so the measurement does not rot; its numbers mean
// nothing.
func TestOnce(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to count in the kernel")
	}
	bin := os.Getenv("TEESCOPE_BIN")
	if bin == "" {
		t.Skip("TEESCOPE_BIN names no binary; make test does")
	}
	if err := requireCommands("redis-server", "redis-benchmark"); err != nil {
		t.Skip(err)
	}
	out := filepath.Join(t.TempDir(), "runs.csv")
	o := options{bin: bin, csv: out, rounds: 2, warm: 200 * time.Millisecond, measure: time.Second}
	if err := o.run(t.Context(), []string{"redis"}, []string{"off", "agent"}); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	if len(lines) != 1+2*2 {
		t.Fatalf("%d runs:\n%s", len(lines)-1, b)
	}
	for _, l := range lines[1:] {
		f := strings.Split(l, ",")
		if f[3] == "" || f[3] == "0" || (f[2] == "off") != (f[6] == "") {
			t.Errorf("run %q", l)
		}
	}
}

// TestLedgerOnce makes two short rounds of two parts.
func TestLedgerOnce(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to count in the kernel")
	}
	bin := os.Getenv("TEESCOPE_BIN")
	if bin == "" {
		t.Skip("TEESCOPE_BIN names no binary; make test does")
	}
	if err := requireCommands("redis-server", "redis-benchmark", "redis-cli"); err != nil {
		t.Skip(err)
	}
	var out strings.Builder
	o := options{bin: bin, out: &out, rounds: 2, warm: 200 * time.Millisecond, measure: time.Second}
	list, err := o.chosenParts("user,only-syscalls,attach,first")
	if err != nil {
		t.Fatal(err)
	}
	if err := o.ledger(t.Context(), []string{"redis"}, list); err != nil {
		t.Fatal(err)
	}
	rows := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(rows) != 6 {
		t.Fatalf("%d rows:\n%s", len(rows), out.String())
	}
	for i, want := range []string{"no kernel sources", "syscalls alone"} {
		f := strings.Split(rows[2+i], " | ")
		if len(f) != 11 || f[1] != want || strings.Contains(f[2], "NaN") || strings.Contains(f[4], "NaN") || f[6] == "" || (i == 1) == (strings.Trim(f[10], " |") == "") {
			t.Errorf("row %q", rows[2+i])
		}
	}
}
