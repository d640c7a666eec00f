package workloads

import (
	"path"
	"strconv"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/host"
)

var redis = redisServer.workload()

// redisServer holds everything in memory and answers from one thread: the cost of a TEE shows in
// the system calls of its connections and, with a working set larger than the enclave page cache,
// in paging. Nothing is written to disk, since snapshots would fork in the middle of a run.
// 720,000 keys with values of 32, 64 and 96 bytes are the working sets of 78, 105 and 127 MB of
// TEEMon (Middleware 2020, section 6); their memory, including that of connections, is a metric.
var redisServer = dataServer{
	name:  "redis",
	doc:   "Redis with keys in memory, under random GETs with a fixed pipeline: requests, latency, the server's own CPU time and memory.",
	tools: []bench.Tool{{Command: "redis-server", Package: "redis-server", With: func(p bench.Params) bool { return p["binary"] == "" }}},
	params: []bench.Param{
		{Name: "io-threads", Default: "1", Doc: "Threads that read and write for the connections (Redis 6 and later); all commands run in one thread."},
		{Name: "binary", Path: true, Subject: true, Doc: "A redis-server on the harness's machine, copied into the environment and used instead of the installed one. Environments may use different programs."},
		redisLoad,
	},
	pipeline: "8", protocol: "resp", command: "GET key:{key}", stats: "redis",
	entry: 88, fill: 250_000,
	requests: []string{"total_commands_processed"}, memory: "used_memory",
	cpu:      []string{"used_cpu_user", "used_cpu_sys"},
	hitRatio: serverHits, hits: "keyspace_hits", misses: "keyspace_misses", lost: "evicted_keys",
	start: func(p bench.Params, set dataSet) (host.Cmd, []bench.File, error) {
		threads, err := p.Int("io-threads", 1)
		if err != nil {
			return host.Cmd{}, nil, err
		}
		program, files := "redis-server", []bench.File(nil)
		if p["binary"] != "" {
			program = path.Base(p["binary"])
			files = []bench.File{{Name: program, From: p["binary"], Exec: true}}
			program = "{work}/" + program
		}
		return host.Cmd{Dir: "{work}", Argv: []string{program, "--port", "{port}", "--bind", "{host}", "--protected-mode", "no", "--dir", "{work}",
			"--save", "", "--appendonly", "no", "--databases", "1", "--io-threads", strconv.FormatInt(threads, 10),
			"--maxclients", strconv.FormatInt(set.connections+spare, 10), "--tcp-backlog", "1024"}}, files, nil
	},
}

// spare connections are for filling and statistics.
const spare = 64
