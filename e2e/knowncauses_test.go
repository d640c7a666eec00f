package e2e

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/result"
)

// TestCauseIsNamed: the report of a server that is slow for a known cause names the
// cause and what mends it, in one sentence, and its counter comes first. Where the
// machine has too little time to tell the arms apart there is no such sentence.
func TestCauseIsNamed(t *testing.T) {
	needRoot(t)
	for _, c := range []struct{ experiment, counter, event, fix string }{
		{"cause-clock", `syscall="clock_gettime"`, "clock_gettime", "clear the way to the vDSO"},
		{"cause-lock", `state="lock"`, "asleep in futex", "hold the lock for less time"},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "r.json")
		out, errs, code := run(t, "bench", "run", c.experiment, "--quick", "--param", "warm=200ms", "--param", "measure=1s", "--out", path, "--data", dir)
		if code != 0 && code != 3 {
			t.Fatalf("%s: exit status %d: %s%s", c.experiment, code, out, errs)
		}
		e, err := result.Read(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %s; %s", c.experiment, e.Comparisons[0].Headline, e.Comparisons[0].Cause)
		if first := e.Attribution[0].Counter; !strings.Contains(first, c.counter) {
			t.Errorf("%s: the dearest counter is %s, want that with %s", c.experiment, first, c.counter)
		}
		if k := e.Comparisons[0]; k.CostLow == nil || *k.CostLow <= 1 {
			t.Logf("%s: the machine has too little time to tell the arms apart", c.experiment)
			continue
		}
		said := strings.Join(strings.Fields(out), " ")
		for _, want := range []string{c.event, c.fix, "unexplained"} {
			if !strings.Contains(said, want) {
				t.Errorf("%s: the report does not say %q:\n%s", c.experiment, want, out)
			}
		}
	}
}
