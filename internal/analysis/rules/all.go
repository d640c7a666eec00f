// Package rules holds the members of the analysis: one file per cause. A rule
// names metrics as text, as PromQL does. A new rule is one file, one line in All,
// and fixtures under testdata, of which fires, silent and cannot-tell are needed.
package rules

import "github.com/teescope/teescope/internal/analysis"

// All are the rules, in the order in which they are shown.
var All = []*analysis.Rule{
	syscallStorm,
	vdsoBypass,
	lockContention,
	contextSwitchStorm,
	pageFaultStorm,
	tlsHandshakes,
	logging,
	cacheThrash,
	epcPaging,
	epcNearlyFull,
	enclaveTransitions,
	enclaveChurn,
	vmExitStorm,
	guestExitStorm,
	bounceBuffers,
	bouncedIO,
	memoryConversions,
	unacceptedMemory,
	cpuSteal,
	cpuThrottling,
	pressure,
	ioSaturation,
	networkLoss,
	clockSource,
	blindCounters,
	targetDown,
	unusual,
	overBudget,
	lostSamples,
}
