package workloads

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
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
		"Correctly answered requests of all processes, over the time from the first start to the last end, including starting and connecting.")
	foreignSaid = loadGauge("said_requests_per_second", "requests_per_second", metric.Higher,
		"Sum of the rates that the processes report. Each divides by its own time, so the sum is above the true rate if they did not run together.")
	foreignTogether = loadGauge("together_ratio", "ratio", metric.Higher,
		"Share of the time from the first start to the last end in which all processes ran; in the rest the load was smaller than stated.")
	foreignMean = loadGauge("said_mean_seconds", "seconds", metric.Lower,
		"Mean of the mean response times that the processes report. In a closed loop it is the number of connections divided by the rate, so it adds nothing to the rate.")
	foreignTail = loadGauge("said_p99_seconds", "seconds", metric.Lower,
		"Mean of the 99th percentiles that the processes report; with more than one process it is not a percentile of anything.")
)

// gatewayLoad is the gateway under the user's load generator. Its figures are that
// program's own, for comparison with published ones; a single rate has no steady state to
// check.
var gatewayLoad = bench.Workload{
	Name: "gateway-load",
	Doc: "The same gateway under any load generator (ab, wrk, h2load) in one or more processes at once: the usual sum of their own figures, " +
		"next to all requests over the total time.",
	Version: 1,
	Params: slices.Concat([]bench.Param{
		{Name: "load", Text: true, Doc: "The load generator's command, split into words as a shell does, with {host}:{port} for the gateway, and {requests} and {connections} for these parameters: " +
			"ab -q -n {requests} -c {connections} https://{host}:{port}/64. The path is the size of the answer."},
		{Name: "processes", Default: "1", Doc: "Number of processes at once."},
		{Name: "requests", Default: "5000", Doc: "Requests of each process; replaces {requests}."},
		{Name: "connections", Default: "200", Doc: "Connections of each process; replaces {connections}."},
		{Name: "answered", Text: true, Default: `^Complete requests:\s+(\d+)`, Doc: "Regular expression (RE2; ^ and $ match at lines) whose first group is the number of requests in a process's standard output; the defaults of this and the next are for ab."},
		{Name: "failed", Text: true, Default: `^(?:Failed requests|Non-2xx responses):\s+(\d+)`, Doc: "Likewise, of failed requests; all matches are added up, and a match without the group counts 0: " +
			`for wrk, which prints nothing if nothing failed, ^(?:\s+Non-2xx or 3xx responses: (\d+)|Requests/sec:).`},
		{Name: "rate", Text: true, Default: `^Requests per second:\s+([0-9.]+)`, Doc: "Likewise, of the requests per second."},
		{Name: "mean", Text: true, Default: `^Time per request:\s+([0-9.]+) \[ms\] \(mean\)$`, Doc: "Likewise, of the mean response time; empty if it prints none."},
		{Name: "tail", Text: true, Default: `^\s+99%\s+([0-9.]+)`, Doc: "Likewise, of the 99th percentile; empty if it prints none."},
		{Name: "time-scale", Default: "0.001", Doc: "Factor that converts mean and tail to seconds."},
		{Name: "expect", Text: true, Doc: "Regular expression, likewise, that each standard output must match, or the run is refused."},
		{Name: "client-cores", Default: "1", Doc: "CPUs that one process can use fully; ab has one thread."},
		{Name: "estimate", Default: "20s", Doc: "Approximate duration of a run, for the plan."},
	}, gatewayParams),
	Metrics: func(p bench.Params) []*metric.Desc {
		return append([]*metric.Desc{foreignRate, foreignSaid, foreignTogether, foreignMean, foreignTail, loadErrors, loadCPU, loadRequests}, gatewayMetrics(p)...)
	},
	Primary:    func(bench.Params) *metric.Desc { return foreignRate },
	Operations: loadRequests,
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
		all, err := readForeign(o)
		if err != nil || !(all.failed > 0) {
			return nil
		}
		return map[string]int{"failed": int(min(all.failed, math.MaxInt32))}
	},
	Check: checkGatewayLoad,
}

// foreignPatterns are the parameters that are patterns with a group.
var foreignPatterns = []string{"answered", "failed", "rate", "mean", "tail"}

