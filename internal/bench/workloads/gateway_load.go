package workloads

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/load"
	"github.com/teescope/teescope/internal/metric"
)

// The figures of other load generators, combined as their users do, next to what can be observed
// from outside.
var (
	foreignRate = loadGauge("requests_per_second", "requests_per_second", metric.Higher,
		"Correctly answered requests of all processes, divided by the time from the first start to the last end, including starting and connecting.")
	foreignSaid = loadGauge("said_requests_per_second", "requests_per_second", metric.Higher,
		"Sum of the rates that the processes report. Each process divides by its own time, so the sum is above the true rate if the processes did not all run at the same time.")
	foreignTogether = loadGauge("together_ratio", "ratio", metric.Higher,
		"Share of the time from the first start to the last end in which all processes ran; in the rest of the time the load was smaller than stated.")
	foreignMean = loadGauge("said_mean_seconds", "seconds", metric.Lower,
		"Mean of the mean response times that the processes report. In a closed loop it equals the number of connections divided by the rate, so it adds no information to the rate.")
	foreignTail = loadGauge("said_p99_seconds", "seconds", metric.Lower,
		"Mean of the 99th percentiles that the processes report; with more than one process the result is not a true percentile.")
)

// gatewayLoad is the gateway under the user's load generator. Its figures are that
// program's own, for comparison with published ones; a single rate has no steady state to
// check.
var gatewayLoad = bench.Workload{
	Name: "gateway-load",
	Doc: "The workload gateway under any load generator (ab, wrk, h2load, hey) in one or more parallel processes: the sum of the load generators' own figures, " +
		"next to all requests divided by the total time.",
	Version: 1,
	Params: slices.Concat([]bench.Param{
		{Name: "load", Text: true, Doc: "The load generator's command, split into words as a shell does, with {host}:{port} for the gateway, and {requests} and {connections} for the parameters of these names: " +
			"ab -q -n {requests} -c {connections} https://{host}:{port}/64. The path is the size of the answer in bytes."},
		{Name: "processes", Default: "1", Doc: "Number of parallel processes."},
		{Name: "requests", Default: "5000", Doc: "Requests of each process; replaces {requests}."},
		{Name: "connections", Default: "200", Doc: "Connections of each process; replaces {connections}."},
		{Name: "answered", Text: true, Doc: "Regular expression (RE2; ^ and $ match at lines) whose first group is the number of answered requests in a process's standard output. " +
			"For ab, wrk, wrk2, h2load and hey, teescope knows this pattern and the following ones."},
		{Name: "failed", Text: true, Doc: "Regular expression as for answered, for the number of wrong answers. All groups of all matches are added up, and an empty group counts as 0: " +
			`for wrk, which prints nothing if nothing failed, ^\s+Non-2xx or 3xx responses: (\d+)|^Requests/sec:. "none" if the load generator does not print this number.`},
		{Name: "lost", Text: true, Doc: "Regular expression as for failed, for the number of requests without an answer (connection errors, timeouts), which are not among the answered requests: for wrk " +
			`^\s+Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)|^Requests/sec:.`},
		{Name: "rate", Text: true, Doc: "Regular expression as for answered, for the requests per second."},
		{Name: "mean", Text: true, Doc: "Regular expression as for answered, for the mean response time; the number may have a unit, as in 7.81ms."},
		{Name: "tail", Text: true, Doc: "Regular expression as for mean, for the 99th percentile of the response time."},
		{Name: "time-scale", Doc: "Factor that converts times without a unit to seconds. Empty: the factor of a known load generator, otherwise 1."},
		{Name: "expect", Text: true, Doc: "Regular expression as for answered. If the standard output of a process does not match the expression, the run is refused."},
		{Name: "client-cores", Default: "1", Doc: "Number of CPUs that one process can use fully; ab has one thread."},
		{Name: "estimate", Default: "20s", Doc: "Approximate duration of a run, for the plan."},
	}, gatewayParams),
	Metrics: func(p bench.Params) []*metric.Desc {
		return append([]*metric.Desc{foreignRate, foreignSaid, foreignTogether, foreignMean, foreignTail, loadErrors, loadCPU, loadRequests}, gatewayMetrics(p)...)
	},
	Primary:    func(bench.Params) *metric.Desc { return foreignRate },
	Operations: loadRequests,
	Tools:      slices.Concat(generatorTools, gatewayTools),
	Sweep:      map[string][]string{"connections": {"200", "500", "1000", "2000"}},
	Estimate: func(p bench.Params) (time.Duration, int64) {
		d, err := p.Seconds("estimate")
		if err != nil {
			return time.Second, 0 // Job reports what is wrong
		}
		return d, 0
	},
	Job:   gatewayLoadJob,
	Parse: parseGatewayLoad,
	Failures: func(o bench.Outcome) map[string]int {
		all, err := readForeign(o.Outside.Stdout, o.Params)
		if err != nil {
			return nil
		}
		out := map[string]int{}
		for kind, n := range map[string]float64{"failed": all.failed, "lost": all.lost} {
			if n > 0 {
				out[kind] = int(min(n, math.MaxInt32))
			}
		}
		return out
	},
	Check: checkGatewayLoad,
}

