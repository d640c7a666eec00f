package main

import (
	"context"
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
	if err := needs("redis-server", "redis-benchmark"); err != nil {
		t.Skip(err)
	}
	out := filepath.Join(t.TempDir(), "runs.csv")
	o := options{bin: bin, csv: out, rounds: 2, warm: 200 * time.Millisecond, measure: time.Second}
	if err := o.run(t.Context(), []string{"redis"}, []string{"off", "agent", "only-syscalls"}); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	if len(lines) != 1+2*3 {
		t.Fatalf("%d runs:\n%s", len(lines)-1, b)
	}
	for _, l := range lines[1:] {
		f := strings.Split(l, ",")
		if f[3] == "" || f[3] == "0" || (f[2] == "off") != (f[6] == "") {
			t.Errorf("run %q", l)
		}
	}
}

func TestBadNames(t *testing.T) {
	o := options{bin: "/nonexistent", rounds: 1}
	for _, c := range []struct{ servers, arms []string }{
		{[]string{"redis"}, []string{"off", "no-such"}},
		{[]string{"redis"}, []string{"off", "only-cpu"}},
		{[]string{"redis"}, []string{"off", "most-syscalls"}},
		{[]string{"redis"}, []string{"off"}},
		{[]string{"redis"}, []string{"off", "agent"}}, // no binary
	} {
		if err := o.run(context.Background(), c.servers, c.arms); err == nil {
			t.Errorf("%v are taken", c)
		}
	}
}
