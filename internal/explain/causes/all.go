// Package causes says what makes programs slow, one file each: which events speak for
// it, what it is, and what to do. How much of a program's time it takes is measured
// elsewhere.
package causes

import (
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/explain"
)

// All lists every cause. The first one that an event speaks for is its cause, so
// SyscallStorm, which takes most calls, comes after those of single calls.
var All = []*explain.Cause{
	&VDSOBypass,
	&LockContention,
	&ContextSwitchStorm,
	&PageFaultStorm,
	&Logging,
	&IOSaturation,
	&TLSHandshakes,
	&SyscallStorm,
	&CPUPressure,
	&EPCPaging,
	&EnclaveTransitions,
	&GuestExits,
	&VMExits,
	&BounceBuffers,
	&Conversions,
}

// called reports whether an event is a system call of a list.
func called(e explain.Event, calls []string) bool {
	return e.Metric == explain.CallCount && slices.Contains(calls, e.Label("syscall"))
}

// waits reports whether an event is time in which threads wait in a state.
func waits(e explain.Event, state string) bool {
	return e.Metric == explain.WaitSamples && e.Label("state") == state
}

// alternatives is a list of calls as a regular expression.
func alternatives(calls []string) string { return strings.Join(calls, "|") }
