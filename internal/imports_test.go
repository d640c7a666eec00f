// Package internal_test guards the direction of imports: the table below is
// the architecture, and this test fails when the code leaves it.
package internal_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/teescope/teescope/"

// table is the picture of imports: every arrow of it, and no other. A room imports
// only rooms above it, so an engine never imports its members, which stand below it.
// A new arrow is one word here, next to a reason to have it.
const table = `
# ground: locks, the machine, numbers, and what a TEE is
printable:
locked:
disk:
host: disk locked printable
metric:
contain:
document:
build:
licenses:
stats:
store/page:
configfile: contain document
schematest:
await:
golden:
mutate:
probe/probetest:
workloads/gpu:
workloads/micro:
workloads/zkvm:
experiments:
measured: stats
host/hosttest: host
machine: host
tee: contain document host
quota: host machine metric
tee/kinds: host machine tee

# observe
probe/budget: locked
probe/estimate: metric
probe: contain host locked machine metric probe/budget probe/estimate tee
probe/bpf: contain host locked metric probe
servers: host
probe/sources: contain document host locked machine metric printable probe probe/bpf probe/estimate servers tee

# ask: how stored series are asked for, and who takes what others wait for
query: metric
rivals: metric query

# remember: what was measured, and what was found in it
store/space: disk host metric
store/repair: disk host store/space
store: contain disk host locked metric printable quota store/repair store/space
store/storetest: metric store
result: contain disk document host metric printable quota stats tee
findings: contain disk host locked metric query rivals tee
findings/anomaly: findings metric query stats
findings/notify: contain findings locked metric printable query

docstest: findings golden metric probe

# explain
explain: metric printable query result rivals stats
explain/causes: explain
explain/prices: explain host machine stats workloads/micro
findings/rules: contain explain/causes explain/prices findings findings/anomaly metric query rivals stats

# compare
environment: contain host machine metric printable result tee
verdict: explain metric result stats tee
bench: contain environment host machine metric printable result stats tee verdict workloads/micro
bench/commits: host result verdict
load: locked
load/protocols: load servers
channel:
channelbench:
provereport:
tunnel: channel metric
attest: host
attest/attesttest: attest
attest/swtpm: await host
proof: attest result
proof/peer: attest proof
bench/benchtest: bench host
bench/workloads: bench channelbench document host load metric provereport stats workloads/gpu workloads/micro
bench/launchers: bench host locked machine result tee workloads/micro
bench/counting: bench contain explain host locked metric probe probe/sources result tee tee/kinds workloads/micro
worker: attest channel channelbench document host load load/protocols machine
prove: provereport
claims: metric stats

# show
ui:
fleet: contain findings locked metric query
feed: contain locked metric
report: contain experiments explain findings metric printable result stats tee
reproduce: claims contain metric report result stats verdict
report/formats: findings printable report result stats
authority: host locked
web: authority explain feed findings findings/anomaly fleet metric probe query quota report result tee
monitor/client: build configfile host metric printable store web
port: configfile contain host locked web
observe: authority build configfile contain explain explain/prices fleet host machine metric port probe probe/bpf probe/budget probe/sources query result servers store/page tee tee/kinds web
agent: build configfile contain metric observe printable probe web
monitor/config: build configfile findings findings/notify findings/rules metric observe probe query store web
monitor: build contain environment explain explain/prices feed findings findings/anomaly findings/notify fleet host locked machine metric monitor/client monitor/config observe probe proof query quota result rivals stats store tee tee/kinds ui verdict web
top: contain explain findings metric monitor/client observe printable query tee web
cli: agent attest authority bench bench/commits bench/counting bench/launchers bench/workloads build channel claims configfile contain environment experiments explain explain/causes explain/prices findings findings/anomaly host licenses machine metric monitor monitor/client monitor/config observe port printable probe probe/sources proof proof/peer query report report/formats reproduce result stats store tee tee/kinds top tunnel verdict web
cmd/teescope: cli
cmd/teescope-agent: agent
cmd/teescope-work: worker
cmd/teescope-prove: prove
`

// onlyIn names packages of others, and the rooms that alone may import them.
var onlyIn = map[string][]string{
	"github.com/prometheus/prometheus/": {"internal/store"},
	"github.com/cilium/ebpf":            {"internal/probe/bpf"},
	"github.com/spf13/cobra":            {"internal/cli", "internal/agent", "internal/build"},
	"github.com/consensys/":             {"internal/prove"},
}

