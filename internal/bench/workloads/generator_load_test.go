package workloads

import (
	"slices"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/bench"
)

// TestGeneratorsRefuse: what a load generator cannot do is refused with what to do, and what it can do is not.
func TestGeneratorsRefuse(t *testing.T) {
	for _, c := range []struct{ workload, params, want string }{
		{"nginx", "load=wrk", ""},
		{"nginx", "load=wrk rate=100", "leave out rate"},
		{"nginx", "load=wrk requests=100", "leave out requests"},
		{"nginx", "load=wrk measure=500ms", "set measure to 1s or more"},
		{"nginx", "load=wrk client-cores=3", "a multiple of client-cores"},
		{"nginx", "load=wrk pipeline=2", "set pipeline=1"},
		{"nginx", "load=wrk keep-alive=off", ""},
		{"nginx", "load=ab", "set requests"},
		{"nginx", "load=ab requests=7", ""},
		{"nginx", "load=ab requests=8 client-cores=2", "set client-cores=1"},
		{"nginx", "load=hey requests=7", "a multiple of connections"},
		{"nginx", "load=h2load requests=7 pipeline=2 client-cores=2", ""},
		{"nginx", "load=h2load keep-alive=off", "leave out keep-alive"},
		{"nginx", "load=h2load client-cores=9", "at most one"},
		{"nginx", "load=hey tls=on keep-alive=off resume=on", "leave out resume"},
		{"nginx", "load=hey connections=0", "connections"},
		{"gateway", "load=h2load http=2 pipeline=4", ""},
		{"gateway", "load=wrk http=2", "leave out http"},
		{"redis", "load=redis-benchmark", "set requests"},
		{"redis", "load=redis-benchmark requests=100", "a multiple of pipeline"},
		{"redis", "load=redis-benchmark requests=800", ""},
		{"redis", "load=memtier_benchmark requests=801", "a multiple of connections"},
		{"memcached", "load=memtier_benchmark", ""},
		{"postgres", "load=pgbench", ""},
		{"postgres", "load=pgbench pipeline=2", "set pipeline=1"},
		{"postgres", "load=pgbench requests=-1", "requests"},
	} {
		t.Run(c.workload+" "+c.params, func(t *testing.T) {
			w := All[slices.IndexFunc(All, func(w *bench.Workload) bool { return w.Name == c.workload })]
			p, err := bench.Complete("workload "+c.workload, w.Params, settings(t, c.params, strings.ReplaceAll(c.params, " ", "\n")))
			if err != nil {
				t.Fatal(err)
			}
			_, err = w.Job(p)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("error is %v, want %q", err, c.want)
			}
		})
	}
}

// TestGeneratorsKnown: each load generator that a workload offers is known, as one that can be called.
func TestGeneratorsKnown(t *testing.T) {
	for _, p := range []bench.Param{redisLoad, memcachedLoad, postgresLoad, httpLoad} {
		for _, name := range p.Values[1:] {
			if g := foreignLoad(bench.Params{"load": name}); g == nil || g.words == "" || g.versions == "" {
				t.Errorf("%s is offered and not known: %+v", name, g)
			}
		}
	}
	if g := foreignLoad(bench.Params{"load": ownLoad}); g != nil {
		t.Errorf("our own load generator is taken for %s", g.name)
	}
}
