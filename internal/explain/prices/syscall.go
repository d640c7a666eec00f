package prices

import "github.com/teescope/teescope/internal/explain"

// null is the job of the least system call.
var null = map[string][]string{"null": timed("thread", "syscall", "null")}

var syscall = Price{
	Price:  explain.Price{Event: "syscall", Metric: explain.CallCount, How: "a system call that does nothing, timed on this machine"},
	method: "the smallest system call (getppid), repeated: entering and leaving the kernel, which every call costs before its own work",
	jobs:   null, unit: direct("null"),
}

// syscallUnseen is what sampled times of calls lack.
var syscallUnseen = Price{
	Price:  explain.Price{Event: "syscall_unseen"},
	method: "the share of an empty call's time that CPU samples attribute to the program instead of the kernel, because the processor leaves a call with interrupts off; the time of the program's loop is subtracted",
	jobs:   map[string][]string{"null": null["null"], "sampled null": {"thread", "sampled", "null", "70", "53000"}}, unit: unseen("null"),
}
