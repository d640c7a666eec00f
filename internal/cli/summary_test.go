package cli

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/verdict"
)

// TestSummary: a summary is smaller, every command reads it, and the verdicts, guards and causes that follow from its runs are those
// of the whole result.
func TestSummary(t *testing.T) {
	files, err := filepath.Glob("testdata/recorded/*.json.gz")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "summary.json.gz")
			if _, stderr, code := run(t, "report", file, "--format", "summary", "--out", out); code != exitOK {
				t.Fatalf("exit status %d: %s", code, stderr)
			}
			was, is := sizeOf(t, file), sizeOf(t, out)
			if is > was*3/4 || is > 40<<10 {
				t.Errorf("%d bytes of %d, want at most three quarters and 40 KiB", is, was)
			}
			whole, short := concludedFile(t, file), concludedFile(t, out)
			if !short.Summary || whole.Summary {
				t.Errorf("summary: %v of the whole result, %v of the short one", whole.Summary, short.Summary)
			}
			if a, b := verdictsOf(whole), verdictsOf(short); !slices.Equal(a, b) {
				t.Errorf("the verdicts are\n%s\ninstead of\n%s", strings.Join(b, "\n"), strings.Join(a, "\n"))
			}
			if a, b := guardsOf(whole), guardsOf(short); !slices.Equal(a, b) {
				t.Errorf("the guards are %q instead of %q", b, a)
			}
			if len(whole.Attribution) == 0 {
				t.Fatal("the result explains nothing, so nothing can be lost")
			}
			rows := map[string]result.Attribution{}
			for _, a := range short.Attribution {
				rows[a.Treatment+a.Case+a.Counter] = a
			}
			for _, a := range whole.Attribution {
				b, ok := rows[a.Treatment+a.Case+a.Counter]
				if !ok && a.Metric == "tee_syscalls_total" {
					continue // a rare one
				}
				if !ok || !near(a.Seconds, b.Seconds) || !near(a.Share, b.Share) || a.Cause != b.Cause {
					t.Errorf("%s: %+v instead of %+v", a.Counter, b, a)
				}
			}
			for _, format := range []string{"text", "md", "html"} {
				text := printed(t, "report", out, "--format", format, "--out", "-")
				if !strings.Contains(strings.Join(strings.Fields(text), " "), "raw files, histograms and any attestation of the whole result were left out of this result") {
					t.Errorf("the report as %s does not say that it is of a summary", format)
				}
			}
		})
	}
}

// printed is what a command writes; it must succeed.
func printed(t *testing.T, args ...string) string {
	t.Helper()
	out, stderr, code := run(t, args...)
	if code != exitOK {
		t.Fatalf("%q: exit status %d: %s", args, code, stderr)
	}
	return out
}

func sizeOf(t *testing.T, file string) int64 {
	t.Helper()
	fi, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	return fi.Size()
}

func concludedFile(t *testing.T, file string) *result.Experiment {
	t.Helper()
	e, err := result.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	return verdict.Concluded(e, judged())
}

// verdictsOf are the conclusions about metrics, with all their numbers.
func verdictsOf(e *result.Experiment) (out []string) {
	number := func(v *float64) string {
		if v == nil {
			return "none"
		}
		return fmt.Sprint(*v)
	}
	for i := range e.Comparisons {
		c := &e.Comparisons[i]
		out = append(out, strings.Join([]string{c.Headline, c.Case, c.Metric, string(c.Verdict), number(c.Cost), number(c.CostLow), number(c.CostHigh), number(c.BootLow), c.Open, c.Cause}, " | "))
	}
	return out
}

// guardsOf are the guards that tripped. Their messages quote the kernel's command line, of which a summary has a part.
func guardsOf(e *result.Experiment) (out []string) {
	for i := range e.Guards {
		g := &e.Guards[i]
		out = append(out, strings.Join([]string{g.ID, string(g.Level), g.Case, g.Treatment, g.Metric}, " "))
	}
	return out
}

// near reports whether two numbers are equal but for the rounding of counts.
func near(a, b *float64) bool {
	if a == nil || b == nil {
		return a == b
	}
	return math.Abs(*a-*b) <= 1e-3*math.Max(math.Abs(*a), math.Abs(*b))+1e-6
}
