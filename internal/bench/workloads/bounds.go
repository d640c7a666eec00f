package workloads

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/load"
)

// most are the largest values of parameters that are counts or sizes, wherever a workload has one
// of that name; some workloads have lower limits of their own. They are far above what anyone
// measures: what they refuse is a mistyped number, which would otherwise use all memory, or run
// all day, before it fails.
var most = map[string]int64{
	"connections": load.MostConnections, "pipeline": load.MostPipeline, "client-cores": mostCPUs,
	"threads": mostThreads, "io-threads": mostThreads, "parallel": mostCPUs,
	"clients": mostClients, "strong-total": load.MostMessages, "weak-per-client": load.MostMessages,
	"processes": load.MostForeign, "requests": 100_000_000,
	"keys":  100_000_000, // for more data, use larger values
	"reads": 1_000_000, "turns": 1_000_000, "rounds": 1_000_000, "pause": 1_000_000,
	"warm":    load.MostMessages, // where it is a number
	"iodepth": 1 << 16, "numjobs": mostThreads, "rwmixread": 100,
	"passes": 1000, "operations": 100_000_000,
	"proofs": 1000, "bytes": 1 << 14,
	"n": mostFibonacci, "shard": mostShard,
	"users": load.MostChats, "input": load.MostLength, "output": load.MostLength, "shared": load.MostLength,
	"repeats": 1_000_000, "layers": 1000, "width": 1 << 14, "batch": 10_000, "seed": 1_000_000,
	"size": mostBytes, "touch": mostBytes, "cache": mostBytes, "buffers": mostBytes,
	"bs": mostBytes, "offset-increment": mostBytes, "working-set": mostBytes, "epc": mostBytes,
}

// What machines have, generously.
const (
	mostCPUs    = 1 << 10
	mostClients = 10_000 // each a thread of the server
	mostThreads = 1 << 12
	mostBytes   = 16 << 40
)

// bounded makes workloads refuse values above these bounds before anything else.
func bounded(all ...*bench.Workload) []*bench.Workload {
	out := make([]*bench.Workload, len(all))
	for i, w := range all {
		b := *w
		b.Job = func(p bench.Params) (bench.Job, error) {
			if err := inBounds(w.Params, p); err != nil {
				return bench.Job{}, err
			}
			return w.Job(p)
		}
		out[i] = &b
	}
	return out
}

// inBounds checks numbers and sizes; Job reports what else is wrong.
func inBounds(declared []bench.Param, p bench.Params) error {
	for _, d := range declared {
		limit, ok := most[d.Name]
		if !ok || d.Text {
			continue
		}
		v, err := strconv.ParseInt(p[d.Name], 10, 64)
		if err != nil && !errors.Is(err, strconv.ErrRange) { // ParseInt returns the nearest value for one out of range
			v, err = p.Bytes(d.Name)
			if err != nil {
				continue
			}
		}
		if v > limit {
			return fmt.Errorf("parameter %s=%s: want at most %d", d.Name, p[d.Name], limit)
		}
	}
	return nil
}
