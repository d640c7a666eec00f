package workloads

import (
	_ "embed"
	"strconv"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/host"
)

//go:embed postgres.sh
var postgresScript []byte

var postgres = postgresServer.workload()

// postgresServer has a process for each connection: what a TEE takes shows in
// switches between them and in the memory that they share.
var postgresServer = dataServer{
	name:     "postgres",
	doc:      "PostgreSQL with one table, under simple queries for one random row by its key: requests, latency, share of pages found in its buffers.",
	tools:    []bench.Tool{{Command: "postgres", Package: "postgresql", Outside: "/usr/lib/postgresql/*/bin/postgres"}},
	params:   []bench.Param{{Name: "buffers", Default: "256MiB", Doc: "Shared memory for pages (shared_buffers)."}},
	pipeline: "1", protocol: "postgres", stats: "postgres",
	command: "SELECT value FROM data WHERE key = {key} AND length(value) = {bytes}", answers: ", 1 rows",
	entry:    60,
	requests: []string{"xact_commit"},
	hitRatio: serverPages, hits: "blks_hit", misses: "blks_read",
	joining: 1, // a backend's start is a transaction
	start: func(p bench.Params, set dataSet) (host.Cmd, []bench.File, error) {
		buffers, err := p.Bytes("buffers")
		if err != nil {
			return host.Cmd{}, nil, err
		}
		const kib = 1 << 10
		return host.Cmd{Dir: "{work}", Argv: []string{"sh", "{work}/postgres.sh", "{work}", "{data}", "{host}", "{port}",
				strconv.FormatInt(set.keys, 10), strconv.FormatInt(set.value, 10), strconv.FormatInt(set.connections+spare, 10), strconv.FormatInt(max(buffers/kib, 128), 10) + "kB"}},
			[]bench.File{{Name: "postgres.sh", Data: postgresScript, Exec: true}}, nil
	},
	processes: []string{"postgres"},
}
