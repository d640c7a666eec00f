package workloads

import (
	_ "embed"
	"strconv"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/host"
)

//go:embed mongodb.sh
var mongodbScript []byte

var mongodb = mongodbServer.workload()

// mongodbServer has a thread per connection and its own cache above the kernel's: with a working
// set larger than the enclave page cache, a TEE pages what the server takes for memory. The
// journal stays on, as by default; nothing is written during the measurement. Only find is
// counted, which nothing else uses.
//
// It follows MongoDB's manual and was tested with other servers of its protocol; mongod itself is
// in no package archive available to us.
var mongodbServer = dataServer{
	name:     "mongodb",
	doc:      "MongoDB if it is installed (not run by us), under queries for one random document by its _id: requests, latency, its own CPU time and cache.",
	tools:    []bench.Tool{{Command: "mongod", Package: "mongodb-org-server of MongoDB's own repository (https://www.mongodb.com/docs/manual/administration/install-on-linux/)"}},
	params:   []bench.Param{{Name: "cache", Default: "256MiB", Doc: "The server's own cache (storage.wiredTiger.engineConfig.cacheSizeGB); MongoDB's minimum is 256MiB."}},
	pipeline: "1", protocol: "mongodb", command: "find test.data key:{key}", stats: "mongodb",
	// 40 bytes of BSON, 30 in the index of _id, and as much again for pages that are not full.
	entry: 140, fill: 100_000,
	requests: []string{"metrics/commands/find/total"}, memory: "wiredTiger/cache/bytes currently in the cache",
	cpu: []string{"extra_info/user_time_seconds", "extra_info/system_time_seconds"},
	start: func(p bench.Params, set dataSet) (host.Cmd, []bench.File, error) {
		cache, err := p.Bytes("cache")
		if err != nil {
			return host.Cmd{}, nil, err
		}
		const gib = 1 << 30
		return host.Cmd{Dir: "{work}", Argv: []string{"sh", "{work}/mongodb.sh", "{data}", "--bind_ip", "{host}", "--port", "{port}",
				"--maxConns", strconv.FormatInt(set.connections+spare, 10), "--wiredTigerCacheSizeGB", strconv.FormatFloat(float64(cache)/gib, 'f', -1, 64)}},
			[]bench.File{{Name: "mongodb.sh", Data: mongodbScript, Exec: true}}, nil
	},
	processes: []string{"mongod"},
}
