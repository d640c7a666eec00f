package experiments_test

import (
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/teescope/teescope/experiments"
	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/bench/launchers"
	"github.com/teescope/teescope/internal/bench/workloads"
	"github.com/teescope/teescope/internal/metric"
)

// TestExperiments: every file is a plan that could run where its hardware is,
// says where it comes from, and has its line in README.md.
func TestExperiments(t *testing.T) {
	files, err := fs.Glob(experiments.Files, "*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no experiment files: %v", err)
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
