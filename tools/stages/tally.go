package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// tally counts the outcomes of one stage. A test that has parts counts, and so
// does each part.
type tally struct {
	stage   string
	passed  int
	failed  []outcome
	skipped []outcome
	took    time.Duration
	slow    []string // tests that took long, with their seconds
}

// slowFrom is from how many seconds on a test is named as slow.
const slowFrom = 20

// long notes how long a test took.
func (t *tally) long(test string, seconds float64) {
	if seconds >= slowFrom {
		t.slow = append(t.slow, fmt.Sprintf("%s %.0f s", test, seconds))
	}
}

// outcome is a test that failed or was skipped, with what it said.
type outcome struct{ test, text string }

func (t *tally) pass()                   { t.passed++ }
func (t *tally) fail(test, text string)  { t.failed = append(t.failed, outcome{test, text}) }
func (t *tally) skip(test, cause string) { t.skipped = append(t.skipped, outcome{test, cause}) }

// add takes over the outcomes of another tally.
func (t *tally) add(o *tally) {
	t.passed += o.passed
	t.failed = append(t.failed, o.failed...)
	t.skipped = append(t.skipped, o.skipped...)
	t.slow = append(t.slow, o.slow...)
}

// summarize prints every failure with its output, every skip with its reason,
// a table of the stages, and one closing line. It reports whether all is well:
// nothing failed and something ran.
func summarize(w io.Writer, ts []*tally) bool {
	var passed, failed, skipped int
	var took time.Duration
	for _, t := range ts {
		for _, o := range t.failed {
			fmt.Fprintf(w, "\nFAILED %s: %s\n%s\n", t.stage, o.test, indent(o.text))
		}
		passed += t.passed
		failed += len(t.failed)
		skipped += len(t.skipped)
		took += t.took
	}
	if skipped > 0 {
		fmt.Fprintln(w, "\nSkipped, and why:")
		for _, t := range ts {
			for _, o := range t.skipped {
				fmt.Fprintf(w, "  %s: %s: %s\n", t.stage, o.test, o.text)
			}
		}
	}
	fmt.Fprintln(w)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "stage\tpassed\tfailed\tskipped\tseconds\t")
	for _, t := range ts {
		fmt.Fprintf(tw, "%s\t%d\t%d\t%d\t%.0f\t\n", t.stage, t.passed, len(t.failed), len(t.skipped), t.took.Seconds())
	}
	fmt.Fprintf(tw, "all\t%d\t%d\t%d\t%.0f\t\n", passed, failed, skipped, took.Seconds())
	tw.Flush()
	fmt.Fprintf(w, "\n%d passed, %d failed, %d skipped\n", passed, failed, skipped)
	for _, t := range ts {
		if len(t.failed) > 0 {
			fmt.Fprintf(w, "failed in %s: %s\n", t.stage, testNames(t.failed))
		}
	}
	return failed == 0 && passed > 0
}

// testNames joins the names of tests.
func testNames(list []outcome) string {
	out := make([]string, len(list))
	for i, o := range list {
		out[i] = o.test
	}
	return strings.Join(out, ", ")
}

func indent(s string) string {
	return "    " + strings.ReplaceAll(strings.TrimRight(s, "\n"), "\n", "\n    ")
}

// where returns the last lines of a test's output that name a place in a file, or
// node's error, so that a log of which only a part is kept says what went wrong.
func where(text string) (lines []string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); place.MatchString(line) || strings.HasPrefix(line, "error: ") {
			lines = append(lines, line)
		}
	}
	return lines[max(0, len(lines)-places):]
}

// places is how many lines where returns at most: what a test logs may stand
// between its errors.
const places = 12
