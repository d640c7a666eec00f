//go:build measure

package e2e

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/stats"
)

// TestCauseIsNamed: of two servers that differ in one known cause the fixed one is faster, the
// cause's counter ranks first, and the report names the cause, its fix and the unexplained rest.
// The effects are several times the noise of a busy machine, and the interval of ten pairs
// tolerates one in the wrong direction, so arms that cannot be distinguished are a failure.
func TestCauseIsNamed(t *testing.T) {
	needRoot(t)
	for _, c := range []struct{ experiment, counter, event, fix, size string }{
		{"cause-clock", `syscall="clock_gettime"`, "clock_gettime", "clear the way to the vDSO", "reads=64"},
		{"cause-lock", `state="lock"`, "asleep in futex", "hold the lock for less time", "turns=4"},
	} {
		t.Run(c.experiment, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "r.json")
			out, errs, code := run(t, "bench", "run", c.experiment, "--pairs", "10", "--param", c.size, "--param", "warm=200ms", "--param", "measure=1s", "--out", path, "--data", dir)
			if code != 0 && code != 3 { // a guard may refuse a verdict on a busy machine
				t.Fatalf("exit status %d: %s%s", code, out, errs)
			}
			e, err := result.Read(path)
			if err != nil {
				t.Fatal(err)
			}
			k := e.Comparisons[0]
			t.Logf("%s; %s", k.Headline, k.Cause)
			if first := e.Attribution[0].Counter; !strings.Contains(first, c.counter) {
				t.Errorf("the most expensive counter is %s, want that with %s", first, c.counter)
			}
			if k.CostLow == nil || *k.CostLow <= 1 {
				t.Errorf("the mended server is not shown to be faster: %s", k.Headline)
			}
			said := strings.Join(strings.Fields(out), " ")
			wants := []string{"unexplained"}
			if k.Verdict == stats.Cost || k.Verdict == stats.Gain {
				wants = append(wants, c.event, c.fix)
			} else { // on a busy machine no cause may be named
				t.Logf("the verdict is %s: %s", k.Verdict, k.Open)
			}
			for _, want := range wants {
				if !strings.Contains(said, want) {
					t.Errorf("the report does not say %q:\n%s", want, out)
				}
			}
		})
	}
}
