package report

import (
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/result"
)

func TestStarts(t *testing.T) {
	value := func(v float64) *float64 { return &v }
	e := &result.Experiment{
		Environments: []result.Environment{{ID: "jvm"}, {ID: "go"}, {ID: "silent"}},
		Runs: []result.Run{
			{Env: "jvm", Case: "clients=1", Status: result.OK, Metrics: []result.Metric{
				{Name: "load_seconds", Value: value(0.2)}, {Name: "listen_seconds", Value: value(0.5)},
				{Name: "first_message_seconds", Value: value(0.1)}, {Name: "build_seconds", Value: value(9)}}},
			{Env: "go", Case: "clients=1", Status: result.OK, Metrics: []result.Metric{
				{Name: "load_seconds", Value: value(0.01)}, {Name: "listen_seconds", Value: value(0.002)}}},
			{Env: "silent", Case: "clients=1", Status: result.OK, Metrics: []result.Metric{{Name: "load_seconds", Reason: "not said"}}},
		},
	}
	p, ok := starts(e)
	if want := "jvm: load 200 ms, listen 500 ms, first message 100 ms. go: load 10 ms, listen 2 ms"; !ok || p.Alt != want {
		t.Fatalf("the plot (%v) shows %q, want %q", ok, p.Alt, want)
	}
	if !strings.HasSuffix(p.Title, "medians of the parts") {
		t.Errorf("the title %q does not say of what the sum is", p.Title)
	}
	if svg := string(p.SVG()); !strings.Contains(svg, "800 ms") || strings.Contains(svg, "silent") {
		t.Error("the plot lacks the sum of 800 ms, or has an arm that gave no times")
	}
	e.Runs = e.Runs[2:]
	if _, ok := starts(e); ok {
		t.Error("there is a plot of nothing")
	}
}