func gatewayLoadJob(p bench.Params) (bench.Job, error) {
	argv, err := words(p["load"])
	if err != nil {
		return bench.Job{}, fmt.Errorf("parameter load: %w", err)
	}
	if len(argv) == 0 {
		return bench.Job{}, errors.New("parameter load: want a load generator's command, as in ab -q -n {requests} -c {connections} https://{host}:{port}/64")
	}
	full, err := foreignParams(p, argv[0])
	if err != nil {
		return bench.Job{}, err
	}
	for _, name := range []string{"processes", "requests", "connections", "client-cores"} {
		if _, err := p.Int(name, 1); err != nil {
			return bench.Job{}, err
		}
	}
	if _, err := customPattern(p, "expect"); err != nil {
		return bench.Job{}, err
	}
	for _, v := range foreignPatterns {
		re, err := customPattern(full, v.name)
		switch {
		case err != nil:
			return bench.Job{}, err
		case full[v.name] == unprinted && v.needed && !v.summed:
			return bench.Job{}, fmt.Errorf("parameter %s=%s: this number is required, so give a pattern for it", v.name, unprinted)
		case full[v.name] != unprinted && re.NumSubexp() < 1:
			return bench.Job{}, fmt.Errorf("parameter %s=%q: want a group, as in answered: ([0-9]+)", v.name, p[v.name])
		}
	}
	if _, err := full.Number("time-scale", true); err != nil {
		return bench.Job{}, err
	}
	if _, err := p.Seconds("estimate"); err != nil {
		return bench.Job{}, err
	}
	fill := strings.NewReplacer("{requests}", p["requests"], "{connections}", p["connections"])
	for i := range argv {
		argv[i] = fill.Replace(argv[i])
	}
	command, err := json.Marshal(argv)
	if err != nil {
		return bench.Job{}, err
	}
	job, err := gatewayInside(p)
	job.Outside = &host.Cmd{Argv: []string{"{work}/teescope-work", "foreign", "--address", "{host}:{port}", "--stats", "counts", "--stats-address", pageAddress, "--hold",
		"--processes", p["processes"], "--cores", p["client-cores"], "--generator", string(command)}}
	job.Window, job.Waits = loadWindow, loadWaits
	return job, err
}

// foreignSays combines the figures of all processes; NaN if one of them lacks it, and lacks then says why.
type foreignSays struct {
	*load.Foreign
	answered, failed, lost, rate float64 // sums
	mean, tail                   float64 // means over the processes, in seconds
	lacks                        map[string]string
}

