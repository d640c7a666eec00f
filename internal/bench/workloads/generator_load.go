package workloads

import (
	"cmp"
	"encoding/json"
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

// ownLoad is the value of the parameter load for our load generator.
const ownLoad = "teescope"

// foreignLoad is the load generator that a workload with generatorParam uses instead of ours, nil if ours.
func foreignLoad(p bench.Params) *generator {
	for _, g := range generators {
		if g.name == p["load"] {
			return g
		}
	}
	return nil
}

// The parameter load of the workloads that take other load generators, by what their servers speak.
var (
	redisLoad     = bench.Param{Name: "load", Subject: true, Default: ownLoad, Values: []string{ownLoad, "redis-benchmark", "memtier_benchmark"}, Doc: generatorDoc}
	memcachedLoad = bench.Param{Name: "load", Subject: true, Default: ownLoad, Values: []string{ownLoad, "memtier_benchmark"}, Doc: generatorDoc}
	postgresLoad  = bench.Param{Name: "load", Subject: true, Default: ownLoad, Values: []string{ownLoad, "pgbench"}, Doc: generatorDoc}
	httpLoad      = bench.Param{Name: "load", Subject: true, Default: ownLoad, Values: []string{ownLoad, "wrk", "h2load", "hey", "ab"}, Doc: generatorDoc}
)

const generatorDoc = "The load generator. teescope: our own. The others must be installed where the load runs. They get the parameters connections, pipeline, requests or measure, and client-cores; " +
	"warm does not apply. Their count of requests must agree with the server's own."

// valueOf is the value of a flag of our load generator.
func valueOf(flags []string, name string) string {
	if i := slices.Index(flags, name); i >= 0 && i+1 < len(flags) {
		return flags[i+1]
	}
	return ""
}

// order is what a load generator is told to do.
type order struct {
	*generator
	p bench.Params
	// The parameters: what is not there is the least that can be.
	connections, threads, pipeline, requests int64
	measure                                  time.Duration
	end, kept, http1                         string // words
}

// generatorOutside is the job's outside with another load generator than ours, whose flags are those about the server.
func generatorOutside(g *generator, p bench.Params, flags []string) (*host.Cmd, error) {
	o := order{generator: g, p: p, end: g.timed, kept: g.kept, http1: g.http1}
	for _, v := range []struct {
		name  string
		least int64
		into  *int64
	}{{"connections", 1, &o.connections}, {"client-cores", 1, &o.threads}, {"pipeline", 1, &o.pipeline}, {"requests", 0, &o.requests}} {
		var err error
		if *v.into, err = p.Int(v.name, v.least); err != nil {
			return nil, err
		}
	}
	var err error
	if o.measure, err = p.Seconds("measure"); err != nil {
		return nil, err
	}
	if o.requests > 0 {
		o.end = g.counted
	}
	if freshConnections(p) {
		o.kept = g.fresh
	}
	if p["http"] == "2" {
		o.http1 = ""
	}
	if why := o.refuse(); why != "" {
		return nil, fmt.Errorf("load=%s: it %s, or use load=%s", g.name, why, ownLoad)
	}
	fill := strings.NewReplacer(o.replaced(flags)...)
	command, err := words(fill.Replace(strings.Join([]string{g.name, g.words, o.end, o.kept, o.http1, g.last}, " ")))
	if err != nil {
		return nil, err
	}
	argv, err := json.Marshal(command)
	if err != nil {
		return nil, err
	}
	out := []string{"{work}/teescope-work", "foreign", "--hold", "--start", loadStart, "--address", "{host}:{port}", "--cores", strconv.FormatInt(o.threads, 10),
		"--generator", string(argv), "--input", fill.Replace(g.script)}
	if p["tls"] == "on" {
		out = append(out, "--tls")
	}
	for _, word := range flags {
		out = append(out, strings.ReplaceAll(word, "{key}", g.key+"{key}"))
	}
	return &host.Cmd{Argv: out}, nil
}

// refuse says what the load generator cannot do and what then helps, "" if it can do all.
func (o *order) refuse() string {
	each := int64(1) // of which the requests are a multiple
	switch o.each {
	case "connections":
		each = o.connections
	case "pipeline":
		each = o.pipeline
	}
	switch {
	case openLoop(o.p):
		return "has no open loop here; leave out rate"
	case o.p["resume"] == "on":
		return "resumes no TLS sessions; leave out resume"
	case o.generator.http1 == "" && o.p["http"] == "2":
		return "has no HTTP/2 on each connection; leave out http"
	case o.kept == "" && freshConnections(o.p):
		return "keeps its connections; leave out keep-alive"
	case o.pipeline > 1 && !strings.Contains(o.words, "{pipeline}"):
		return "has one request under way on each connection; set pipeline=1"
	case o.end == "" && o.requests > 0:
		return "ends after a time; leave out requests"
	case o.end == "":
		return "ends after a number of requests; set requests"
	case o.requests == 0 && (o.measure < time.Second || o.measure%time.Second != 0):
		return "measures whole seconds; set measure to 1s or more"
	case o.requests%each != 0:
		return "divides its requests evenly; set requests to a multiple of " + o.each
	case o.threads > 1 && !strings.Contains(o.words, "{threads}"):
		return "has one thread; set client-cores=1"
	case o.even && o.connections%o.threads != 0:
		return "divides its connections evenly among its threads; set connections to a multiple of client-cores"
	}
	return ""
}

// replaced are the placeholders in the words of generators and their values.
func (o *order) replaced(flags []string) []string {
	keys, _ := strconv.ParseInt(valueOf(flags, "--keys"), 10, 64)
	ask, scheme, protocol := valueOf(flags, "--command"), "http", "redis"
	if o.p["tls"] == "on" {
		scheme = "https"
	}
	if flags[1] == "memcached" {
		protocol = "memcache_text"
	}
	prefix, _, _ := strings.Cut(ask[strings.LastIndexByte(ask, ' ')+1:], "{key}")
	out := []string{"{url}", scheme + "://{host}:{port}" + valueOf(flags, "--path"), "{ask}", strings.ReplaceAll(ask, "{key}", o.random), "{protocol}", protocol, "{prefix}", prefix}
	for _, v := range []struct {
		name string
		n    int64
	}{{"{connections}", o.connections}, {"{threads}", o.threads}, {"{share}", o.connections / o.threads}, {"{pipeline}", o.pipeline}, {"{requests}", o.requests},
		{"{each}", o.requests / o.connections}, {"{seconds}", int64(o.measure / time.Second)}, {"{keys}", keys}, {"{most}", keys - 1}, {"{most1}", 1_000_000_000 + keys - 1}} {
		out = append(out, v.name, strconv.FormatInt(v.n, 10))
	}
	return out
}

// readForeignLoad reads the output of another load generator than ours. A number that is not in it is an error: then nothing of the run is known.
func readForeignLoad(g *generator, o bench.Outcome) (*foreignSays, error) {
	said, err := readForeign(o.Outside.Stdout, bench.Params{"load": g.name})
	if err != nil {
		return nil, err
	}
	for _, text := range said.Outputs {
		if err := g.doubt(text); err != nil {
			return nil, err
		}
	}
	for _, name := range []string{"answered", "failed", "lost", "rate"} {
		if said.lacks[name] != "" {
			return nil, fmt.Errorf("cannot read the number %q in the output of %s. teescope reads that of %s: install it where the load runs, or use load=%s", name, g.name, g.versions, ownLoad)
		}
	}
	return said, nil
}

// report is what another load generator says as a report of ours. Its keys are named otherwise, which is no other work.
func (s *foreignSays) report(g *generator, p bench.Params) (*load.Report, error) {
	connections, err := p.Int("connections", 1)
	if err != nil {
		return nil, err
	}
	if !(s.failed <= s.answered && s.answered < 1<<53) {
		return nil, fmt.Errorf("the load generator reports %g answers, and %g wrong ones among them", s.answered, s.failed)
	}
	r := &load.Report{Protocol: s.Protocol, Loop: "closed", Connections: int(connections), Seconds: s.Seconds, CPUSeconds: s.CPUSeconds, Cores: s.Cores,
		Requests: uint64(s.answered - s.failed), Errors: map[string]uint64{}, Digest: strings.ReplaceAll(s.Digest, g.key+"{key}", "{key}"), Server: s.Server, Versions: s.Versions}
	r.Counted, r.Expected = r.Requests, r.Requests
	if s.failed > 0 {
		r.Errors["failed"] = uint64(s.failed)
	}
	if s.lost > 0 {
		r.Errors["lost"] = uint64(min(s.lost, math.MaxInt32))
	}
	return r, nil
}

// metrics are those of another load generator than ours, before the server's own.
func (g *generator) metrics() []*metric.Desc {
	out := []*metric.Desc{foreignRate, foreignSaid, loadErrors, loadCPU, loadRequests, foreignMean}
	if g.patterns.tail != "" {
		out = append(out, foreignTail)
	}
	return out
}

// foreignLoad adds those metrics.
func (r *reading) foreignLoad(g *generator, rep *load.Report, said *foreignSays) {
	const none = "no request was answered correctly"
	right := float64(rep.Requests)
	if right == 0 { // then the rate is unknown, not 0
		right = math.NaN()
	}
	r.derived(foreignRate, right/rep.Seconds, none)
	r.derived(loadErrors, (said.failed+said.lost)/(said.answered+said.lost), none)
	r.derived(loadCPU, timeShare(rep.CPUSeconds/rep.Seconds/float64(rep.Cores)), none)
	r.value(loadRequests, float64(rep.Counted), none)
	r.foreignFigures(said, g.metrics())
}

// foreignFigures adds those of the metrics that load generators say of their own rate and times.
func (r *reading) foreignFigures(said *foreignSays, wanted []*metric.Desc) {
	for _, d := range []struct {
		desc *metric.Desc
		v    float64
		name string
	}{{foreignSaid, said.rate, "rate"}, {foreignMean, said.mean, "mean"}, {foreignTail, said.tail, "tail"}} {
		if !slices.Contains(wanted, d.desc) {
			continue
		}
		why := cmp.Or(said.ownClock(), said.lacks[d.name])
		if d.v == 0 && why == "" {
			why = "the load generator prints 0: it is less than the last digit that it prints"
		}
		if why != "" {
			r.lack(d.desc, why)
			continue
		}
		r.derived(d.desc, d.v, "")
	}
}

// checkForeignLoad verifies that another load generator than ours made the requests that it was told to make.
func checkForeignLoad(g *generator, o bench.Outcome) error {
	said, err := readForeignLoad(g, o)
	if err != nil {
		return err
	}
	want, err := o.Params.Int("requests", 0)
	switch {
	case err != nil:
		return err
	case len(said.Outputs) != 1:
		return fmt.Errorf("%d load generators ran, want 1", len(said.Outputs))
	case want > 0 && said.answered+said.lost != float64(want):
		return fmt.Errorf("%s made %.0f requests, want %d", g.name, said.answered+said.lost, want)
	}
	return nil
}
