package prices

import "github.com/teescope/teescope/internal/explain"

// wakeups are the jobs of threads that wake each other, with the cost of the calls alone.
func wakeups(name, clock, where string) map[string][]string {
	return map[string][]string{
		name:    timed(clock, "wakeup", "futex", where, "1"),
		"calls": timed("thread", "futex", "calls"),
	}
}

var switchSameCore = Price{
	Price:  explain.Price{Event: "switch_same_core", Metric: explain.SwitchCount, How: "a wake-up and the switch to the woken thread on the same CPU, timed on this machine"},
	method: "half a round trip of two threads that wake each other (futex) on one CPU, minus the two calls' own cost: the wake-up and the switch",
	jobs:   wakeups("same", "process", "same"), unit: switches("same", 1),
}

var switchCrossCore = Price{
	Price:  explain.Price{Event: "switch_cross_core"},
	method: "half a round trip of two threads that wake each other (futex) on two cores, minus one call's own cost: the time until the other core runs the thread, most of which is not a CPU time",
	jobs:   wakeups("cross", "wall", "cross"), unit: switches("cross", 0.5),
}

var wakeup = Price{
	Price:  explain.Price{Event: "wakeup"},
	method: "the extra time for the caller of a call that wakes a thread on another core (asleep for 20 µs), compared with the same call without a thread to wake",
	jobs:   map[string][]string{"wake": {"wall", "futex", "wake", "cross", "20", "20"}}, unit: direct("wake"),
}
