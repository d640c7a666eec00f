package cli

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/teescope/teescope/experiments"
	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/bench/workloads"
	"github.com/teescope/teescope/internal/reproduce"
	"github.com/teescope/teescope/internal/tee/kinds"
)

// TestSources: each answer of a source file is an experiment, one of its cases and one of its metrics, and each file of claims exists.
func TestSources(t *testing.T) {
	all, err := readSources()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 2 {
		t.Fatalf("%d sources", len(all))
	}
	plans := map[string][]*bench.Plan{}
	for _, s := range all {
		for i := range s.Tables {
			table := &s.Tables[i]
			for _, name := range table.Claims {
				if _, err := experiments.Claims.ReadFile(name); err != nil {
					t.Errorf("%s, %s: %v", s.ID, table.ID, err)
				}
			}
			for row := range table.Rows {
				for column := range table.Columns {
					if table.Rows[row].Published[column] == "" {
						continue
					}
					a := table.Cell(row, column)
					why := cmp.Or(checkAnswer(t, plans, a), checkEnv(plans, table, a), checkUnit(plans, table.Unit(row, column), a))
					if why != "" {
						t.Errorf("%s, %s, row %q, column %q: %s", s.ID, table.ID, table.Rows[row].Name, table.Columns[column].Name, why)
					}
				}
			}
		}
	}
}

// checkAnswer says what of an answer does not exist.
func checkAnswer(t *testing.T, plans map[string][]*bench.Plan, a reproduce.Answer) string {
	t.Helper()
	if a.Reason != "" {
		return ""
	}
	name := reproduce.ExperimentOf(a.Experiment, experimentNames())
	if name == "" {
		return "no experiment is called " + a.Experiment
	}
	if a.Arm != reproduce.Plain && a.Arm != reproduce.Cost && !slices.Contains(teeKinds(), string(a.Arm)) {
		return "no kind of TEE is called " + string(a.Arm)
	}
	if a.TEE != "" && !slices.Contains(teeKinds(), a.TEE) {
		return "no kind of TEE is called " + a.TEE
	}
	if plans[name] == nil {
		e, err := experiment(name)
		if err != nil {
			t.Fatal(err)
		}
		if plans[name], err = bench.NewPlans(bench.Choice{Experiment: e}, lists()); err != nil {
			t.Fatal(err)
		}
	}
	if name != a.Experiment { // a pass that follows has cases of its own
		return ""
	}
	for _, want := range []string{a.Case, a.Relative} {
		found := want == reproduce.AllCases || want == ""
		for _, p := range plans[name] {
			for i := range p.Cases {
				found = found || matchesCase(p.Cases[i].Params, want)
			}
		}
		if !found {
			return name + " has no case " + want
		}
	}
	if reproduce.IsCounter(a.Metric) {
		return checkCounter(t, a.Metric)
	}
	for _, p := range plans[name] {
		for i := range p.Cases {
			if a.Case != reproduce.AllCases && !matchesCase(p.Cases[i].Params, a.Case) {
				continue
			}
			for _, d := range p.Workload.Metrics(p.Cases[i].Params) {
				if d.Name == a.Metric {
					return ""
				}
			}
		}
	}
	return name + ", case " + a.Case + ", has no metric " + a.Metric
}

// checkEnv says that the experiment has no environment of the answer's label, where the table's setting does not say that the user gives it.
func checkEnv(plans map[string][]*bench.Plan, table *reproduce.Table, a reproduce.Answer) string {
	if a.Env == "" || a.Reason != "" || strings.Contains(table.Setting, "--env "+a.Env) {
		return ""
	}
	for _, p := range plans[a.Experiment] {
		if slices.ContainsFunc(p.Arms, func(x bench.Arm) bool { return x.Label == a.Env }) {
			return ""
		}
	}
	return a.Experiment + " has no environment " + a.Env + ", and the setting does not give one: --env " + a.Env
}

// dimensions are those of printed units, in base units of metrics without their rate.
var dimensions = map[string]string{
	"s": "seconds", "ms": "seconds", "us": "seconds", "ns": "seconds", "MB/s": "bytes/s", "GB/s": "bytes/s", "MiB/s": "bytes/s", "KiB/s": "bytes/s",
	"Mbit/s": "bits/s", "Gbit/s": "bits/s", "B": "bytes", "KB": "bytes", "MB": "bytes", "GB": "bytes", "IOPS": "operations/s", "kIOPS": "operations/s",
	"req/s": "requests/s", "kreq/s": "requests/s", "msg/s": "messages/s", "tok/s": "tokens/s", "MIPS": "instructions/s", "kHz": "cycles/s", "proofs/s": "proofs/s",
}

