// Package stats is the mathematics of comparisons: ratios with intervals,
// verdicts, power, steady state, change points and scaling. It is pure: the same
// numbers give the same answer, and random resampling takes its seed from the
// caller. Each function names its formula and its source.
package stats

// Verdict is the conclusion of a comparison.
type Verdict string

// The verdicts. Invalid is never returned by this package: a guard that trips
// turns a verdict into it.
const (
	Cost         Verdict = "cost"
	Gain         Verdict = "gain"
	Equivalent   Verdict = "equivalent"
	Inconclusive Verdict = "inconclusive"
	Invalid      Verdict = "invalid"
)
