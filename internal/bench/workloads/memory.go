package workloads

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/metric"
)

var (
	bandwidth = &metric.Desc{Name: "bandwidth_bytes_per_second", Unit: "bytes_per_second", Kind: metric.Gauge, Better: metric.Higher,
		Help: "Bytes read, written or copied per second, by one thread with 16-byte instructions on the harness's clock; a copied byte counts once."}
	accessSeconds = &metric.Desc{Name: "access_seconds", Unit: "seconds", Kind: metric.Gauge, Better: metric.Lower,
		Help: "Time of one load whose address is the result of the previous load, in seconds on the harness's clock."}
	cacheLines = &metric.Desc{Name: "lines_total", Unit: "lines", Kind: metric.Counter,
		Help: "Cache lines of 64 bytes read, written, copied or visited in the timed windows."}
)

// lineBytes is the size of the worker's blocks and nodes.
const lineBytes = 64

// memoryCost measures the memory under a working set. Sizes step from the first-level cache to
// beyond any last-level cache; encrypted memory costs only beyond it, and SGX's paging beyond the
// EPC, which the parameter size can reach. Pages are as the environment provides them;
// transparent huge pages change the latency of large sets.
var memoryCost = bench.Workload{
	Name:    "memory",
	Doc:     "Memory bandwidth, and latency of dependent loads, for working sets from the first-level cache to larger than the last-level cache.",
	Version: 1,
	Params: append([]bench.Param{
		{Name: "access", Default: "latency", Values: []string{"read", "write", "copy", "latency"},
			Doc: "Access to the working set. read, write and copy go from end to end. latency follows pointers through all cache lines, in a random order that is the same in every run."},
		{Name: "size", Default: "64MiB", Doc: "Size of the working set, a multiple of 128 bytes; a copy uses half of the working set as source and half as target."},
	}, windowParams("50ms", "100ms")...),
	Metrics: func(p bench.Params) []*metric.Desc {
		return []*metric.Desc{memoryPrimary(p), clockDisagreement, cacheLines}
	},
	Primary:    memoryPrimary,
	Operations: cacheLines,
	Sweep: map[string][]string{
		"size": {"16KiB", "256KiB", "4MiB", "64MiB", "256MiB"},
	},
	Estimate: func(p bench.Params) (time.Duration, int64) {
		size, _ := p.Bytes("size")
		// Building the pointer cycle is one random access per line, following it once is another.
		return windowTime(p) + time.Duration(min(size/lineBytes, 1<<40))*200*time.Nanosecond, 0
	},
	Job: func(p bench.Params) (bench.Job, error) {
		size, err := memorySize(p)
		if err != nil {
			return bench.Job{}, err
		}
		args, err := windowArgs(p)
		if err != nil {
			return bench.Job{}, err
		}
		return microJob(append([]string{"memory", p["access"], fmt.Sprint(size)}, args...)...)
	},
	Parse: func(o bench.Outcome) ([]metric.Sample, error) {
		r, err := readWindows(o.Inside)
		if err != nil {
			return nil, err
		}
		return []metric.Sample{
			{Desc: memoryPrimary(o.Params), Value: memoryValue(o.Params, r.cost(part.byHarness))},
			r.disagreement(),
			{Desc: cacheLines, Value: float64(r.operations) * memoryLines(o.Params)},
		}, nil
	},
	Series: windowSeries(memoryValue),
	Check: func(o bench.Outcome) (string, error) {
		r, err := readWindows(o.Inside)
		if err != nil {
			return "", err
		}
		if err := r.check(o.Params); err != nil {
			return "", err
		}
		if len(r.others) != 1 {
			return "", errors.New("the worker reported no sum over the memory")
		}
		want, err := memorySum(o.Params)
		if err != nil {
			return "", err
		}
		if got, _ := strings.CutPrefix(r.others[0], "sum "); got != fmt.Sprint(want) {
			return "", fmt.Errorf("the worker's sum over the memory is %.40q, want %d", got, want)
		}
		return digest("memory", o.Params["access"], o.Params["size"], o.Params["windows"], o.Params["operations"]), nil
	},
}

func memoryPrimary(p bench.Params) *metric.Desc {
	if p["access"] == "latency" {
		return accessSeconds
	}
	return bandwidth
}

func memorySize(p bench.Params) (int64, error) {
	size, err := p.Bytes("size")
	if err == nil && size%(2*lineBytes) != 0 {
		err = fmt.Errorf("parameter size=%q: want a multiple of 128 bytes", p["size"])
	}
	return size, err
}

// memoryLines is the number of cache lines in an operation: a pass goes through
// the whole working set (or half, to the other half), a step of the chase to one line.
func memoryLines(p bench.Params) float64 {
	size, err := memorySize(p)
	switch {
	case p["access"] == "latency" || err != nil: // Job refuses a bad size
		return 1
	case p["access"] == "copy":
		size /= 2
	}
	return float64(size / lineBytes)
}

// memoryValue is the primary metric for the seconds of an operation.
func memoryValue(p bench.Params, cost float64) float64 {
	if p["access"] == "latency" {
		return cost
	}
	return memoryLines(p) * lineBytes / cost
}

// memorySum is the sum that the worker must report, modulo 2^64: of the words of its pattern,
// where word i is start + i*step, or of the numbers of all lines, each visited once.
func memorySum(p bench.Params) (uint64, error) {
	size, err := memorySize(p)
	if err != nil {
		return 0, err
	}
	n, step, start := uint64(size)/8, uint64(0x9e3779b97f4a7c15), uint64(0x2545f4914f6cdd1d)
	switch p["access"] {
	case "copy":
		n /= 2
	case "latency":
		n, step, start = uint64(size)/lineBytes, 1, 0
	}
	pairs := n / 2 * (n - 1) // n is even, except for a chase
	if n%2 == 1 {
		pairs = n * ((n - 1) / 2)
	}
	return step*pairs + start*n, nil
}
