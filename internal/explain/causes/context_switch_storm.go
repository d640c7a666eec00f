package causes

import "github.com/teescope/teescope/internal/explain"

// ContextSwitchStorm is threads that constantly sleep and wake up.
var ContextSwitchStorm = explain.Cause{
	Name:  "context_switch_storm",
	What:  "putting threads to sleep and waking them",
	Fix:   "see who waits for whom (perf sched timehist) and pass work on in larger batches or to fewer threads",
	Doing: "putting threads to sleep and waking them{often}",
	Remedy: "Find who waits for whom with `perf sched timehist -p PID`, and pass work on in larger batches or to fewer threads. A switch of a thread inside an enclave is an exit; " +
		"when the last busy thread of a confidential VM sleeps, its virtual CPU halts, which is an exit too.",
	Matches: func(e explain.Event, c explain.Circumstances) bool {
		return !c.Rare && called(e, lockCalls) || e.Metric == explain.SwitchCount && e.Label("kind") != ""
	},
}
