package workloads

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/load"
	"github.com/teescope/teescope/internal/metric"
)

// dataServer is a server that holds values under keys; each request reads one random key. It
// starts anew for each run and has its data before the clock starts, so all runs begin alike.
type dataServer struct {
	name, doc string
	tools     []bench.Tool
	// params are the server's own; pipeline is the default number of requests in flight on a
	// connection.
	params   []bench.Param
	pipeline string
	// protocol, command and stats are the load generator's flags of these names;
	// {bytes} in the command is the size of a value.
	protocol, command, stats string
	// entry is roughly the memory of a key without its value, in bytes.
	entry int64
	// fill is roughly the number of keys that the load generator can write in a second; 0: start
	// creates the data.
	fill int64
	// requests are the statistics whose sum is the number of requests answered; memory is the
	// bytes held, cpu the CPU time in seconds, lost the number of evicted keys. "": it has no
	// such statistic.
	requests     []string
	memory, lost string
	cpu          []string
	// forgetful reports whether the server of these parameters does not count its memory; nil means
	// that all do.
	forgetful func(bench.Params) bool
	// hitRatio is hits divided by hits and misses; if it counts keys, none may be missing.
	hitRatio     *metric.Desc
	hits, misses string
	// answers is the end of the load generator's digest if all answers were right.
	answers string
	// joining is how many requests the server counts for each connection that the load makes.
	joining int
	// says is bench.Workload's Server, where several servers speak the protocol.
	says func(bench.Outcome) string
	// start returns the server's command and its files.
	start func(bench.Params, dataSet) (host.Cmd, []bench.File, error)
	// processes are the names of the server's processes, if not that of start's command.
	processes []string
	// programs are those that start's command needs, as in bench.Job.
	programs []string
}

// dataSet is what a server is filled with, and the number of its connections.
type dataSet struct {
	keys, value int64 // number of keys, and bytes of each value
	bytes       int64 // roughly the memory that the server needs for it
	connections int64
}

// The server's own statistics over the measured requests; for a server that updates them late,
// over the warm-up too.
var (
	serverRequests = &metric.Desc{Name: "server_requests_total", Unit: "requests", Kind: metric.Counter,
		Help: "Requests as the server counts them, between two readings of the server's counters; for PostgreSQL this includes the warm-up."}
	serverMemory = loadGauge("server_memory_bytes", "bytes", metric.Lower, "Memory of the server at the end, by the server's own count: memory of the data, for Redis also of the connection buffers.")
	serverCPU    = loadGauge("server_cpu_per_request_seconds", "seconds", metric.Lower, "CPU time of the server per request, as the server counts both, in seconds.")
	serverHits   = loadGauge("server_hit_ratio", "ratio", metric.Higher, "Share of the requested keys that the server had.")
	serverPages  = loadGauge("server_buffer_hit_ratio", "ratio", metric.Higher, "Share of the pages that the server found in its own buffers, without asking the kernel.")
)

func (s *dataServer) workload() bench.Workload {
	return bench.Workload{
		Name: s.name, Doc: s.doc, Version: 1,
		Params: s.allParams(), Tools: slices.Concat(generatorTools, s.tools),
		Sweep: map[string][]string{"connections": {"8", "320", "560"}},
		Quick: map[string]string{"connections": "8", "measure": quickMeasure, "keys": "20000"},
		Metrics: func(p bench.Params) []*metric.Desc {
			out := append(loadMetrics(p), serverRequests)
			if s.counted(p) {
				out = append(out, serverMemory)
			}
			if s.cpu != nil {
				out = append(out, serverCPU)
			}
			if s.hitRatio != nil {
				out = append(out, s.hitRatio)
			}
			return out
		},
		Primary: loadPrimary, Operations: loadRequests,
		Estimate: func(p bench.Params) (time.Duration, int64) {
			d, disk := loadEstimate(p)
			if set, err := s.dataSet(p); err == nil && s.fill > 0 { // else Job reports what is wrong
				d += time.Duration(float64(set.keys) / float64(s.fill) * float64(time.Second))
			}
			return d, disk
		},
		Job: s.job, Parse: s.parse, Series: loadSeries, Failures: loadFailures, Check: s.check, Server: s.says,
	}
}

// counted reports whether the server counts its memory.
func (s *dataServer) counted(p bench.Params) bool {
	return s.memory != "" && (s.forgetful == nil || !s.forgetful(p))
}

func (s *dataServer) allParams() []bench.Param {
	out := loadParams("8")
	if i := slices.IndexFunc(out, func(p bench.Param) bool { return p.Name == "pipeline" }); i >= 0 {
		out[i].Default = s.pipeline
	}
	return append(append(out,
		bench.Param{Name: "keys", Default: "720000", Doc: "Number of keys loaded into the server."},
		bench.Param{Name: "value", Default: "32", Doc: "Bytes of each value."},
		bench.Param{Name: "working-set", Doc: "Approximate size of the data in the server's memory, instead of keys: for example 105MiB, or 150% of the parameter epc. The server reports the actual size."},
		bench.Param{Name: "epc", Doc: "Size of the enclave page cache, like 93MiB; a working-set in percent refers to it. `teescope doctor` shows the size on this machine."},
	), s.params...)
}

