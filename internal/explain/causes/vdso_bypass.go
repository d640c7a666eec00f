package causes

import (
	"strings"

	"github.com/teescope/teescope/internal/explain"
)

// vdsoCalls are the system calls that the vDSO normally answers without entering the kernel (vdso(7)).
var vdsoCalls = strings.Fields("clock_gettime gettimeofday time getcpu clock_getres")

// VDSOCalls are those calls as a regular expression.
var VDSOCalls = alternatives(vdsoCalls)

// VDSOBypass is programs reading the time by system calls.
var VDSOBypass = explain.Cause{
	Name: "vdso_bypass",
	What: "asking the kernel for the time, which the vDSO could answer in user space",
	Fix: "make the vDSO usable (a clock source that user space can read, no sandbox, static binary or enclave runtime in between), " +
		"or read the time once per turn of the event loop",
	Doing: "asking the kernel for the time with {event}{often}",
	Remedy: "Find the caller with `perf record -e raw_syscalls:sys_enter -g -p PID` or `strace -c -f -p PID`. Read the time once per turn of the event loop, " +
		"or use CLOCK_MONOTONIC_COARSE where a few milliseconds do not matter.",
	Matches: func(e explain.Event, c explain.Circumstances) bool { return !c.Rare && called(e, vdsoCalls) },
}
