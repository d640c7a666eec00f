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

// postgresServer has a process for each connection: the cost of a TEE shows in switches between
// them and in the memory that they share.
var postgresServer = dataServer{
	name:     "postgres",
	doc:      "PostgreSQL with one table, under simple queries for one random row by its key: requests, latency, share of pages found in the server's buffers.",
	tools:    []bench.Tool{{Command: "postgres", Package: "postgresql", Outside: "/usr/lib/postgresql/*/bin/postgres"}},
	params:   []bench.Param{{Name: "buffers", Default: "256MiB", Doc: "Shared memory for pages (shared_buffers)."}, postgresLoad},
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
	// What the script calls, and initdb: a shell at its usual place, and what a cluster is
	// made of. The compiler of expressions (llvmjit.so) is left out: it has 100 MB of
	// libraries and is not used for queries as simple as these.
	programs: []string{"id", "chmod", "chown", "cp", "mv", "rm", "setpriv", "/bin/sh", "/usr/lib/postgresql/*/bin/initdb", "/usr/lib/postgresql/*/bin/postgres",
		"/usr/lib/postgresql/*/lib/*_and_*.so", "/usr/lib/postgresql/*/lib/euc2004_sjis2004.so", "/usr/lib/postgresql/*/lib/dict_snowball.so", "/usr/lib/postgresql/*/lib/plpgsql.so",
		"/usr/share/postgresql/*/*.*", "/usr/share/postgresql/*/extension", "/usr/share/postgresql/*/timezonesets", "/usr/share/postgresql/*/tsearch_data"},
}