// dataSet computes what the server is filled with.
func (s *dataServer) dataSet(p bench.Params) (dataSet, error) {
	var set dataSet
	var err error
	if set.connections, err = p.Int("connections", 1); err != nil {
		return set, err
	}
	if set.value, err = p.Int("value", 1); err != nil {
		return set, err
	}
	if set.keys, err = p.Int("keys", 1); err != nil {
		return set, err
	}
	if p["working-set"] != "" {
		size, err := workingSet(p)
		if err != nil {
			return set, err
		}
		if set.keys = size / (set.value + s.entry); set.keys < 1 {
			return set, fmt.Errorf("parameter working-set=%s is too small for one value of %d bytes", p["working-set"], set.value)
		}
	}
	const mostValue = 16 << 20
	if set.keys > load.MostKeys || set.value > mostValue {
		return set, fmt.Errorf("%d keys with values of %d bytes: want at most %d keys, with values of at most %d bytes", set.keys, set.value, load.MostKeys, mostValue)
	}
	set.bytes = set.keys * (set.value + s.entry)
	return set, nil
}

// workingSet is the parameter's size in bytes, given as such or as a share of the enclave page
// cache.
func workingSet(p bench.Params) (int64, error) {
	share, relative := strings.CutSuffix(p["working-set"], "%")
	if !relative {
		return p.Bytes("working-set")
	}
	percent, err := metric.ParseNumber(share)
	if err != nil || percent <= 0 || percent > 1e6 {
		return 0, fmt.Errorf("parameter working-set=%q: want a size like 105MiB, or a share of the enclave page cache like 150%%", p["working-set"])
	}
	if p["epc"] == "" {
		return 0, fmt.Errorf("parameter working-set=%s is relative to the enclave page cache: give the size of the enclave page cache, as in epc=93MiB", p["working-set"])
	}
	epc, err := p.Bytes("epc")
	return int64(percent / 100 * float64(epc)), err
}

func (s *dataServer) job(p bench.Params) (bench.Job, error) {
	set, err := s.dataSet(p)
	if err != nil {
		return bench.Job{}, err
	}
	inside, files, err := s.start(p, set)
	if err != nil {
		return bench.Job{}, err
	}
	bytes := strconv.FormatInt(set.value, 10)
	flags := []string{"--protocol", s.protocol, "--command", strings.ReplaceAll(s.command, "{bytes}", bytes), "--stats", s.stats,
		"--keys", strconv.FormatInt(set.keys, 10), "--value-size", bytes}
	if s.fill > 0 { // else the server creates its data before it answers
		flags = append(flags, "--populate")
	}
	outside, err := loadOutside(p, flags...)
	if err != nil {
		return bench.Job{}, err
	}
	return bench.Job{Inside: inside, Outside: outside, Files: append(files, loadFiles...), Window: loadWindow, Waits: loadWaits, Processes: s.processes, Programs: s.programs}, nil
}

// serverVersion is the version that the server gave to the load generator.
func serverVersion(o bench.Outcome) string {
	r, err := readLoad(o)
	if err != nil {
		return "" // Parse reports it
	}
	return r.Versions["version"]
}

// sumOfStatistics is the sum of statistics of the server; NaN unless it reports all of them.
func sumOfStatistics(r *load.Report, names ...string) float64 {
	sum := 0.0
	for _, name := range names {
		v, ok := r.Server[name]
		if !ok {
			return math.NaN()
		}
		sum += v
	}
	return sum
}

func (s *dataServer) parse(o bench.Outcome) ([]metric.Sample, error) {
	r, err := readLoad(o)
	if err != nil {
		return nil, err
	}
	var found reading
	found.load(r, o)
	silent := func(names ...string) string { return "the server does not report " + strings.Join(names, " and ") }
	requests := sumOfStatistics(r, s.requests...)
	found.value(serverRequests, requests, silent(s.requests...))
	if s.counted(o.Params) {
		found.value(serverMemory, sumOfStatistics(r, s.memory), silent(s.memory))
	}
	if s.cpu != nil {
		used, why := sumOfStatistics(r, s.cpu...), silent(append(s.cpu, s.requests...)...)+", or reports impossible values"
		if math.IsNaN(used) {
			why = silent(s.cpu...)
		} else if used <= 0 { // as in a library OS that keeps no account
			used, why = math.NaN(), "the server reports no CPU time, because the kernel or library OS below the server does not count CPU time"
		}
		found.derived(serverCPU, used/requests, why)
	}
	if s.hitRatio != nil {
		hits := sumOfStatistics(r, s.hits)
		found.derived(s.hitRatio, hits/(hits+sumOfStatistics(r, s.misses)), silent(s.hits, s.misses))
	}
	return found.samples, errors.Join(found.missing...)
}

// check verifies, in addition to the load's own check, that the server had the data and that
// it counted the requests which the load generator counted.
func (s *dataServer) check(o bench.Outcome) (string, error) {
	set, err := s.dataSet(o.Params)
	if err != nil {
		return "", err
	}
	sum, err := checkLoad(o, s.name, strconv.FormatInt(set.keys, 10), strconv.FormatInt(set.value, 10))
	if err != nil {
		return "", err
	}
	r, err := readLoad(o)
	if err != nil {
		return "", err
	}
	if n := sumOfStatistics(r, s.misses); s.hitRatio == serverHits && n > 0 {
		return "", fmt.Errorf("the server did not have %.0f of the requested keys", n)
	}
	if !strings.HasSuffix(r.Digest, s.answers) {
		return "", fmt.Errorf("the answers were %q, want a text that ends with %q", r.Digest, s.answers)
	}
	if n := sumOfStatistics(r, s.lost); s.lost != "" && n > 0 {
		return "", fmt.Errorf("the server evicted %.0f of its keys because it ran out of memory", n)
	}
	if err := checkServed(r, o.Params, sumOfStatistics(r, s.requests...)-float64(s.joining*r.Connections)); err != nil {
		return "", err
	}
	return sum, nil
}
