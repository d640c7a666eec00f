//go:build measure

package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestOnce measures everything briefly, so the measurement does not rot; its numbers
// mean nothing.
func TestOnce(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to count in the kernel")
	}
	bin := os.Getenv("TEESCOPE_BIN")
	if bin == "" {
		t.Skip("TEESCOPE_BIN names no binary; make test does")
	}
	if _, err := os.Stat("/usr/bin/chromium"); err != nil {
		t.Skip(err)
	}
	var out strings.Builder
	o := options{out: io.MultiWriter(&out, os.Stdout), bin: bin, dist: filepath.Join("..", "..", "ui", "dist"), usable: filepath.Join("..", "browser", "usable.js"),
		idle: time.Second, settle: 15 * time.Second, churn: time.Second, series: 250, hours: 1,
		storm: filepath.Join("..", "..", "workloads", "storm", "storm.c"), names: 10, pageRounds: 1, pageSettle: time.Second, pageMeasure: time.Second}
	if err := o.run(); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), "| absent |") {
		t.Error("something was not measured")
	}
	if n := strings.Count(out.String(), "\n"); n != 2+24 {
		t.Errorf("%d lines", n)
	}
}
