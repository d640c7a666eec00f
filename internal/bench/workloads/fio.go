package workloads

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
)

// way is one direction of input and output, with its metrics.
type way struct {
	name                     string
	rate, bandwidth, latency *metric.Desc
	percentiles              []fioPercentile
}

// fioPercentile is a percentile of the completion latency.
type fioPercentile struct {
	desc *metric.Desc
	rank float64 // 99.9
}

func fioWay(name string) *way {
	w := &way{name: name,
		rate: &metric.Desc{Name: name + "_operations_per_second", Unit: "operations_per_second", Kind: metric.Gauge, Better: metric.Higher,
			Help: "Completed " + name + " operations per second, as fio counts them after the ramp."},
		bandwidth: &metric.Desc{Name: name + "_bytes_per_second", Unit: "bytes_per_second", Kind: metric.Gauge, Better: metric.Higher,
			Help: "Bytes transferred by " + name + " operations per second, as fio counts them after the ramp."},
		latency: &metric.Desc{Name: name + "_latency_seconds", Unit: "seconds", Kind: metric.Histogram, Better: metric.Lower,
			Help: "Mean time from the submission of a " + name + " operation to its completion (fio's clat), in seconds."},
	}
	for _, p := range []struct {
		short string
		rank  float64
	}{{"p50", 50}, {"p99", 99}, {"p999", 99.9}} {
		w.percentiles = append(w.percentiles, fioPercentile{rank: p.rank, desc: &metric.Desc{Name: name + "_latency_" + p.short + "_seconds",
			Unit: "seconds", Kind: metric.Gauge, Better: metric.Lower,
			Help: fmt.Sprintf("The time within which %g %% of the %s operations complete (fio's clat), in seconds.", p.rank, name)}})
	}
	return w
}

var (
	fioReads, fioWrites = fioWay("read"), fioWay("write")

	fioRate = &metric.Desc{Name: "operations_per_second", Unit: "operations_per_second", Kind: metric.Gauge, Better: metric.Higher,
		Help: "Completed operations of both directions per second, as fio counts them after the ramp."}
	fioOperations = &metric.Desc{Name: "operations_total", Unit: "operations", Kind: metric.Counter,
		Help: "Operations of the whole run, including the ramp."}
	fioCPUUser = &metric.Desc{Name: "cpu_user_ratio", Unit: "ratio", Kind: metric.Gauge, Better: metric.Lower,
		Help: "CPU time in user mode of a job divided by its wall time, mean of the jobs, as fio reports it."}
	fioCPUSystem = &metric.Desc{Name: "cpu_system_ratio", Unit: "ratio", Kind: metric.Gauge, Better: metric.Lower,
		Help: "CPU time in the kernel of a job divided by its wall time, mean of the jobs, as fio reports it; work of kernel threads (encryption) is not included."}
	fioCPUOperation = &metric.Desc{Name: "cpu_per_operation_seconds", Unit: "seconds", Kind: metric.Gauge, Better: metric.Lower,
		Help: "CPU time of fio's jobs per operation, in seconds."}
	fioBlockLayer = quotient(&metric.Desc{Name: "block_layer_ratio", Unit: "ratio", Kind: metric.Gauge, Better: metric.Higher,
		Help: "Requests that the disk's block layer saw (with merged ones) divided by the operations that fio made: " +
			"far below 1, a cache answered; above 1, requests were split or other programs used the disk. " +
			"fio reads the disk's counters every 250 ms and misses the requests after the last reading: a few percent of a run of some seconds."})
	fioPageCache = &metric.Desc{Name: "page_cache_bytes", Unit: "bytes", Kind: metric.Gauge, Better: metric.Lower,
		Help: "Page cache left after dropping it, just before the measurement (Cached in /proc/meminfo, inside the environment)."}
)

// ways are the directions of an access pattern.
func ways(rw string) []*way {
	switch rw {
	case "read", "randread":
		return []*way{fioReads}
	case "write", "randwrite":
		return []*way{fioWrites}
	}
	return []*way{fioReads, fioWrites}
}

// steadyOff is the value of parameter steady with which runtime alone decides.
const steadyOff = "off"

// fioCold drops the page cache in the job's own first step, after the file was laid out. fio
// redirects only the last command's output to a file; the grep before it prints to standard
// output, where the parser finds it.
const fioCold = "sync && echo 3 > /proc/sys/vm/drop_caches && grep ^Cached: /proc/meminfo; :"