func gatewayLoadJob(p bench.Params) (bench.Job, error) {
	argv, err := words(p["load"])
	if err != nil {
		return bench.Job{}, fmt.Errorf("parameter load: %w", err)
	}
	if len(argv) == 0 {
		return bench.Job{}, errors.New("parameter load: want a load generator's command, as in ab -q -n {requests} -c {connections} https://{host}:{port}/64")
	}
	for _, name := range []string{"processes", "requests", "connections", "client-cores"} {
		if _, err := p.Int(name, 1); err != nil {
			return bench.Job{}, err
		}
	}
	for _, name := range append([]string{"expect"}, foreignPatterns...) {
		re, err := customPattern(p, name)
		if err != nil {
			return bench.Job{}, err
		}
		needed := name == "answered" || name == "rate"
		if name != "expect" && (needed || p[name] != "") && re.NumSubexp() < 1 {
			return bench.Job{}, fmt.Errorf("parameter %s=%q: want a group, as in answered: ([0-9]+)", name, p[name])
		}
	}
	if _, err := foreignScale(p); err != nil {
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
	job.Outside = &host.Cmd{Argv: []string{"{work}/teescope-work", "foreign", "--address", "{host}:{port}", "--stats-address", pageAddress, "--hold",
		"--processes", p["processes"], "--cores", p["client-cores"], "--command", string(command)}}
	job.Window = loadWindow
	return job, err
}

// foreignScale is the factor that converts the load generator's times to seconds.
func foreignScale(p bench.Params) (float64, error) {
	v, err := strconv.ParseFloat(p["time-scale"], 64)
	if err != nil || !(v > 0) || math.IsInf(v, 0) {
		return 0, fmt.Errorf("parameter time-scale=%q: want a number above 0", p["time-scale"])
	}
	return v, nil
}

// foreignSays combines the figures of all processes; NaN if one of them lacks it.
type foreignSays struct {
	*load.Foreign
	answered, failed, rate float64 // sums
	mean, tail             float64 // means over the processes, in the program's unit
}

// readForeign reads the worker's document, which is all that it prints, and in it what
// each process printed.
func readForeign(o bench.Outcome) (*foreignSays, error) {
	said := &foreignSays{}
	if err := readReport("load generators", o.Outside.Stdout, &said.Foreign); err != nil {
		return nil, err
	}
	n := 0
	if said.Foreign != nil {
		n = len(said.Outputs)
	}
	if n == 0 || !(said.Seconds > 0) || said.Cores < 1 || said.Together < 0 || said.CPUSeconds < 0 {
		return nil, errors.New("report of the load generators: it has no outputs, or invalid times")
	}
	for _, v := range []struct {
		name string
		into *float64
		most int // matches in an output
	}{{"answered", &said.answered, 1}, {"failed", &said.failed, -1}, {"rate", &said.rate, 1}, {"mean", &said.mean, 1}, {"tail", &said.tail, 1}} {
		re, err := customPattern(o.Params, v.name)
		if err != nil {
			return nil, err
		}
		for _, text := range said.Outputs {
			*v.into += foreignNumber(re, text, v.most)
		}
	}
	said.mean /= float64(n)
	said.tail /= float64(n)
	return said, nil
}

// foreignNumber is the sum of the numbers that a pattern's first group matches in an output; NaN
// if it matches nothing, or more than most times (below 0: no limit). Without a limit, a match
// without the group adds nothing.
func foreignNumber(re *regexp.Regexp, text string, most int) float64 {
	found := re.FindAllStringSubmatch(text, -1)
	if len(found) == 0 || most > 0 && len(found) > most || re.NumSubexp() < 1 {
		return math.NaN()
	}
	sum := 0.0
	for _, m := range found {
		if m[1] == "" && most < 0 { // without a group, a match only says that the rest is whole
			continue
		}
		v, err := strconv.ParseFloat(m[1], 64)
		if err != nil || !(v >= 0) {
			return math.NaN()
		}
		sum += v
	}
	return sum
}

func parseGatewayLoad(o bench.Outcome) ([]metric.Sample, error) {
	all, err := readForeign(o)
	if err != nil {
		return nil, err
	}
	scale, err := foreignScale(o.Params)
	if err != nil {
		return nil, err
	}
	var found reading
	silent := func(name string) string {
		return fmt.Sprintf("not every process prints it exactly once in the form of parameter %s", name)
	}
	right := max(all.answered-all.failed, 0)
	if right == 0 {
		found.lack(foreignRate, "no request was answered correctly")
	} else {
		found.derived(foreignRate, right/all.Seconds, silent("answered or failed"))
	}
	found.derived(foreignSaid, all.rate, silent("rate"))
	found.derived(foreignTogether, all.Together/all.Seconds, "")
	found.derived(foreignMean, all.mean*scale, silent("mean"))
	found.derived(foreignTail, all.tail*scale, silent("tail"))
	found.derived(loadErrors, min(all.failed/all.answered, 1), silent("answered or failed"))
	found.derived(loadCPU, all.CPUSeconds/all.Seconds/float64(all.Cores), "")
	found.value(loadRequests, right, silent("answered or failed"))
	if math.IsNaN(right) {
		right = 0
	}
	found.gateway(&load.Report{Expected: uint64(right), Server: all.Server}, o.Params)
	return found.samples, errors.Join(found.missing...)
}

// checkGatewayLoad verifies that all processes made requests and that their outputs match. Only
// the load generator can check the answers themselves.
func checkGatewayLoad(o bench.Outcome) (string, error) {
	all, err := readForeign(o)
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
	if !(all.answered > all.failed) {
		return "", fmt.Errorf("%.0f requests were answered, %.0f of them wrongly, or the counts are missing", all.answered, all.failed)
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
	if err := logInEffect(p, all.answered, said(&r, "log_bytes_total")); err != nil {
		return "", err
	}
	return digest("gateway-load", p["load"], p["requests"], p["connections"], p["processes"], p["expect"]), nil
}
