package cli

import (
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/result"
)

// TestProgressWaits: what is waited for is printed once, however many runs wait for it.
func TestProgressWaits(t *testing.T) {
	var b strings.Builder
	p := newProgress(&b)
	for _, s := range []bench.Progress{
		{Total: 20, Doing: "open tee"},
		{Total: 20, Doing: "open tee", Waits: "the server: connection refused"},
		{Total: 20, Doing: "p00-c1-tee", Left: 1e9},
		{Total: 20, Doing: "p00-c1-tee", Left: 1e9, Waits: "the server: connection refused"},
		{Total: 20, Doing: "p00-c1-tee", Left: 1e9, Waits: `the line "up" of sh`},
	} {
		p.show(s)
	}
	want := "0 of 20: open tee\nopen tee waits for the server: connection refused\n0 of 20 runs done, about 1 s left\np00-c1-tee waits for the line \"up\" of sh\n"
	if b.String() != want {
		t.Errorf("printed\n%swant\n%s", b.String(), want)
	}
}

// TestProgressOfEach: the passes of an experiment show their progress from its beginning on.
func TestProgressOfEach(t *testing.T) {
	var b strings.Builder
	f := benchFlags{noCounters: true}
	for _, done := range []int{18, 2} {
		if _, err := f.measured(t.Context(), Env{Stderr: &b}, bench.Options{}, func(o bench.Options) (*result.Experiment, error) {
			o.Progress(bench.Progress{Done: done, Total: 20, Doing: "p09-c1-tee", Left: 1e9})
			return nil, nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	if want := "18 of 20 runs done, about 1 s left\n2 of 20 runs done, about 1 s left\n"; b.String() != want {
		t.Errorf("printed\n%swant\n%s", b.String(), want)
	}
}