// fio measures a file system or disk. direct=1 bypasses the page cache of the machine that fio
// runs on, and only that: a host may still cache a guest's disk, which block_layer_ratio and a
// file larger than memory reveal.
//
// The default of steady is a slope of 2 % a second over 5 s: 10 % over the window,
// as in the SNIA Solid State Storage Performance Test Specification.
//
// The file is laid out in full before the first run and overwritten afterwards, so no run pays
// for the allocation of blocks. Offsets are not repeated from run to run, so no cache below
// learns them.
var fio = bench.Workload{
	Name: "fio",
	Doc: "Reads and writes of a file in {data} by fio: operations, bandwidth and latency, steady state by fio, " +
		"and counters of the block layer, which show whether the disk or a cache answered.",
	Version: 1,
	Params: []bench.Param{
		{Name: "rw", Default: "randread", Values: []string{"read", "write", "randread", "randwrite", "rw", "randrw"}, Doc: "Access pattern."},
		{Name: "bs", Default: "4KiB", Doc: "Size of an operation."},
		{Name: "iodepth", Default: "1", Doc: "Operations in flight per job; psync always has one."},
		{Name: "numjobs", Default: "1", Doc: "Number of parallel jobs (threads), all on the same file."},
		{Name: "size", Default: "1GiB", Doc: "Size of the file."},
		{Name: "runtime", Default: "30s", Doc: "Maximum measurement time after the ramp; a steady state ends it earlier."},
		{Name: "ramp", Default: "2s", Doc: "Duration of the same work before the measurement, in a separate job; 0s means none."},
		{Name: "steady", Default: "iops_slope:2%", Doc: "Criterion of fio's steadystate option that ends the run early; off measures for the whole runtime."},
		{Name: "steady-window", Default: "5s", Doc: "Time for which the criterion of the parameter steady must hold."},
		{Name: "direct", Default: "1", Values: []string{"0", "1"}, Subject: true, Doc: "1 bypasses the page cache of the machine that fio runs on (O_DIRECT); 0 uses the page cache."},
		{Name: "cold", Default: "false", Values: []string{"false", "true"}, Subject: true, Doc: "Page cache inside the environment. true: dropped before each run, which needs root in the environment. false: left as it is."},
		{Name: "ioengine", Default: "libaio", Values: []string{"libaio", "io_uring", "psync"}, Doc: "How operations are submitted."},
		{Name: "rwmixread", Default: "50", Doc: "Share of reads in a mixed pattern, in percent."},
		{Name: "offset-increment", Default: "0", Doc: "Distance between the offsets at which the jobs begin in the file; 0: all jobs begin at the start of the file."},
		{Name: "cpus", Doc: "CPUs that fio's jobs may use, as a list like 0,2-3. Empty: no restriction."},
		{Name: "gtod-reduce", Default: "false", Values: []string{"false", "true"}, Doc: "Clock readings of fio. true: fewer readings, so latencies and CPU use are not measured. false: all readings."},
		{Name: "verify", Default: "off", Values: []string{"off", "crc32c"}, Doc: "Check of the data. off: no check. crc32c: the file is written once, read back and compared with checksums; the parameters runtime, ramp and steady then do not apply."},
	},
	Metrics:    fioMetrics,
	Primary:    func(bench.Params) *metric.Desc { return fioRate },
	Operations: fioOperations,
	Sweep:      map[string][]string{"rw": {"randread", "randwrite"}},
	Tools:      []bench.Tool{{Command: "fio", Package: "fio"}},
	Estimate:   fioEstimate,
	Job: func(p bench.Params) (bench.Job, error) {
		o, err := fioOptions(p)
		if err != nil {
			return bench.Job{}, err
		}
		argv := []string{"fio", "--output-format=json+", "--eta=never", "--filename={data}/fio"}
		add := func(options [][2]string) {
			for _, kv := range options {
				argv = append(argv, "--"+kv[0]+"="+kv[1])
			}
		}
		add(o.common)
		if o.ramp != nil {
			argv = append(argv, "--name="+fioRamp)
			add(o.ramp)
		}
		argv = append(argv, "--name="+fioMain)
		add(o.main)
		// With cold=true, fio writes a file of its own into the folder where it was started.
		return bench.Job{Inside: host.Cmd{Argv: argv, Dir: "{work}"}}, nil
	},
	Parse:  parseFio,
	Series: fioSeries,
	Check:  checkFio,
}

func fioMetrics(p bench.Params) []*metric.Desc {
	out := []*metric.Desc{fioRate}
	for _, w := range ways(p["rw"]) {
		out = append(out, w.rate, w.bandwidth)
		if p["gtod-reduce"] != "true" {
			out = append(out, w.latency)
			for _, q := range w.percentiles {
				out = append(out, q.desc)
			}
		}
	}
	if p["gtod-reduce"] != "true" {
		out = append(out, fioCPUUser, fioCPUSystem, fioCPUOperation)
	}
	out = append(out, fioOperations, fioBlockLayer)
	if p["cold"] == "true" {
		out = append(out, fioPageCache)
	}
	return out
}

