package bench

import (
	"errors"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/result"
)

// TestImpossibleValues: whatever a workload reads, its run has no value that cannot be, the document is written, and
// the other values of the run stay.
func TestImpossibleValues(t *testing.T) {
	lost := &metric.Desc{Name: "lost_ratio", Unit: "ratio", Kind: metric.Gauge, Help: "Lost."}
	for name, c := range map[string]struct {
		primary, lost float64
		breaks        bool
		series        []float64
		failed        string // reason of every run, "" for none
		missing       string // reason of lost_ratio
	}{
		"as it should be":         {primary: 1, lost: 0.5},
		"more lost than was sent": {primary: 1, lost: 1.79, missing: "impossible: it is 1.79, more than 1"},
		"negative losses":         {primary: 1, lost: -0.03, missing: "impossible: it is -0.03, less than 0"},
		"no number":               {primary: 1, lost: math.NaN(), missing: "not a finite number"},
		"a negative time":         {primary: -1, lost: 0.5, failed: "no took_seconds: impossible: it is -1, less than 0"},
		"a time that wrapped":     {primary: math.MaxUint64, lost: 0.5, failed: "which has wrapped"},
		"a window that is none":   {primary: 1, lost: 0.5, series: []float64{1, math.Inf(1), 1}},
		"a window below 0":        {primary: 1, lost: 0.5, series: []float64{1, -1, 1}},
		"a parser that crashes":   {breaks: true, failed: "crashed"},
	} {
		t.Run(name, func(t *testing.T) {
			p, o, _ := bed(t, 2, map[string]*scripted{"native": {factor: 1}, "tee": {factor: 1}})
			w := p.Workload
			w.Metrics = func(Params) []*metric.Desc { return []*metric.Desc{seconds, jobs, lost} }
			w.Parse = func(Outcome) ([]metric.Sample, error) {
				if c.breaks {
					panic("index out of range")
				}
				return []metric.Sample{{Desc: seconds, Value: c.primary}, {Desc: jobs, Value: 21}, {Desc: lost, Value: c.lost}}, nil
			}
			if c.series != nil {
				w.Series = func(Outcome) (Series, error) { return Series{Values: c.series, Width: 1}, nil }
			}
			path := filepath.Join(t.TempDir(), "r.json")
			if e, err := Run(t.Context(), p, o, path); e == nil || err != nil && !errors.Is(err, ErrArm) {
				t.Fatal(err)
			}
			e, err := result.Read(path)
			if err != nil {
				t.Fatal(err)
			}
			for i := range e.Runs {
				r := &e.Runs[i]
				if (r.Status == result.Failed) != (c.failed != "") || !strings.Contains(r.Reason, c.failed) {
					t.Errorf("%s: %s", r.Status, r.Reason)
				}
				if c.breaks {
					continue
				}
				if m := r.Metric("lost_ratio"); (m.Value == nil) != (c.missing != "") || m.Reason != c.missing {
					t.Errorf("%+v", m)
				}
				if m := r.Metric("job_operations"); m.Value == nil || *m.Value != 21 {
					t.Errorf("%+v", m)
				}
				if c.series != nil && (r.Warmup != nil || !strings.Contains(r.Missing["warmup"], "window 2")) {
					t.Errorf("%+v, %v", r.Warmup, r.Missing)
				}
			}
		})
	}
}

// TestCutOutput: a run says what was not kept of its outputs, and if it failed its reason does.
func TestCutOutput(t *testing.T) {
	for _, c := range []struct {
		out  Outcome
		want string
	}{
		{Outcome{}, ""},
		{Outcome{Inside: host.Output{Cut: host.Cut{Lines: 9}}}, ""},
		{Outcome{Inside: host.Output{Cut: host.Cut{Stdout: 10, Lines: 1}}}, "10 bytes in the middle of standard output were dropped; at most 4 MiB of an output are stored"},
		{Outcome{Inside: host.Output{Cut: host.Cut{Stderr: 10}}, Outside: host.Output{Cut: host.Cut{Stdout: 7}}},
			"10 bytes in the middle of standard error and 7 bytes in the middle of standard output of the load generator were dropped; at most 4 MiB of an output are stored"},
	} {
		t.Run(c.want, func(t *testing.T) {
			if got := cutOf(c.out); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
	cut := host.Output{Stdout: []byte("7\n"), Cut: host.Cut{Stdout: 99}}
	p, o, _ := bed(t, 2, map[string]*scripted{"native": {factor: 1, output: &cut}, "tee": {factor: 1, output: &cut}})
	e, err := Run(t.Context(), p, o, filepath.Join(t.TempDir(), "r.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range e.Runs {
		if !strings.HasPrefix(r.Missing["output"], "99 bytes") || r.Status != result.OK {
			t.Errorf("%s %s %v", r.Status, r.Reason, r.Missing)
		}
	}
	cut.Stdout = []byte("wrong 7\n")
	p, o, _ = bed(t, 2, map[string]*scripted{"native": {factor: 1, output: &cut}, "tee": {factor: 1, output: &cut}})
	if e, _ = Run(t.Context(), p, o, filepath.Join(t.TempDir(), "r.json")); e == nil || !strings.Contains(e.Runs[0].Reason, "the answer is wrong (99 bytes") {
		t.Errorf("%+v", e)
	}
}
