// Package measured judges the promises that only a live machine can show: cost, shares, rates, accuracy. Measurements
// are Go tests in files with the build tag "measure". `make measure` runs them one after the other and writes what
// they say to docs/lab/measured.md.
package measured

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/teescope/teescope/internal/stats"
)

// Answer is what a measurement says of a promise.
type Answer string

// The answers. Broken means that the whole interval is beyond the bound, or the largest value.
const (
	Holds      Answer = "holds"
	Broken     Answer = "broken"
	CannotTell Answer = "cannot tell here"
)

// Row is a line of docs/lab/measured.md.
type Row struct {
	Promise string // a sentence, as in "the monitor costs nginx at most 2 % of its throughput"
	Unit    string // of the numbers: "ratio", "s"; empty for ratios
	// The centre of the values (Hodges-Lehmann) with its exact 95 % signed-rank interval, which is absent with fewer than
	// six values; or, of EachAtMost, the largest, without one.
	Value     float64
	Low, High *float64
	Bound     float64
	Values    int
	Answer    Answer
	Need      string // what would be needed to tell, if it cannot tell here
}

// Prefix marks the line of a test's output that holds a row in JSON.
const Prefix = "measured: "

// AtMost judges the promise that the centre of the values is at most the bound, and reports the row. The test fails if
// the promise is broken.
func AtMost(t testing.TB, promise, unit string, bound float64, values []float64) {
	t.Helper()
	report(t, judge(promise, unit, bound, values))
}

// EachAtMost judges the promise that every value is at most the bound, and reports the row, which has the largest
// value. The test fails if one is above.
func EachAtMost(t testing.TB, promise, unit string, bound float64, values []float64) {
	t.Helper()
	report(t, judgeEach(promise, unit, bound, values))
}

// judgeEach makes the row of a promise about every value. The largest is what was seen, and has no interval.
func judgeEach(promise, unit string, bound float64, values []float64) Row {
	r := Row{Promise: promise, Unit: unit, Bound: bound, Values: len(values), Answer: CannotTell}
	if len(values) == 0 {
		r.Need = "a value; there is none"
		return r
	}
	if r.Value, r.Answer = slices.Max(values), Holds; r.Value > bound {
		r.Answer = Broken
	}
	return r
}

// judge makes the row of a promise.
func judge(promise, unit string, bound float64, values []float64) Row {
	r := Row{Promise: promise, Unit: unit, Bound: bound, Values: len(values), Answer: CannotTell}
	if len(values) == 0 {
		r.Need = "at least six values; there is none"
		return r
	}
	r.Value = stats.HodgesLehmann(values)
	low, high, ok := stats.Centre(values, 0.95)
	if !ok {
		r.Need = fmt.Sprintf("at least six values; there are %d", len(values))
		return r
	}
	r.Low, r.High = &low, &high
	switch {
	case high <= bound:
		r.Answer = Holds
	case low > bound:
		r.Answer = Broken
	default:
		r.Need = "more rounds or a quieter machine: the bound is inside the interval"
	}
	return r
}

func report(t testing.TB, r Row) {
	t.Helper()
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s%s", Prefix, b)
	if r.Answer == Broken {
		interval := ""
		if r.Low != nil {
			interval = fmt.Sprintf(" [%.4g, %.4g]", *r.Low, *r.High)
		}
		t.Errorf("%s: broken: %.4g %s%s, more than %.4g", r.Promise, r.Value, r.Unit, interval, r.Bound)
	}
}
