package workloads

import (
	"fmt"
	"path"
	"regexp"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/metric"
)

// A generator is a load generator whose output is known: for each parameter of gateway-load that is a pattern, the
// pattern. A parameter that it does not name is one that the program never prints.
type generator struct {
	name, from string // from is the package that has it
	patterns   patterns
	scale      string // of times without a unit
	// twice are patterns of two numbers that are among the failed ones, where requests can be in both; why says so.
	twice []string
	why   string

	// For the parameter load of other workloads: versions are those whose output was read here. Where the server has keys, key is what
	// it writes before our nine digits of one, random what it replaces with a key, and script is its standard input.
	versions, key, random, script string
	// words follow its name in the command (placeholders are in generatorOutside). They are followed by those that let it end after a
	// number of requests (counted) or after a time (timed), those for kept connections (kept) or a new one for each request (fresh),
	// those for HTTP/1.1 of a program that also has HTTP/2 (http1), and the last ones. Where counted, timed or fresh is empty, it
	// cannot do that.
	words, counted, timed, kept, fresh, http1, last string
	// The parameter of whose value the requests must be a multiple, and whether the connections must be one of its threads.
	each string
	even bool
}

// patterns are named as the parameters of gateway-load.
type patterns struct{ answered, failed, lost, rate, mean, tail string }

func (p *patterns) named(name string) string {
	for i, v := range foreignPatterns {
		if v.name == name {
			return [...]string{p.answered, p.failed, p.lost, p.rate, p.mean, p.tail}[i]
		}
	}
	return ""
}

