package cli

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"slices"
	"testing"

	"github.com/teescope/teescope/experiments"
	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/bench/workloads"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/report"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/tee"
	"github.com/teescope/teescope/internal/tee/kinds"
	"github.com/teescope/teescope/internal/verdict"
)

// TestPublishedFigures: each published figure names workloads, metrics, parameters and TEEs that exist.
func TestPublishedFigures(t *testing.T) {
	all, err := report.ParsePublished(experiments.Published)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		for _, kind := range p.TEEs {
			if !slices.ContainsFunc(kinds.All, func(k *tee.Kind) bool { return k.Name == kind }) {
				t.Errorf("%s: no TEE is called %s", p.ID, kind)
			}
		}
		for _, name := range p.Workloads {
			i := slices.IndexFunc(workloads.All, func(w *bench.Workload) bool { return w.Name == name })
			if i < 0 {
				t.Errorf("%s: no workload is called %s", p.ID, name)
				continue
			}
			w := workloads.All[i]
			params, err := bench.Complete("workload "+name, w.Params, bench.Params(p.Case))
			if err != nil {
				t.Errorf("%s: case: %v", p.ID, err)
				continue
			}
			for _, m := range p.Metrics {
				if !slices.ContainsFunc(w.Metrics(params), func(d *metric.Desc) bool { return d.Name == m }) {
					t.Errorf("%s: workload %s has no metric %s", p.ID, name, m)
				}
			}
		}
	}
}

// TestSpecifications: each specification names a workload, metric and parameter that exist.
func TestSpecifications(t *testing.T) {
	all, err := report.ParseSpecified(experiments.Specifications)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		i := slices.IndexFunc(workloads.All, func(w *bench.Workload) bool { return w.Name == s.Workload })
		if i < 0 {
			t.Errorf("no workload is called %s", s.Workload)
			continue
		}
		w := workloads.All[i]
		params, err := bench.Complete("workload "+w.Name, w.Params, bench.Params{s.CaseParam: s.Value})
		if err != nil || !slices.ContainsFunc(w.Metrics(params), func(d *metric.Desc) bool { return d.Name == s.Metric }) {
			t.Errorf("%s: workload %s has no metric %s with %s=%s: %v", s.GPU, w.Name, s.Metric, s.CaseParam, s.Value, err)
		}
	}
}

// TestPublishedDecideNothing: verdicts are equal byte by byte with and without published figures, whatever these say.
func TestPublishedDecideNothing(t *testing.T) {
	all, err := report.ParsePublished(experiments.Published)
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join("testdata", "recorded", "*.json.gz"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		var told [][]byte
		for _, with := range []bool{false, true} {
			e, err := result.Parse(unpacked(t, file))
			if err != nil {
				t.Fatal(err)
			}
			if with {
				for _, p := range all {
					e.References = append(e.References, p.Reference)
				}
				e.References = append(e.References, result.Reference{ID: "absurd", Low: 1e-6, High: 1e-6, Unit: "cost_ratio", Citation: "a test", Workload: e.Workload.Name, Source: result.Literature})
			}
			verdict.Conclude(e, judged())
			if len(e.Comparisons) == 0 {
				t.Fatalf("%s: nothing is compared", file)
			}
			e.References = nil
			b, err := json.Marshal(e)
			if err != nil {
				t.Fatal(err)
			}
			told = append(told, b)
		}
		if !bytes.Equal(told[0], told[1]) {
			t.Errorf("%s: published figures change the document", file)
		}
	}
}
