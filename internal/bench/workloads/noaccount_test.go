package workloads

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/host"
)

// TestNoAccount: Redis under Gramine reports no CPU time of its own, as a field report on Gramine 1.9post saw; a request then has
// no cost, rather than none at all. The output is that of a run natively with these fields changed.
func TestNoAccount(t *testing.T) {
	a, err := txtar.ParseFile("testdata/redis.txtar")
	if err != nil {
		t.Fatal(err)
	}
	w := All[slices.IndexFunc(All, func(w *bench.Workload) bool { return w.Name == "redis" })]
	p, err := bench.Complete("workload", w.Params, bench.Params{"keys": "20000", "warm": "500ms", "measure": "2s"})
	if err != nil {
		t.Fatal(err)
	}
	good := a.Files[slices.IndexFunc(a.Files, func(f txtar.File) bool { return f.Name == "good/outside" })].Data
	fields := regexp.MustCompile(`("used_cpu_(?:user|sys)":)[0-9.e+-]+`)
	if n := len(fields.FindAll(good, -1)); n != 2 {
		t.Fatalf("%d fields of CPU time, want 2", n)
	}
	for value, missing := range map[string]bool{"0.1": false, "0": true, "-1": true} {
		t.Run(value, func(t *testing.T) {
			out := fields.ReplaceAll(good, []byte("${1}"+value))
			samples, err := w.Parse(bench.Outcome{Params: p, Outside: host.Output{Stdout: out}})
			has := false
			for _, s := range samples {
				has = has || s.Desc == serverCPU
			}
			if has == missing || missing != (err != nil && strings.Contains(err.Error(), "server_cpu_per_request_seconds: the server reports no CPU time")) {
				t.Errorf("%s: has a value %v, %v", value, has, err)
			}
		})
	}
}
