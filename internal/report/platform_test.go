package report

import (
	"fmt"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/result"
)

// TestPlatforms: joined results have a row for each metric, first those that compare things of one run, with intervals.
func TestPlatforms(t *testing.T) {
	e := &result.Experiment{Name: "j", Workload: result.Workload{Name: "channel", Metrics: []result.MetricDesc{
		{Name: "echo_seconds", Unit: "seconds", Better: "lower"},
		{Name: "echo_cpu_seconds", Unit: "seconds", Better: "lower"},
		{Name: "channel_over_plain_seconds", Unit: "seconds", Better: "lower"},
		{Name: "operations_total", Unit: "operations", Better: "none"},
	}}, Cases: []result.Case{{ID: "default"}}}
	e.Design.Kind, e.Design.Primary = result.Unpaired, "echo_seconds"
	for i, env := range []string{"a", "b", "c"} {
		e.Environments = append(e.Environments, result.Environment{ID: env})
		for n := range 7 {
			r := result.Run{ID: fmt.Sprint(env, n), Env: env, Case: "default", Status: result.OK}
			for j, d := range e.Workload.Metrics {
				v := float64((i+1)*(j+1)) + float64(n)/10
				r.Metrics = append(r.Metrics, result.Metric{Name: d.Name, Value: &v})
			}
			if env == "c" {
				r.Metrics[1] = result.Metric{Name: "echo_cpu_seconds", Reason: "no clock"}
			}
			e.Runs = append(e.Runs, r)
		}
	}
	s := platforms(Document{Experiments: []*result.Experiment{e}})
	if len(s) != 1 || !strings.Contains(s[0].Lead, "95 % interval") {
		t.Fatalf("%+v", s)
	}
	var got []string
	for _, row := range s[0].Tables[0].Rows {
		if strings.Contains(row[0].Text, "echo") || strings.Contains(row[0].Text, "over") || strings.Contains(row[0].Text, "operations") {
			for _, c := range row {
				got = append(got, reasoned(c))
			}
		}
	}
	want := []string{
		"j: echo", "1.3 s", "2.3 s", "3.3 s",
		"j: echo, cost", "baseline", "missing: not compared with a", "missing: not compared with a",
		"channel over plain", "3.3 s [3.1 s, 3.5 s]", "6.3 s [6.1 s, 6.5 s]", "9.3 s [9.1 s, 9.5 s]",
		"echo cpu", "2.3 s [2.1 s, 2.5 s]", "4.3 s [4.1 s, 4.5 s]", "missing: no clock",
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("rows\n%q\nwant\n%q", got, want)
	}

	e.Design.Kind = result.Interleaved
	if s := platforms(Document{Experiments: []*result.Experiment{e}}); strings.Contains(s[0].Lead, "interval") {
		t.Errorf("of an interleaved result: %+v", s[0])
	}
}
