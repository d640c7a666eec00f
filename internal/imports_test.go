// Package internal_test guards the direction of imports: the table below is
// the architecture, and this test fails when the code leaves it.
package internal_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/teescope/teescope/"

// table reads "a, b < c, d": c and d may import a and b and whatever those may
// import. NONE imports nothing of the project. DO NOT CHANGE IT TO FIX A BUILD.
const table = `
NONE < host, metric, stats, ui, workloads/micro, experiments, claims, cause, schematest
host < tee
tee, metric < probe
metric < store
metric, stats, tee < result
result, host, workloads/micro < environment
stats, result, cause < verdict
environment, verdict < bench
result, metric, tee < analysis
host, stats, workloads/micro < calibrate
host < app
analysis, calibrate, stats, cause < cost
analysis, stats < anomaly
analysis < journal
journal < notify
tee, result < attest
NONE < load, channel
load < load/protocols
load/protocols, channel, attest < work
analysis, result < report
report, analysis, cost, anomaly, ui < web

host < host/hosttest
store < store/storetest
probe < probe/bpf
probe, probe/bpf, app < probe/sources
app < app/kinds
tee < tee/kinds
bench, load, channel, attest < bench/workloads
bench < bench/launchers
analysis, anomaly, cause < analysis/rules
report < report/formats

probe/sources, tee/kinds, bench/workloads, bench/launchers, analysis/rules, report/formats, app/kinds, notify, web, store, attest, experiments, claims < cli
cli < cmd/teescope
work < cmd/teescope-work
`

// onlyIn names packages of others that one room alone may import.
var onlyIn = map[string]string{
	"github.com/prometheus/prometheus/": "internal/store",
	"github.com/cilium/ebpf":            "internal/probe/bpf",
	"github.com/spf13/cobra":            "internal/cli",
}

// members may not import each other, so their folders are flat.
var members = []string{"probe/sources", "tee/kinds", "bench/workloads", "bench/launchers", "analysis/rules", "report/formats", "app/kinds", "load/protocols"}

func TestImports(t *testing.T) {
	may := closure(t)
	root := ".."
	checked := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "node_modules" || d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && path != root) {
			return filepath.SkipDir
		}
		if d.IsDir() || filepath.Ext(path) != ".go" {
			return nil
		}
		rel, _ := filepath.Rel(root, path)
		dir := filepath.ToSlash(filepath.Dir(rel))
		room := strings.TrimPrefix(dir, "internal/")
		test := strings.HasSuffix(path, "_test.go")
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		allowed, known := may[room]
		if !known && !test && (strings.HasPrefix(dir, "internal/") || strings.HasPrefix(dir, "cmd/")) {
			t.Errorf("%s: package is not in the import table", rel)
		}
		for _, im := range f.Imports {
			p, _ := strconv.Unquote(im.Path.Value)
			checked++
			for prefix, home := range onlyIn {
				if strings.HasPrefix(p, prefix) && !test && dir != home && !strings.HasPrefix(dir, home+"/") {
					t.Errorf("%s imports %s, which belongs in %s alone", rel, p, home)
				}
			}
			own, ok := strings.CutPrefix(p, module)
			if !ok || test || !known {
				continue
			}
			own = strings.TrimPrefix(own, "internal/")
			if own != room && !slices.Contains(allowed, own) {
				t.Errorf("%s imports %s: not allowed by the import table", rel, own)
			}
			if slices.Contains(members, room) && slices.Contains(members, own) && own != room {
				t.Errorf("%s: a member imports another list's members (%s)", rel, own)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if checked == 0 {
		t.Fatal("no import was checked")
	}
}

// TestHostIsTheDoor: only host, cli, store, result, the queues and the worker touch the file system.
func TestHostIsTheDoor(t *testing.T) {
	allowed := []string{"host", "host/hosttest", "cli", "store", "store/storetest", "result", "journal", "probe/bpf", "work", "load"}
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

// closure turns the table into "package -> all it may import".
func closure(t *testing.T) map[string][]string {
	t.Helper()
	direct := map[string][]string{}
	for _, line := range strings.Split(strings.TrimSpace(table), "\n") {
		left, right, ok := strings.Cut(line, "<")
		if !ok {
			continue
		}
		for _, r := range strings.Split(right, ",") {
			r = strings.TrimSpace(r)
			for _, l := range strings.Split(left, ",") {
				direct[r] = append(direct[r], strings.TrimSpace(l))
			}
		}
	}
	out := map[string][]string{}
	var walk func(from, at string)
	walk = func(from, at string) {
		for _, n := range direct[at] {
			if n != "NONE" && !slices.Contains(out[from], n) {
				out[from] = append(out[from], n)
				walk(from, n)
			}
		}
	}
	for p := range direct {
		out[p] = []string{}
		walk(p, p)
		if slices.Contains(out[p], p) {
			t.Fatalf("import table has a cycle through %s", p)
		}
	}
	return out
}
