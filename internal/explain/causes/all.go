// Package causes lists what makes programs slow, one file each: which events indicate it, what it is, and what to do.
// Its share of a program's time is measured elsewhere.
package causes

import (
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/explain"
)

// All lists every cause. An event belongs to the first cause that it indicates, so SyscallStorm, which takes most
// calls, comes after the causes of single calls.
var All = []*explain.Cause{
	&VDSOBypass,
	&LockContention,
	&ContextSwitchStorm,
	&PageFaultStorm,
	&Logging,
	&IOSaturation,
	&TLSHandshakes,
	&SyscallStorm,
	&CPUStarvation,
	&EPCPaging,
	&EnclaveTransitions,
	&GuestExitStorm,
	&VMExitStorm,
	&BouncedIO,
	&BounceBuffers,
	&MemoryConversions,
}

// called reports whether an event is a system call of a list.
func called(e explain.Event, calls []string) bool {
	return e.Metric == explain.CallCount && slices.Contains(calls, e.Label("syscall"))
}

// waits reports whether an event is time in which threads wait in a state.
func waits(e explain.Event, state string) bool {
	return e.Metric == explain.WaitSamples && e.Label("state") == state
}

// alternatives returns a list of calls as a regular expression.
func alternatives(calls []string) string { return strings.Join(calls, "|") }
