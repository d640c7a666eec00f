package workloads

import "github.com/teescope/teescope/internal/bench"

// lockServer takes a lock several times for each request and works while it holds it.
var lockServer = knownCause(bench.Workload{
	Name:    "lock-server",
	Doc:     "A server whose threads take a lock of their own or one shared by all: slow for a known cause.",
	Version: 2,
	Params: []bench.Param{
		{Name: "locks", Default: "split", Values: []string{"split", "shared"}, Subject: true, Doc: "Whether each connection has a lock, or all share one."},
		{Name: "turns", Default: "64", Doc: "How often the server takes the lock per request."},
		{Name: "rounds", Default: "500", Doc: "Rounds of computing under the lock, of about a nanosecond each."},
		{Name: "pause", Default: "0", Doc: "Microseconds of sleep under the lock, as for a disk; then the effect does not depend on idle CPUs."},
	},
}, "8", "1", "lockserver", "turns", "rounds", "pause", "connections")
