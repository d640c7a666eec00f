// Package rules holds the members of the findings' engine. A rule that only compares
// queries with limits is a value in comparisons.go; one that computes something is a
// file of its own and a line in computed. Rules name metrics as text, as PromQL does.
// Each needs fixtures under testdata: fires, silent and cannot-tell.
package rules

import "github.com/teescope/teescope/internal/findings"

// computed are the rules with code of their own.
var computed = []*findings.Rule{
	syscallStorm,
	vdsoBypass,
	lockContention,
	cpuStarvation,
	contextSwitchStorm,
	pageFaultStorm,
	tlsHandshakes,
	logging,
	cacheThrash,
	epcPaging,
	epcNearlyFull,
	enclaveTransitions,
	vmExitStorm,
	guestExitStorm,
	ioSaturation,
	clockSource,
	targetDown,
	damagedData,
	storeFails,
	unusual,
}

// All are the rules, in the order in which they are shown.
var All = all()

func all() []*findings.Rule {
	out := computed[:len(computed):len(computed)]
	for _, c := range comparisons {
		out = append(out, c.rule())
	}
	return out
}