// checkUnit says that a printed unit is of another dimension than the metric, where both are known.
func checkUnit(plans map[string][]*bench.Plan, unit string, a reproduce.Answer) string {
	want := dimensions[unit]
	if want == "" || a.Reason != "" || a.Arm == reproduce.Cost || a.Relative != "" {
		return ""
	}
	for _, p := range plans[a.Experiment] {
		for i := range p.Cases {
			for _, d := range p.Workload.Metrics(p.Cases[i].Params) {
				got := strings.Replace(d.Unit, "_per_second", "/s", 1)
				if unit == "IOPS" || unit == "kIOPS" { // of Redis, an operation is a request
					got = strings.Replace(got, "requests/s", "operations/s", 1)
				}
				if d.Name == a.Metric && got != "" && got != want {
					return fmt.Sprintf("the printed unit %s is of %s, and %s is in %s", unit, want, a.Metric, d.Unit)
				}
			}
		}
	}
	return ""
}

// checkCounter says what of a counter docs/metrics.md does not name.
func checkCounter(t *testing.T, text string) string {
	t.Helper()
	b, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	text, machine := strings.CutPrefix(text, "machine:")
	name, _, _ := strings.Cut(text, "{")
	for line := range strings.Lines(string(b)) {
		cells := strings.Split(line, "|")
		if len(cells) < 5 || strings.TrimSpace(cells[1]) != "`"+name+"`" {
			continue
		}
		if !machine && !strings.Contains(cells[3], "`process`") {
			return name + " has no label process, so it counts the whole machine: want machine:" + text
		}
		return ""
	}
	return "docs/metrics.md has no counter " + name
}

func matchesCase(params map[string]string, want string) bool {
	return !slices.ContainsFunc(strings.Fields(want), func(kv string) bool {
		k, v, _ := strings.Cut(kv, "=")
		return params[k] != v
	})
}

func teeKinds() (out []string) {
	for _, k := range kinds.All {
		out = append(out, k.Name)
	}
	return out
}

// TestReproduceReport: a report of the kept results, by another name of the source and from a file of one's own.
func TestReproduceReport(t *testing.T) {
	out, errs, code := run(t, "reproduce", "report", "cmt", "--results", "../../experiments/results")
	if code != 0 {
		t.Fatalf("status %d: %s", code, errs)
	}
	for _, want := range []string{"# A secure channel on three clouds", "| Plaintext duplex | 20.2 us | 101.1 us | 84.4 us |", "e5-original-echo.json.gz", "no TEE took part"} {
		t.Run(want, func(t *testing.T) {
			if !strings.Contains(out, want) {
				t.Errorf("no %q in\n%s", want, out)
			}
		})
	}
	file := t.TempDir() + "/own.yaml"
	b, err := experiments.Sources.ReadFile("gramine.yaml")
	if err == nil {
		err = os.WriteFile(file, b, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	if out, errs, code = run(t, "reproduce", "report", file, "--results", t.TempDir()+"/none"); code != 0 || !strings.Contains(errs, "does not exist") || !strings.Contains(out, "Not tested here: no result has it.") {
		t.Errorf("status %d: %s%s", code, out, errs)
	}
	if _, errs, code = run(t, "reproduce", "report", "nobody"); code != exitUsage || !strings.Contains(errs, `no document is called "nobody": want`) {
		t.Errorf("status %d: %s", code, errs)
	}
}

// TestReproduceList names each table, and its experiments or why there are none.
func TestReproduceList(t *testing.T) {
	out, errs, code := run(t, "reproduce", "list")
	if code != 0 || errs != "" {
		t.Fatalf("status %d: %s", code, errs)
	}
	for _, want := range []string{"channel: A secure channel on three clouds", "by e5-original-echo", "nothing to run: no experiment asks it"} {
		t.Run(want, func(t *testing.T) {
			if !strings.Contains(out, want) {
				t.Errorf("no %q in\n%s", want, out)
			}
		})
	}
	if strings.Contains(out, "also: )") {
		t.Errorf("names without a name in\n%s", out)
	}
	names := map[string]string{}
	all, err := readSources()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		for _, n := range append([]string{s.ID}, s.Names...) {
			if names[n] != "" {
				t.Errorf("%s and %s are both called %s", names[n], s.ID, n)
			}
			names[n] = s.ID
		}
	}
	for _, w := range workloads.All {
		if s := names[w.Name]; s != "" && w.Name != "channel" {
			t.Errorf("the workload %s is called like the source %s", w.Name, s)
		}
	}
}

var updatePages = flag.Bool("update-sources", false, "write docs/sources from the kept results")

// TestSourcePages: docs/sources has a page for each source, made from the kept results.
func TestSourcePages(t *testing.T) {
	all, err := readSources()
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir("../..")
	for _, s := range all {
		out, errs, code := run(t, "reproduce", "report", s.ID, "--results", "experiments/results")
		if code != 0 || errs != "" {
			t.Fatalf("%s: status %d: %s", s.ID, code, errs)
		}
		page := "docs/sources/" + s.ID + ".md"
		if *updatePages {
			if err := os.WriteFile(page, []byte(out), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if b, err := os.ReadFile(page); err != nil || string(b) != out {
			t.Errorf("%s is out of date (%v): `go test ./internal/cli -run TestSourcePages -update-sources` writes it", page, err)
		}
	}
}