// readForeign reads the worker's document, which is all that it prints, and in it what
// each process printed. params has the parameter load, and patterns of the user's.
func readForeign(out []byte, params bench.Params) (*foreignSays, error) {
	said := &foreignSays{lacks: map[string]string{}}
	if err := readReport("load generators", out, &said.Foreign); err != nil {
		return nil, err
	}
	n := 0
	if said.Foreign != nil {
		n = len(said.Outputs)
	}
	if n == 0 || !(said.Seconds > 0) || said.Cores < 1 || said.Together < 0 || said.CPUSeconds < 0 {
		return nil, errors.New("report of the load generators: the outputs are missing, or a time is invalid")
	}
	argv, err := words(params["load"])
	if err != nil || len(argv) == 0 {
		return nil, fmt.Errorf("parameter load=%q is not a command", params["load"])
	}
	p, err := foreignParams(params, argv[0])
	if err != nil {
		return nil, err
	}
	program := generatorOf(argv[0])
	scale, err := p.Number("time-scale", true)
	if err != nil {
		return nil, err
	}
	into := map[string]*float64{"answered": &said.answered, "failed": &said.failed, "lost": &said.lost, "rate": &said.rate, "mean": &said.mean, "tail": &said.tail}
	for _, v := range foreignPatterns {
		sum := into[v.name]
		switch {
		case p[v.name] != unprinted:
		case v.summed:
			continue // it counts among the others
		default:
			*sum, said.lacks[v.name] = math.NaN(), "the load generator does not print this number"
			continue
		}
		known, per := p[v.name] != params[v.name], 1.0
		if v.name == "mean" || v.name == "tail" {
			per = scale
		}
		for i, text := range said.Outputs {
			one, err := foreignSum(p[v.name], text, v.summed || known && v.name == "answered", per)
			if err != nil {
				*sum, said.lacks[v.name] = math.NaN(), fmt.Sprintf("load generator %d does not print this number: %v", i+1, err)
				break
			}
			if known && v.name == "failed" {
				if err := program.doubt(text); err != nil {
					*sum, said.lacks[v.name] = math.NaN(), err.Error()
					break
				}
			}
			*sum += one
		}
	}
	said.mean /= float64(n)
	said.tail /= float64(n)
	return said, nil
}

// ownClock says why the load generators' own times are not used, "" if they are: as each divides by at most the whole
// time, a smaller sum of rates contradicts their counts.
func (s *foreignSays) ownClock() string {
	const rounded = 0.95
	if s.rate < rounded*s.answered/s.Seconds {
		return fmt.Sprintf("the load generators report %s in %s, and a rate of only %s: their clock is wrong",
			metric.Value(s.answered, "requests"), metric.Value(s.Seconds, "seconds"), metric.Value(s.rate, "requests_per_second"))
	}
	return ""
}

func parseGatewayLoad(o bench.Outcome) ([]metric.Sample, error) {
	all, err := readForeign(o.Outside.Stdout, o.Params)
	if err != nil {
		return nil, err
	}
	var found reading
	uncounted := cmp.Or(all.lacks["answered"], all.lacks["failed"], all.lacks["lost"])
	right := max(all.answered-all.failed, 0) // NaN if one of them is
	if right == 0 {
		found.lack(foreignRate, "no request was answered correctly")
	} else {
		found.derived(foreignRate, right/all.Seconds, uncounted)
	}
	found.foreignFigures(all, []*metric.Desc{foreignSaid, foreignMean, foreignTail})
	found.derived(foreignTogether, timeShare(all.Together/all.Seconds), "")
	found.derived(loadErrors, (all.failed+all.lost)/(all.answered+all.lost), cmp.Or(uncounted, "no request was made"))
	found.derived(loadCPU, timeShare(all.CPUSeconds/all.Seconds/float64(all.Cores)), "")
	found.value(loadRequests, right, uncounted)
	if math.IsNaN(right) {
		right = 0
	}
	found.gateway(&load.Report{Expected: uint64(right), Server: all.Server}, o.Params)
	return found.samples, errors.Join(found.missing...)
}

// checkGatewayLoad verifies that all processes made requests and that their outputs match. Only
// the load generator can check the answers themselves.
func checkGatewayLoad(o bench.Outcome) (string, error) {
	all, err := readForeign(o.Outside.Stdout, o.Params)
	if err != nil {
		return "", err
	}
	p := o.Params
	processes, err := p.Int("processes", 1)
	if err != nil {
		return "", err
	}
	if int64(len(all.Outputs)) != processes {
		return "", fmt.Errorf("%d load generators ran, want %d", len(all.Outputs), processes)
	}
	if !(all.answered > all.failed) || math.IsNaN(all.lost) {
		return "", fmt.Errorf("want requests that were answered correctly, but the load generators report %.0f answers and %.0f wrong ones: %s", all.answered, all.failed, cmp.Or(all.lacks["answered"], all.lacks["failed"], all.lacks["lost"], "no answer was right"))
	}
	expect, err := customPattern(p, "expect")
	if err != nil {
		return "", err
	}
	for i, text := range all.Outputs {
		if !expect.MatchString(text) {
			return "", fmt.Errorf("the output of load generator %d does not match %q", i+1, p["expect"])
		}
	}
	r := load.Report{Server: all.Server}
	if err := logInEffect(p, all.answered, sumOfStatistics(&r, "log_bytes_total")); err != nil {
		return "", err
	}
	return digest("gateway-load", p["load"], p["requests"], p["connections"], p["processes"], p["expect"]), nil
}