// members are folders of lists; they may not import each other, so they are flat.
var members = []string{"probe/sources", "tee/kinds", "bench/workloads", "bench/launchers", "findings/rules", "report/formats", "load/protocols", "explain/causes", "explain/prices"}

// shared are the lists that members of another may import: a rule takes the advice on a
// cause, and the price of an event, from where explanations and comparisons take them.
var shared = []string{"explain/causes", "explain/prices"}

func TestImports(t *testing.T) {
	may := picture(t)
	used := map[[2]string]bool{}
	root := ".."
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "node_modules" || d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && path != root) {
			return filepath.SkipDir
		}
		if d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		rel, _ := filepath.Rel(root, path)
		dir := filepath.ToSlash(filepath.Dir(rel))
		room := strings.TrimPrefix(dir, "internal/")
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		allowed, known := may[room]
		if !known && (strings.HasPrefix(dir, "internal/") || strings.HasPrefix(dir, "cmd/")) {
			t.Errorf("%s: the room is not in the picture of imports", rel)
		}
		used[[2]string{room, room}] = true
		for _, im := range f.Imports {
			p, _ := strconv.Unquote(im.Path.Value)
			for prefix, homes := range onlyIn {
				if strings.HasPrefix(p, prefix) && !slices.ContainsFunc(homes, func(home string) bool { return strings.HasPrefix(dir+"/", home+"/") }) {
					t.Errorf("%s imports %s, which belongs in %s alone", rel, p, strings.Join(homes, ", "))
				}
			}
			own, ok := strings.CutPrefix(p, module)
			if !ok || !known {
				continue
			}
			own = strings.TrimPrefix(own, "internal/")
			used[[2]string{room, own}] = true
			if !slices.Contains(allowed, own) {
				t.Errorf("%s imports %s: not an arrow of the picture of imports", rel, own)
			}
			if slices.Contains(members, room) && slices.Contains(members, own) && !slices.Contains(shared, own) {
				t.Errorf("%s: a member imports another list's members (%s)", rel, own)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for room, allowed := range may {
		if !used[[2]string{room, room}] {
			t.Errorf("the picture of imports has a room %s, which is not there", room)
		}
		for _, own := range allowed {
			if !used[[2]string{room, own}] {
				t.Errorf("the picture of imports lets %s import %s, which it does not", room, own)
			}
		}
	}
}

// TestHostIsTheDoor: only host, cli and what it is built on, store, result, the queues and the programs inside environments touch the file system.
func TestHostIsTheDoor(t *testing.T) {
	allowed := []string{"disk", "host", "host/hosttest", "probe/probetest", "cli", "monitor", "configfile", "port", "observe", "store", "store/repair", "store/space", "store/storetest", "result", "findings", "probe/bpf", "worker", "prove", "load", "attest/swtpm", "await", "golden", "docstest"}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		if slices.Contains(allowed, filepath.ToSlash(filepath.Dir(path))) {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, im := range f.Imports {
			if p, _ := strconv.Unquote(im.Path.Value); p == "os" || p == "os/exec" || p == "io/ioutil" {
				t.Errorf("%s imports %s: go through internal/host", path, p)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestPricesMeetCountsInExplain: a calibrated price is multiplied by a count in explain alone. Only observe also names the
// metric, which it exports; rules take the query from explain/prices.
func TestPricesMeetCountsInExplain(t *testing.T) {
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		path = filepath.ToSlash(path)
		if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") ||
			strings.HasPrefix(path, "explain/") || path == "observe/costs.go" {
			return err
		}
		text, err := os.ReadFile(path)
		for _, name := range []string{`"tee_unit_cost_seconds`, "tee_unit_cost_seconds{", "explain.UnitCost"} {
			if strings.Contains(string(text), name) {
				t.Errorf("%s reads what an event costs: let explain/prices.Query write the query", path)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// picture turns the table into "room -> what it may import", and holds that every
// room imports only rooms above it.
func picture(t *testing.T) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	for line := range strings.Lines(table) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		room, rest, ok := strings.Cut(line, ":")
		if !ok || out[room] != nil {
			t.Fatalf("the picture of imports: %q", line)
		}
		imports := strings.Fields(rest)
		for _, own := range imports {
			if out[own] == nil {
				t.Errorf("the picture of imports: %s is not above %s", own, room)
			}
		}
		out[room] = append([]string{}, imports...)
	}
	return out
}
