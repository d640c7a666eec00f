//go:build measure

package main

import (
	"os"
	"strings"
	"testing"
	"time"
)

// TestOnce measures a few agents briefly, so the measurement does not rot; its numbers mean nothing.
func TestOnce(t *testing.T) {
	bin := os.Getenv("TEESCOPE_BIN")
	if bin == "" {
		t.Skip("TEESCOPE_BIN names no binary; make test does")
	}
	var out strings.Builder
	o := options{out: &out, progress: os.Stderr, bin: bin, enclaves: 2, every: time.Second, age: 30 * time.Second, short: 20 * time.Second, asks: 2}
	if err := o.choose("3,20"); err != nil {
		t.Fatal(err)
	}
	if err := o.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	rows := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(rows) != 2+2 {
		t.Fatalf("%d rows:\n%s", len(rows), out.String())
	}
	for _, r := range rows[2:] {
		for i, cell := range strings.Split(strings.Trim(r, "|"), "|") {
			if c := strings.TrimSpace(cell); c == "" || c == "0" || strings.Contains(c, "NaN") {
				t.Errorf("column %d is %q: %s", i, c, r)
			}
		}
	}
}
