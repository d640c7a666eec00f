package main

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"
)

func TestBadNames(t *testing.T) {
	o := options{bin: "/nonexistent", rounds: 1}
	for _, c := range []struct{ servers, arms []string }{
		{[]string{"redis"}, []string{"off", "no-such"}},
		{[]string{"redis"}, []string{"off"}},
		{[]string{"redis"}, []string{"off", "agent"}}, // no binary
	} {
		if err := o.run(context.Background(), c.servers, c.arms); err == nil {
			t.Errorf("%v are taken", c)
		}
	}
}

func TestBadParts(t *testing.T) {
	for _, names := range []string{"no-such", "only-cpu", "user,"} {
		if list, err := (options{}).chosenParts(names); err == nil {
			t.Errorf("%q are %v", names, list)
		}
	}
}

// TestParts: the ledger splits the loss into what it names: the machine's noise, the CPU time alone, user space, attaching and detaching, each kernel
// source, everything, the first seconds of a load, every system call, and every event.
func TestParts(t *testing.T) {
	var names []string
	for _, p := range parts() {
		names = append(names, p.name)
		if b := p.base(); b.budget != "" || len(b.sources) > 0 || b.begins != p.begins {
			t.Errorf("%s is compared with %+v", p.name, b)
		}
	}
	want := []string{"off", "loop", "user", "attach"}
	for _, s := range kernelSources {
		want = append(want, "only-"+s)
	}
	if want = append(want, "monitor", "first", "full-syscalls", "full"); !slices.Equal(names, want) {
		t.Errorf("%v, want %v", names, want)
	}
}

// TestRow: of 3 % that are lost, the monitor itself took 0.5 % of two cores and its programs 0.5 %; the rest is what it
// does not account for.
func TestRow(t *testing.T) {
	none := math.NaN()
	var without, with, alone []slot
	for i := range 10 {
		rate := 1000 * float64(i+1) // the machine's speed drifts
		without = append(without, slot{rate: rate, work: 1e-3, busy: 2, own: none, kernel: none, covered: none})
		with = append(with, slot{rate: 0.97 * rate, work: 1.02e-3, busy: 1.99, own: 0.01, kernel: 0.01, covered: 0.25})
		alone = append(alone, slot{rate: 0.995 * rate, work: 1e-3, busy: 2, own: 0.01, kernel: none, covered: none})
	}
	for _, c := range []struct {
		with []slot
		want string
	}{
		{with, "| redis | all | 3.00 % | [3.00, 3.00] | 2.00 % | [2.00, 2.00] | 0.50 % | [0.50, 0.50] | 0.01 | 0.01 | 2.02 % | [2.02, 2.02] | 0.25 |"},
		{alone, "| redis | all | 0.50 % | [0.50, 0.50] | 0.00 % | [0.00, 0.00] | 0.00 % | [0.00, 0.00] | 0.01 |  | 0.00 % | [0.00, 0.00] |  |"},
		{without, "| redis | all | 0.00 % | [0.00, 0.00] | 0.00 % | [0.00, 0.00] | 0.00 % | [0.00, 0.00] |  |  | 0.00 % | [0.00, 0.00] |  |"},
	} {
		// A zero may have either sign.
		if got := strings.ReplaceAll(row("redis", part{doc: "all"}, without, c.with, 2), "-0.00", "0.00"); got != c.want {
			t.Errorf("%s\nwant %s", got, c.want)
		}
	}
}
