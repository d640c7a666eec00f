package main

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/store"
)

// TestPlay checks that the stored rates are the written ones, at every time.
func TestPlay(t *testing.T) {
	file := filepath.Join(t.TempDir(), "host.txt")
	text := "# a host\n" +
		"calls_total{process=\"a\",call=\"read\"} 100/s\n" +
		"calls_total{process=\"a\",call=\"read\"} 2000/s\n" +
		"calls_total{process=\"b\",call=\"read\"} 60/s swing 30 in 60s\n" +
		"took_seconds 50/s of 1e-3s\n" +
		"size_bytes 4096\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	h := newHost()
	if err := h.read(machine{}, file); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"agents/node-2=" + file, "agents/node-3@3m=" + file} {
		m, err := parseMachine(text)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range m.files {
			if err := h.read(m, f); err != nil {
				t.Fatal(err)
			}
		}
	}
	o := store.DefaultOptions()
	o.Dir, o.Instance = t.TempDir(), "vm"
	now := time.Now()
	p, err := h.play(t.Context(), o, now, 10*time.Minute, 10*time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if p.Now != now.Truncate(o.Interval).Unix() || p.Now-p.First != 600 || p.Last-p.Now != 600 {
		t.Errorf("played %+v around %d", p, now.Unix())
	}
	st, err := store.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	}()
	for expr, want := range map[string]float64{
		`rate(calls_total{process="a",instance="vm"}[1m])`:                                                   2000, // the later line
		`(calls_total{process="b",job="teescope"} - calls_total{process="b",job="teescope"} offset 1m) / 60`: 60,   // a whole swing
		`rate(took_seconds_count{job="teescope"}[1m])`:                                                       50,
		`rate(took_seconds_sum{instance="vm"}[1m])`:                                                          0.05,
		`rate(took_seconds_bucket{le="0.002",instance="vm"}[1m])`:                                            50,
		`size_bytes{instance="vm"}`:                                                                          4096,
		`rate(calls_total{job="agents",instance="node-2",process="a"}[1m])`:                                  2000,
	} {
		for _, at := range []int64{p.First + 300, p.Now, p.Last} {
			got, err := st.Query(t.Context(), expr, time.Unix(at, 0))
			if err != nil || len(got) != 1 || math.Abs(got[0].Value-want) > 1e-6*want {
				t.Errorf("%s at %d is %v, %v, want %v", expr, at-p.Now, got, err, want)
			}
		}
	}
	// A machine that has ended has no value from then on.
	for at, want := range map[int64]int{p.Now - 180: 1, p.Now - 175: 0, p.Now: 0} {
		got, err := st.Query(t.Context(), `size_bytes{job="agents",instance="node-3"}`, time.Unix(at, 0))
		if err != nil || len(got) != want {
			t.Errorf("node-3 at %d is %v, %v, want %d values", at-p.Now, got, err, want)
		}
	}
}

func TestBadMachines(t *testing.T) {
	for _, text := range []string{"node-2", "node-2=a.txt", "agents/node-2", "agents/node-2@soon=a.txt"} {
		if m, err := parseMachine(text); err == nil {
			t.Errorf("%s: %+v, want an error", text, m)
		}
	}
}

func TestBadLines(t *testing.T) {
	for line, want := range map[string]string{
		"calls_total":                     "want NAME",
		`calls_total{process=a} 1/s`:      "cannot read the labels",
		"calls_total 10/s swing 20 in 9s": "by no more than its rate",
		"size_bytes 5 swing 1 in 9s":      "only a counter can swing",
	} {
		if err := newHost().add(machine{}, line); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", line, err, want)
		}
	}
}
