package workloads

import "github.com/teescope/teescope/internal/bench"

// lockServer takes a lock several times for each request and works while it holds it.
var lockServer = knownCause(bench.Workload{
	Name:    "lock-server",
	Doc:     "A server whose threads take either their own locks or one shared lock: slow for a known cause.",
	Version: 2,
	Params: []bench.Param{
		{Name: "locks", Default: "split", Values: []string{"split", "shared"}, Subject: true, Doc: "Locks of the server. split: each connection has its own lock. shared: all connections share one lock."},
		{Name: "turns", Default: "64", Doc: "Number of times that the server takes the lock for each request."},
		{Name: "rounds", Default: "500", Doc: "Rounds of computing while holding the lock; a round takes about a nanosecond."},
		{Name: "pause", Default: "0", Doc: "Microseconds of sleep while holding the lock, as if waiting for a disk. The effect then does not depend on idle CPUs."},
	},
}, "8", "1", "lockserver", "turns", "rounds", "pause", "connections")
