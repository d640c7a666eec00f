package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// tally counts the outcomes of one stage. A test with subtests counts, and so
// does each subtest.
type tally struct {
	stage string
	// report, if not nil, is told each failure when it happens.
	report     func(stage string, o outcome)
	passed     int
	benchmarks int                    // of those passed
	inputs     int                    // tried by fuzz targets
	ran        []string               // Go tests that began: package and name
	measures   bool                   // the tests are those with the build tag measure
	chosen     func(test string) bool // of a package, by the flags of go test; nil: all
	failed     []outcome
	skipped    []outcome
	took       time.Duration
	tests      []timed
}

// timed is a test, without its subtests, and its duration.
type timed struct {
	name string
	took time.Duration
}

// slowest is the number of tests named in the summary.
const slowest = 10

// long notes how long a test took.
func (t *tally) long(test string, seconds float64) {
	t.tests = append(t.tests, timed{test, time.Duration(seconds * float64(time.Second))})
}

// outcome is a test that failed or was skipped, with its output.
type outcome struct{ test, text string }

func (t *tally) pass() { t.passed++ }
func (t *tally) fail(test, text string) {
	o := outcome{test, text}
	t.failed = append(t.failed, o)
	if t.report != nil {
		t.report(t.stage, o)
	}
}
func (t *tally) skip(test, cause string) { t.skipped = append(t.skipped, outcome{test, cause}) }

// failures is the file that has every failure of the last run, from the moment on at which it happened.
const failures = "bin/failures.txt"

// report prints the name of a failed test and what names a place in its output, and appends all of it to the file.
func report(stage string, o outcome) {
	var b strings.Builder // printed at once: another run may print too
	fmt.Fprintf(&b, "FAILED in %s: %s\n", stage, o.test)
	lines := failingLines(o.text)
	if len(lines) == 0 { // no test, but a program with its own words
		lines = strings.Split(strings.TrimSpace(o.text), "\n")
	}
	for _, line := range lines[max(0, len(lines)-places):] {
		fmt.Fprintln(&b, "   ", line)
	}
	fmt.Print(b.String())
	f, err := os.OpenFile(failures, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err == nil {
		_, err = fmt.Fprintf(f, "FAILED in %s: %s\n%s\n", stage, o.test, indent(o.text))
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		fmt.Printf("keep the failure: %v\n", err)
	}
}

// add includes the outcomes of another tally.
func (t *tally) add(o *tally) {
	t.passed += o.passed
	t.benchmarks += o.benchmarks
	t.failed = append(t.failed, o.failed...)
	t.skipped = append(t.skipped, o.skipped...)
	t.tests = append(t.tests, o.tests...)
}

// String returns the counts in words.
func (t *tally) String() string {
	text := fmt.Sprintf("%d passed", t.passed)
	if t.benchmarks > 0 {
		text += fmt.Sprintf(" (%d benchmarks)", t.benchmarks)
	}
	return fmt.Sprintf("%s, %d failed, %d skipped", text, len(t.failed), len(t.skipped))
}

// summarize prints every failure with its output, every skip with its reason, the slowest tests,
// a table of the stages, and one closing line. It reports whether nothing failed and something
// ran. took is the time of all stages, which may overlap.
func summarize(w io.Writer, ts []*tally, took time.Duration) bool {
	sum := &tally{stage: "all", took: took}
	for _, t := range ts {
		for _, o := range t.failed {
			fmt.Fprintf(w, "\nFAILED %s: %s\n%s\n", t.stage, o.test, indent(o.text))
		}
		for _, one := range t.tests {
			sum.tests = append(sum.tests, timed{t.stage + ": " + one.name, one.took})
		}
		sum.passed += t.passed
		sum.benchmarks += t.benchmarks
		sum.failed = append(sum.failed, t.failed...)
		sum.skipped = append(sum.skipped, t.skipped...)
	}
	if len(sum.skipped) > 0 {
		fmt.Fprintln(w, "\nSkipped, and why:")
		for _, t := range ts {
			for _, o := range t.skipped {
				fmt.Fprintf(w, "  %s: %s: %s\n", t.stage, o.test, o.text)
			}
		}
	}
	slices.SortStableFunc(sum.tests, func(a, b timed) int { return cmp.Compare(b.took, a.took) })
	if len(sum.tests) > 0 {
		fmt.Fprintln(w, "\nSlowest tests, in seconds:")
	}
	for _, one := range sum.tests[:min(slowest, len(sum.tests))] {
		fmt.Fprintf(w, "%7.1f  %s\n", one.took.Seconds(), one.name)
	}
	fmt.Fprintln(w)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "stage\tpassed\tbenchmarks\tfailed\tskipped\tseconds\t")
	for _, t := range append(slices.Clone(ts), sum) {
		fmt.Fprintf(tw, "%s\t%d\t%d\t%d\t%d\t%.0f\t\n", t.stage, t.passed, t.benchmarks, len(t.failed), len(t.skipped), t.took.Seconds())
	}
	tw.Flush()
	fmt.Fprintf(w, "\n%s\n", sum)
	for _, t := range ts {
		if len(t.failed) > 0 {
			fmt.Fprintf(w, "failed in %s: %s\n", t.stage, testNames(t.failed))
		}
	}
	return len(sum.failed) == 0 && sum.passed > 0
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

// failingLines returns the last lines of a test's output that name a place in a file, or node's error: a
// truncated log still names the fault. An error of several lines ("|-" in YAML) has its first six: a
// comparison's values come after its two lines of introduction.
func failingLines(text string) (lines []string) {
	more, margin := 0, 0
	for whole := range strings.Lines(text) {
		line := strings.TrimSpace(whole)
		if line == "" {
			continue
		}
		at := strings.Index(whole, line)
		if at <= margin {
			more = 0
		}
		switch {
		case line == "error: |-":
			more, margin = 6, at
		case place.MatchString(line), strings.HasPrefix(line, "error: "), more > 0:
			lines = append(lines, line)
			more--
		}
	}
	return lines[max(0, len(lines)-places):]
}

// places is the largest number of lines that where returns: a test may log between its errors.
const places = 12
