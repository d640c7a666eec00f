package workloads

import (
	"strconv"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/host"
)

var memcached = memcachedServer.workload()

// memcachedServer is the counterpart to Redis: the same data and requests, with
// threads that share one table.
var memcachedServer = dataServer{
	name:     "memcached",
	doc:      "Memcached with keys in memory, under random gets with a fixed pipeline: requests, latency, the server's own CPU time and memory.",
	tools:    []bench.Tool{{Command: "memcached", Package: "memcached"}},
	params:   []bench.Param{{Name: "threads", Default: "4", Doc: "Threads that serve connections."}, memcachedLoad},
	pipeline: "8", protocol: "memcached", command: "get key:{key}", stats: "memcached",
	entry: 72, fill: 250_000,
	requests: []string{"cmd_get"}, memory: "bytes",
	cpu:      []string{"rusage_user", "rusage_system"},
	hitRatio: serverHits, hits: "get_hits", misses: "get_misses", lost: "evictions",
	start: func(p bench.Params, set dataSet) (host.Cmd, []bench.File, error) {
		threads, err := p.Int("threads", 1)
		if err != nil {
			return host.Cmd{}, nil, err
		}
		// A little more than twice the data, so no class of its allocator runs full.
		const mib = 1 << 20
		return host.Cmd{Dir: "{work}", Argv: []string{"memcached", "-l", "{host}", "-p", "{port}", "-U", "0",
			// Started by root, it requires a user to switch to. As another user it would outlive
			// a killed harness: the switch clears the signal for that (prctl(2),
			// PR_SET_PDEATHSIG).
			"-u", "root",
			"-m", strconv.FormatInt(64+2*set.bytes/mib, 10), "-t", strconv.FormatInt(threads, 10),
			"-c", strconv.FormatInt(set.connections+spare, 10)}}, nil, nil
	},
}