// generators are those known, by the names of their programs.
var generators = []*generator{
	// support/ab.c, output_results
	{name: "ab", from: "apache2-utils", patterns: patterns{
		answered: `^Complete requests:\s+(\d+)$`,
		failed:   `^(?:Failed requests|Non-2xx responses):\s+(\d+)$`,
		lost:     `^Write errors:\s+(\d+)$|^Complete requests:`,
		rate:     `^Requests per second:\s+([0-9.]+)`,
		mean:     `^Time per request:\s+([0-9.]+) \[ms\] \(mean\)$`,
		tail:     `^\s+99%\s+([0-9.]+)$`,
	}, scale: "0.001", twice: []string{`\bLength: (\d+)`, `^Non-2xx responses:\s+(\d+)$`},
		why:      "ab counts an answer of another length and another status in two lines; ab -l ignores the length",
		versions: "ab 2.3", words: "-q -c {connections}", counted: "-n {requests}", kept: "-k", fresh: " ", last: "{url}"},
	// src/wrk.c of wrk and of wrk2: requests that got no answer are not among those counted.
	{name: "wrk", from: "wrk", patterns: wrkPatterns, scale: "1",
		versions: "wrk 4.1", words: "--latency -t {threads} -c {connections}", timed: "-d {seconds}s", fresh: "-H 'Connection: close'", last: "{url}", even: true},
	{name: "wrk2", from: "wrk2 (https://github.com/giltene/wrk2)", patterns: wrkPatterns, scale: "1"},
	// src/h2load.cc: failed has those that got no answer, and those that were answered with another status.
	{name: "h2load", from: "nghttp2-client", patterns: patterns{
		answered: `^requests: .* (\d+) succeeded`,
		lost:     `^requests: .* (\d+) failed`,
		rate:     `^finished in \S+, ([0-9.]+) req/s`,
		mean:     `^time for request: +\S+ +\S+ +([0-9.]+[a-z]+)`,
	}, scale: "1", versions: "h2load 1.52", words: "-t {threads} -c {connections} -m {pipeline}", counted: "-n {requests}", timed: "-D {seconds}", http1: "--h1", last: "{url}"},
	// requester/print.go
	{name: "hey", from: "hey", patterns: patterns{
		answered: `^\s+\[\d{3}\]\t(\d+) responses$`,
		failed:   `^\s+\[[13-9]\d\d\]\t(\d+) responses$|^\s+Requests/sec:`,
		lost:     `^\s+\[(\d+)\]\t(?:Get|Post|Put|Head|Delete|Patch|Options) |^\s+Requests/sec:`,
		rate:     `^\s+Requests/sec:\s+([0-9.]+)$`,
		mean:     `^\s+Average:\s+([0-9.]+) secs$`,
		tail:     `^\s+99% in ([0-9.]+) secs$`,
	}, scale: "1", versions: "hey 0.1.4", words: "-c {connections} -cpus {threads}", counted: "-n {requests}", timed: "-z {seconds}s", fresh: "-disable-keepalive", last: "{url}", each: "connections"},
	// src/redis-benchmark.c, showLatencyReport; its --csv has no count
	{name: "redis-benchmark", from: "redis-tools", patterns: patterns{
		answered: `^\s+(\d+) requests completed in `,
		rate:     `^\s+throughput summary: ([0-9.]+) requests per second$`,
		mean:     `^\s+avg\s+min\s+p50\s+p95\s+p99\s+max\s+([0-9.]+)\s`,
		tail:     `^\s+avg\s+min\s+p50\s+p95\s+p99\s+max\s+(?:[0-9.]+\s+){4}([0-9.]+)\s`,
	}, scale: "0.001", versions: "redis-benchmark 7.0", key: "000", random: "__rand_int__",
		words: "-h {host} -p {port} -c {connections} -P {pipeline} --threads {threads} -r {keys}", counted: "-n {requests}", last: "{ask}", each: "pipeline"},
	// run_stats.cpp, print_json. Its file is not JSON that parsers take: it has commas before closing brackets.
	{name: "memtier_benchmark", from: "memtier-benchmark (https://github.com/redis/memtier_benchmark)", patterns: patterns{
		answered: `"Totals":\s*\{\s*"Count": (\d+)$`,
		rate:     `"Totals":\s*\{\s*"Count": \d+\s*,"Ops/sec": ([0-9.]+)$`,
		mean:     `"Totals":\s*\{[^{}]*?,"Latency": ([0-9.]+)$`,
		lost:     `"Totals":\s*\{(?:[^{}]*?,"Connection Errors": (\d+)$)?`, // since 2.1
		tail:     `"Totals":\s*\{(?s:.*?)"Percentile Latencies":\s*\{[^{}]*"p99\.00": ([0-9.]+)$`,
	}, scale: "0.001", versions: "memtier_benchmark 1.4 to 2.3", key: "1", // which has no leading zeros
		words: "-s {host} -p {port} --protocol={protocol} -t {threads} -c {share} --pipeline={pipeline} --ratio=0:1 --key-pattern=R:R --key-prefix={prefix} " +
			"--key-minimum=1000000000 --key-maximum={most1} --hide-histogram --out-file=/dev/null --json-out-file=/dev/stdout",
		counted: "-n {each}", timed: "--test-time={seconds}", each: "connections", even: true},
	// src/bin/pgbench/pgbench.c, printResults
	{name: "pgbench", from: "postgresql-contrib", patterns: patterns{
		answered: `^number of transactions actually processed: (\d+)`,
		failed:   `^number of failed transactions: (\d+) |^tps = `, // since 15
		rate:     `^tps = ([0-9.]+) \((?:without initial connection time|excluding connections establishing)\)$`,
		mean:     `^latency average = ([0-9.]+ ms)$`,
	}, scale: "1", versions: "pgbench 15", random: ":key",
		script: "\\set key random(0, {most})\n{ask} \\gset\n", // \gset ends it where there is no such row
		words:  "-n -f - -h {host} -p {port} -U postgres -c {connections} -j {threads}", counted: "-t {each}", timed: "-T {seconds}", last: "postgres", each: "connections"},
}

// generatorTools are the known load generators as tools of the jobs that call them by their names.
var generatorTools = func() (out []bench.Tool) {
	for _, g := range generators {
		out = append(out, bench.Tool{Command: g.name, Package: g.from, Load: true, With: func(p bench.Params) bool {
			argv, err := words(p["load"])
			return err == nil && len(argv) > 0 && argv[0] == g.name
		}})
	}
	return out
}()

