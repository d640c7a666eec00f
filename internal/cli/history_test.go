package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/verdict"
)

// TestOlderReport: results of older versions, whose headlines gave some ratios as measured, have the cost ratio in a report.
func TestOlderReport(t *testing.T) {
	const old, want = "ebpf against off on redis is 0.919x [0.795, 1.056]", "ebpf against off on redis has a cost ratio of 1.088x [0.947, 1.26]"
	file := filepath.Join(t.TempDir(), "e8-original.json")
	b := unpacked(t, "../result/testdata/older/e8-original.json.gz")
	if !bytes.Contains(b, []byte(old)) {
		t.Fatalf("the result does not say %q", old)
	}
	if err := os.WriteFile(file, b, 0o644); err != nil {
		t.Fatal(err)
	}
	out, errs, code := run(t, "report", file, "--format", "text", "--out", "-")
	if text := strings.Join(strings.Fields(out), " "); code != exitOK || !strings.Contains(text, want) || strings.Contains(text, old) {
		t.Errorf("exit status %d, %s\n%s\nwant %q", code, errs, text, want)
	}
}

// TestChangeIsACost: a change of a series has the cost ratio, whichever way the metric is better.
func TestChangeIsACost(t *testing.T) {
	z := 4.0
	for _, c := range []struct {
		before, after float64
		worse         bool
		want          string
	}{
		{100, 80, true, "worse: 100 to 80 (cost ratio 1.25x, p = 0.01)"},  // requests per second
		{80, 100, false, "better: 80 to 100 (cost ratio 0.8x, p = 0.01)"}, // the same, recovered
		{80, 100, true, "worse: 80 to 100 (cost ratio 1.25x, p = 0.01)"},  // milliseconds
		{100, 80, false, "better: 100 to 80 (cost ratio 0.8x, p = 0.01)"}, // the same, recovered
	} {
		t.Run(c.want, func(t *testing.T) {
			if got := changeText(verdict.Change{Before: c.before, After: c.after, Ratio: c.after / c.before, Worse: c.worse, P: 0.01, Z: &z}); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}