// fioEstimate is the longest time of a run, with half a second to start, and the size of the
// file, which is laid out once per environment.
func fioEstimate(p bench.Params) (time.Duration, int64) {
	runtime, _ := p.Seconds("runtime")
	ramp, _ := p.Seconds("ramp")
	size, _ := p.Bytes("size")
	jobs, _ := p.Int("numjobs", 1)
	step, _ := p.Bytes("offset-increment")
	return ramp + runtime + 500*time.Millisecond, size + max(0, jobs-1)*step
}

// Names of fio's jobs. The ramp is a job of its own instead of fio's ramp_time, so its operations
// are counted: the disk's counters include them.
const fioRamp, fioMain = "ramp", "teescope"

// fioJobs are fio options as name and value: of all jobs, of the ramp (nil: none) and of the
// measurement.
type fioJobs struct{ common, ramp, main [][2]string }

// fioOptions are the options that make the job, in numbers that every version of fio reads alike
// (its suffixes depend on kb_base), and that fio repeats in its output, where Check looks for
// them.
func fioOptions(p bench.Params) (fioJobs, error) {
	var errs []error
	var ramp, main [][2]string
	number := func(v int64, err error) string {
		errs = append(errs, err)
		return strconv.FormatInt(v, 10)
	}
	seconds := func(name string) string {
		d, err := p.Seconds(name)
		errs = append(errs, err)
		return strconv.FormatInt(d.Milliseconds(), 10) + "ms"
	}
	out := [][2]string{
		{"rw", p["rw"]},
		{"bs", number(p.Bytes("bs"))},
		{"iodepth", number(p.Int("iodepth", 1))},
		{"numjobs", number(p.Int("numjobs", 1))},
		{"size", number(p.Bytes("size"))},
		{"direct", p["direct"]},
		{"ioengine", p["ioengine"]},
		{"thread", "1"}, {"group_reporting", "1"}, {"overwrite", "1"}, {"randrepeat", "0"},
		{"percentile_list", "50:99:99.9"},
	}
	add := func(k, v string) { out = append(out, [2]string{k, v}) }
	if p["rw"] == "rw" || p["rw"] == "randrw" {
		share := number(p.Int("rwmixread", 1))
		if n, _ := strconv.Atoi(share); n > 99 {
			errs = append(errs, fmt.Errorf("parameter rwmixread=%s: want 1 to 99; for reads or writes alone, change the parameter rw", p["rwmixread"]))
		}
		add("rwmixread", share)
	}
	if p["offset-increment"] != "0" {
		add("offset_increment", number(p.Bytes("offset-increment")))
	}
	if p["cpus"] != "" {
		add("cpus_allowed", p["cpus"])
	}
	if p["gtod-reduce"] == "true" {
		add("gtod_reduce", "1")
	}
	if p["cold"] == "true" {
		main = append(main, [2]string{"exec_prerun", fioCold})
	} else {
		add("invalidate", "0") // fio's default drops the file's pages, even if a warm cache is wanted
	}
	if p["verify"] != "off" {
		add("verify", p["verify"])
		errs = append(errs, verifiable(p))
	} else {
		add("time_based", "1")
		if d, err := time.ParseDuration(p["ramp"]); err != nil || d != 0 {
			ramp = [][2]string{{"runtime", seconds("ramp")}}
			main = append(main, [2]string{"stonewall", "1"}) // after the ramp, not at the same time
		}
		main = append(main, [2]string{"runtime", seconds("runtime")})
		if p["steady"] != steadyOff {
			if !slices.Contains([]string{"iops", "iops_slope", "bw", "bw_slope"}, strings.SplitN(p["steady"], ":", 2)[0]) {
				errs = append(errs, fmt.Errorf("parameter steady=%q: want %s or a criterion of fio like iops_slope:2%%", p["steady"], steadyOff))
			}
			main = append(main, [2]string{"steadystate", p["steady"]}, [2]string{"steadystate_duration", seconds("steady-window")})
		}
	}
	if p["ioengine"] == "psync" && p["iodepth"] != "1" {
		errs = append(errs, fmt.Errorf("parameter iodepth=%s: ioengine psync has one operation in flight; use libaio or io_uring, or more numjobs", p["iodepth"]))
	}
	return fioJobs{out, ramp, main}, errors.Join(errs...)
}

// verifiable refuses a checked run that has more than one writer, or reads.
func verifiable(p bench.Params) error {
	if len(ways(p["rw"])) != 1 || ways(p["rw"])[0] != fioWrites || p["numjobs"] != "1" || p["gtod-reduce"] == "true" {
		return errors.New("parameter verify: a checked run needs rw=write or randwrite, numjobs=1 and gtod-reduce=false")
	}
	return nil
}
