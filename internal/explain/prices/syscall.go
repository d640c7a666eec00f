package prices

import "github.com/teescope/teescope/internal/explain"

// null is the job of the least system call.
var null = map[string][]string{"null": timed("thread", "syscall", "null")}

var syscall = Price{
	Price:  explain.Price{Event: "syscall", Metric: explain.CallCount, How: "a system call that does nothing, timed on this machine"},
	method: "the least system call (getppid) over and over: the way into the kernel and back, which every call costs before its own work",
	jobs:   null, unit: direct("null"),
}

// syscallUnseen is what sampled times of calls lack.
var syscallUnseen = Price{
	Price:  explain.Price{Event: "syscall_unseen"},
	method: "the share of a null call's time in which the CPU clock's samples find the program and not the kernel, as the processor leaves a call with interrupts off, less the program's loop",
	jobs:   map[string][]string{"null": null["null"], "sampled null": {"thread", "sampled", "null", "70", "53000"}}, unit: unseen("null"),
}