var wrkPatterns = patterns{
	answered: `^\s+(\d+) requests in `,
	failed:   `^\s+Non-2xx or 3xx responses: (\d+)$|^Requests/sec:`,
	lost:     `^\s+Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)$|^Requests/sec:`,
	rate:     `^Requests/sec:\s+([0-9.]+)$`,
	mean:     `^\s+Latency\s+([0-9.]+[a-z]+)\s`,
	tail:     `^\s+99(?:\.000)?%\s+([0-9.]+[a-z]+)$`,
}

// foreignPatterns are the parameters of gateway-load that are patterns with a group. Of those that must match once,
// two matches are two candidates for a number.
var foreignPatterns = []struct {
	name           string
	needed, summed bool // needed where the load generator is not known
}{{"answered", true, false}, {"failed", true, true}, {"lost", true, true}, {"rate", true, false}, {"mean", false, false}, {"tail", false, false}}

// unprinted, as the value of a pattern, says that the load generator does not print the number.
const unprinted = "none"

// foreignParams returns the parameters with the patterns of a known load generator where the user gave none. What no one
// gives is unprinted.
func foreignParams(p bench.Params, program string) (bench.Params, error) {
	known := generatorOf(program)
	out := bench.Params{}
	for k, v := range p {
		out[k] = v
	}
	if out["time-scale"] == "" {
		out["time-scale"] = known.scale
	}
	for _, v := range foreignPatterns {
		if out[v.name] != "" {
			continue
		}
		if out[v.name] = known.patterns.named(v.name); out[v.name] != "" {
			continue
		}
		if v.needed && known.name == "" {
			var names []string
			for _, g := range generators {
				names = append(names, g.name)
			}
			return nil, fmt.Errorf("parameter %s is empty, and teescope has no pattern for the output of %s (it has patterns for %s). Set %s to a pattern, or to %q if %s does not print this number", v.name, program, strings.Join(names, ", "), v.name, unprinted, program)
		}
		out[v.name] = unprinted
	}
	return out, nil
}

// generatorOf is the known load generator that a program is, one without a name if it is none.
func generatorOf(program string) *generator {
	for _, g := range generators {
		if g.name == path.Base(program) {
			return g
		}
	}
	return &generator{scale: "1"}
}

// doubt says why the number of failed requests in an output is not known, nil if it is: some may be in it twice.
func (g *generator) doubt(text string) error {
	var n [2]float64
	for i, pattern := range g.twice {
		n[i], _ = foreignSum(pattern, text, true, 1) // what is 0 may not be printed
	}
	if n[0] == 0 || n[1] == 0 {
		return nil
	}
	return fmt.Errorf("between %.0f and %.0f answers were wrong: %s", max(n[0], n[1]), n[0]+n[1], g.why)
}

// foreignTimes are the units that load generators print after a time.
var foreignTimes = map[string]time.Duration{"ns": 1, "us": time.Microsecond, "µs": time.Microsecond, "ms": time.Millisecond, "s": time.Second, "secs": time.Second, "m": time.Minute, "h": time.Hour}

// foreignSum adds up what a pattern's groups match in an output. Where it is not summed, the pattern must match once; a
// group that is empty adds nothing where it is. A number followed by a unit of time is in seconds, another in scale.
func foreignSum(pattern, text string, summed bool, scale float64) (float64, error) {
	re, err := regexp.Compile("(?m)" + pattern)
	if err != nil {
		return 0, err
	}
	found := re.FindAllStringSubmatch(text, -1)
	switch {
	case len(found) == 0:
		return 0, fmt.Errorf("nothing matches %s", pattern)
	case !summed && len(found) > 1:
		return 0, fmt.Errorf("%d places match %s, want one", len(found), pattern)
	}
	sum := 0.0
	for _, m := range found {
		for _, group := range m[1:] {
			if group == "" && summed { // the match only says that the rest is whole
				continue
			}
			v, _, unit, err := metric.LeadingNumber(group)
			per := scale
			if unit = strings.TrimSpace(unit); unit != "" {
				d, known := foreignTimes[unit]
				if !known {
					return 0, fmt.Errorf("%q is not a number", group)
				}
				per = d.Seconds()
			}
			if err != nil || v < 0 {
				return 0, fmt.Errorf("%q is not a number of at least 0", group)
			}
			sum += v * per
			if !summed {
				break
			}
		}
	}
	return sum, nil
}
