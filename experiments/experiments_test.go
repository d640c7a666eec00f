package experiments_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/teescope/teescope/experiments"
	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/bench/launchers"
	"github.com/teescope/teescope/internal/bench/workloads"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
)

// TestExperiments: every file is a plan that could run where its hardware is,
// says where it comes from, and has its line in README.md.
func TestExperiments(t *testing.T) {
	files := experiments.Files.List()
	if len(files) < 50 {
		t.Fatalf("%d experiment files", len(files))
	}
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	lists := bench.Lists{Workloads: workloads.All, Launchers: launchers.All}
	for _, file := range files {
		t.Run(file, func(t *testing.T) {
			data, err := experiments.Files.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			e, err := bench.LoadExperiment(file, data)
			if err != nil {
				t.Fatal(err)
			}
			if file != e.Name+".yaml" {
				t.Errorf("its name is %q", e.Name)
			}
			if slices.ContainsFunc(workloads.All, func(w *bench.Workload) bool { return w.Name == e.Name }) {
				t.Errorf("%s is the name of a workload, which bench run would take instead", e.Name)
			}
			if !strings.HasSuffix(e.Doc, ".") || e.Source == "" {
				t.Error("needs a sentence for doc, and source")
			}
			if len(e.Environments) < 2 {
				t.Error("compares nothing: it has fewer than two environments")
			}
			if !strings.Contains(string(readme), "`"+e.Name+"`") {
				t.Error("README.md has no line for it")
			}
			plans, err := bench.NewPlans(bench.Choice{Experiment: e, Seed: 1}, lists)
			if err != nil || len(plans) != 1 {
				t.Fatalf("%d plans, want one: %v", len(plans), err)
			}
			p := plans[0]
			for _, c := range p.Cases {
				if !slices.ContainsFunc(p.Workload.Metrics(c.Params), func(m *metric.Desc) bool { return m.Name == p.Primary }) {
					t.Errorf("case %s has no metric %s, the primary one", c.ID, p.Primary)
				}
			}
		})
	}
}

// TestOthersCodes: the parsers of codes that are not ours find their number in a recorded output, and refuse one that is cut
// off, twice there, or not verified.
func TestOthersCodes(t *testing.T) {
	for name, c := range map[string]struct {
		metric string
		want   float64
		// refused replaces a line, after which the output is refused.
		line, refused string
	}{
		"unixbench": {"unixbench_index", 586, "System Benchmarks Index Score", "System Benchmarks Index Scor"},
		"npb":       {"npb_operations_per_second", 78.78e6, "SUCCESSFUL", "UNSUCCESSFUL"},
	} {
		t.Run(name, func(t *testing.T) {
			data, err := experiments.Files.ReadFile(name + ".yaml")
			if err != nil {
				t.Fatal(err)
			}
			e, err := bench.LoadExperiment(name, data)
			if err != nil {
				t.Fatal(err)
			}
			plans, err := bench.NewPlans(bench.Choice{Experiment: e, Seed: 1}, bench.Lists{Workloads: workloads.All, Launchers: launchers.All})
			if err != nil {
				t.Fatal(err)
			}
			stdout, err := os.ReadFile("testdata/" + name + ".txt")
			if err != nil {
				t.Fatal(err)
			}
			for _, x := range plans[0].Cases {
				accepted := func(stdout string) (float64, bool) {
					o := bench.Outcome{Params: x.Params, Inside: host.Output{Stdout: []byte(stdout)}}
					samples, err := plans[0].Workload.Parse(o)
					_, wrong := plans[0].Workload.Check(o)
					i := slices.IndexFunc(samples, func(s metric.Sample) bool { return s.Desc.Name == c.metric })
					if err != nil || wrong != nil || i < 0 {
						return 0, false
					}
					return samples[i].Value, true
				}
				if got, ok := accepted(string(stdout)); !ok || got != c.want {
					t.Errorf("%s: %v, %v, want %v", x.ID, got, ok, c.want)
				}
				for what, text := range map[string]string{
					"cut off": string(stdout[:len(stdout)/2]), "twice": string(stdout) + string(stdout), "other words": strings.Replace(string(stdout), c.line, c.refused, 1),
				} {
					if got, ok := accepted(text); ok {
						t.Errorf("%s, %s: accepted with %v", x.ID, what, got)
					}
				}
			}
		})
	}
}

// TestPacked: the packed files are those of the folders.
func TestPacked(t *testing.T) {
	for folder, pattern := range map[experiments.Folder]string{experiments.Files: "*.yaml", experiments.Sources: "*.yaml", experiments.Claims: "*.csv"} {
		files, err := filepath.Glob(filepath.Join(string(folder), pattern))
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, file := range files {
			names = append(names, filepath.Base(file))
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := folder.ReadFile(filepath.Base(file)); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s is not as packed (%v): go generate ./experiments", file, err)
			}
		}
		if packed := folder.List(); !slices.Equal(packed, names) {
			t.Errorf("%s: %q is packed, want %q: go generate ./experiments", folder, packed, names)
		}
	}
	for _, name := range []string{"none.yaml", "../experiments/e1-ladder.yaml", "sources/channel.yaml"} {
		t.Run(name, func(t *testing.T) {
			if _, err := experiments.Files.ReadFile(name); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}
