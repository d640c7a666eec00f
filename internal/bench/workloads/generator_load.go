package workloads

import (
	"cmp"
	"encoding/json"
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

// generatorOutside is the job's outside with another load generator than ours, whose flags are those about the server.
func generatorOutside(g *generator, p bench.Params, flags []string) (*host.Cmd, error) {
	a := amounts{least: 1}
	connections, threads, pipeline := a.int(p, "connections"), a.int(p, "client-cores"), a.int(p, "pipeline")
	a.least = 0
	requests := a.int(p, "requests")
	measure, err := p.Seconds("measure")
	if err = cmp.Or(a.err, err); err != nil {
		return nil, err
	}
	each := int64(1) // of which the requests are a multiple
	end, kept, http1, scheme, protocol := g.timed, g.kept, g.http1, "http", "redis"
	if g.each != "" {
		each = a.int(p, g.each)
	}
	if requests > 0 {
		end = g.counted
	}
	if freshConnections(p) {
		kept = g.fresh
	}
	if p["http"] == "2" {
		http1 = ""
	}
	if p["tls"] == "on" {
		scheme = "https"
	}
	if flags[1] == "memcached" {
		protocol = "memcache_text"
	}
	why := ""
	switch {
	case openLoop(p):
		why = "it has no open loop here; leave out rate"
	case p["resume"] == "on":
		why = "it resumes no TLS sessions; leave out resume"
	case p["http"] == "2" && g.http1 == "":
		why = "it has no HTTP/2 on each connection; leave out http"
	case freshConnections(p) && kept == "":
		why = "it keeps its connections; leave out keep-alive"
	case pipeline > 1 && !strings.Contains(g.words, "{pipeline}"):
		why = "it has one request under way on each connection; set pipeline=1"
	case end == "" && requests > 0:
		why = "it ends after a time; leave out requests"
	case end == "":
		why = "it ends after a number of requests; set requests"
	case requests == 0 && (measure < time.Second || measure%time.Second != 0):
		why = "it measures whole seconds; set measure to 1s or more"
	case requests%each != 0:
		why = "it divides its requests evenly; set requests to a multiple of " + g.each
	case threads > 1 && !strings.Contains(g.words, "{threads}"):
		why = "it has one thread; set client-cores=1"
	case threads > connections || g.even && connections%threads != 0:
		why = "it divides its connections evenly among its threads; set connections to a multiple of client-cores"
	}
	if why != "" {
		return nil, fmt.Errorf("load=%s: %s, or use load=%s", g.name, why, ownLoad)
	}
	ask := valueOf(flags, "--command")
	prefix, _, _ := strings.Cut(ask[strings.LastIndexByte(ask, ' ')+1:], "{key}")
	keys, _ := strconv.Atoi(valueOf(flags, "--keys"))
	fill := strings.NewReplacer("{connections}", fmt.Sprint(connections), "{threads}", fmt.Sprint(threads), "{share}", fmt.Sprint(connections/threads),
		"{pipeline}", fmt.Sprint(pipeline), "{requests}", fmt.Sprint(requests), "{each}", fmt.Sprint(requests/connections), "{seconds}", fmt.Sprint(int(measure.Seconds())),
		"{url}", scheme+"://{host}:{port}"+valueOf(flags, "--path"), "{ask}", strings.ReplaceAll(ask, "{key}", g.random), "{protocol}", protocol, "{prefix}", prefix,
		"{keys}", fmt.Sprint(keys), "{last}", fmt.Sprintf("%09d", keys-1))
	command, err := words(fill.Replace(strings.Join([]string{g.name, g.words, end, kept, http1, g.end}, " ")))
	if err != nil {
		return nil, err
	}
	argv, err := json.Marshal(command)
	if err != nil {
		return nil, err
	}
	out := []string{"{work}/teescope-work", "foreign", "--hold", "--start", loadStart, "--address", "{host}:{port}", "--cores", p["client-cores"], "--generator", string(argv)}
	if p["tls"] == "on" {
		out = append(out, "--tls")
	}
	if g.script != "" {
		out = append(out, "--input", fill.Replace(g.script))
	}
	for _, word := range flags {
		out = append(out, strings.ReplaceAll(word, "{key}", g.key+"{key}"))
	}
	return &host.Cmd{Argv: out}, nil
}

// amounts reads parameters that are numbers of at least least; err is the first error.
type amounts struct {
	least int64
	err   error
}

func (a *amounts) int(p bench.Params, name string) int64 {
	v, err := p.Int(name, a.least)
	if a.err == nil {
		a.err = err
	}
	return v
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
	if s.failed > s.answered {
		return nil, fmt.Errorf("the load generator reports %.0f answers, and %.0f wrong ones among them", s.answered, s.failed)
	}
	r := &load.Report{Protocol: s.Protocol, Loop: "closed", Connections: int(connections), Seconds: s.Seconds, CPUSeconds: s.CPUSeconds, Cores: s.Cores,
		Requests: uint64(s.answered - s.failed), Errors: map[string]uint64{}, Digest: strings.ReplaceAll(s.Digest, g.key+"{key}", "{key}"), Server: s.Server, Versions: s.Versions}
	r.Counted, r.Expected = r.Requests, r.Requests
	for kind, n := range map[string]float64{"failed": s.failed, "lost": s.lost} {
		if n > 0 {
			r.Errors[kind] = uint64(min(n, math.MaxInt32))
		}
	}
	return r, nil
}

// metrics are those of another load generator than ours, before the server's own.
func (g *generator) metrics() []*metric.Desc {
	out := []*metric.Desc{foreignRate, foreignSaid, loadErrors, loadCPU, loadRequests, foreignMean}
	if g.patterns["tail"] != "" {
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
	case said.Protocol == "":
		return errors.New("the load generators' report does not name the protocol in which the server was asked before")
	case want > 0 && said.answered+said.lost != float64(want):
		return fmt.Errorf("%s made %.0f requests, want %d", g.name, said.answered+said.lost, want)
	}
	return nil
}
