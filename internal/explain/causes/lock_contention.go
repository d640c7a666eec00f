package causes

import (
	"strings"

	"github.com/teescope/teescope/internal/explain"
)

// lockCalls are the calls in which a thread waits for a lock or hands it on.
var lockCalls = strings.Fields("futex futex_wait futex_wake futex_waitv futex_requeue")

// LockCalls are those calls, separated by spaces.
var LockCalls = strings.Join(lockCalls, " ")

// LockContention is threads that wait for each other. Calls and switches indicate it only if threads are sampled
// waiting for locks; otherwise they are idle threads being woken.
var LockContention = explain.Cause{
	Name:  "lock_contention",
	What:  "waiting for locks and waking the threads that wait",
	Fix:   "hold the lock for less time, split it, keep data per thread, or use fewer threads",
	Doing: "waiting for locks",
	Remedy: "Find the lock with `perf trace -e futex -p PID`, `perf lock contention -p PID` (Linux 6.0 and later) or `offcputime-bpfcc -p PID`. Hold it for less time, " +
		"split it, keep data per thread, or use fewer threads. Inside an enclave each sleep and each wake-up is also an exit: use the runtime's own locks, or spin briefly first.",
	Matches: func(e explain.Event, c explain.Circumstances) bool {
		return waits(e, "lock") || c.Contended && (called(e, lockCalls) || e.Metric == explain.SwitchCount && e.Label("kind") == "voluntary")
	},
}
