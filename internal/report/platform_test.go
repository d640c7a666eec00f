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
		"echo", "1.3 s", "2.3 s", "3.3 s",
		"echo, cost", "baseline", "missing: not compared with a", "missing: not compared with a",
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

// TestPlatformColumns: one machine is one column, whatever tools each workload needed; another machine of the same label is
// another, and no value stands in the column of a machine that did not give it.
func TestPlatformColumns(t *testing.T) {
	add := func(e *result.Experiment, id, host, tool string) {
		e.Environments = append(e.Environments, result.Environment{ID: id, Fingerprint: host + tool, Class: "c", Hardware: result.Hardware{Serial: host},
			Software: result.Software{Versions: map[string]string{tool: "1", "gramine": "1.9"}, Worker: map[string]string{tool: "gcc"}}})
	}
	experiment := func(name, machine, tool string, value float64) *result.Experiment {
		e := &result.Experiment{Name: name, Workload: result.Workload{Name: name, Metrics: []result.MetricDesc{{Name: "rate", Unit: "requests_per_second", Better: "higher"}}},
			Cases: []result.Case{{ID: "default"}}}
		e.Design.Primary = "rate"
		for i, id := range []string{"native", "gramine-direct"} {
			add(e, id, machine, tool)
			v := value * float64(i+1)
			e.Runs = append(e.Runs, result.Run{ID: id, Env: id, Case: "default", Status: result.OK, Metrics: []result.Metric{{Name: "rate", Value: &v}}})
		}
		return e
	}
	s := platforms(Document{Experiments: []*result.Experiment{
		experiment("redis", "a", "redis-server", 100), experiment("nginx", "a", "nginx", 300), experiment("startup", "b", "micro", 700)}})
	if len(s) != 1 {
		t.Fatalf("%+v", s)
	}
	table := s[0].Tables[0]
	if got := fmt.Sprint(table.Columns); got != "[environment native gramine-direct native gramine-direct]" {
		t.Errorf("columns %s", got)
	}
	checked := 0
	for _, row := range table.Rows {
		var got []string
		for _, c := range row {
			got = append(got, c.Text)
		}
		name, values := got[0], strings.Join(got[1:], ", ")
		want, ok := map[string]string{
			"redis: rate":   "100 requests/s, 200 requests/s, not run, not run",
			"nginx: rate":   "300 requests/s, 600 requests/s, not run, not run",
			"startup: rate": "not run, not run, 700 requests/s, 1.4 k requests/s",
		}[name]
		if ok {
			checked++
		}
		if ok && values != want {
			t.Errorf("%s: %s, want %s", name, values, want)
		}
		if name == "toolchain" && !strings.Contains(values, "nginx") {
			t.Errorf("toolchains: %s", values)
		}
	}
	if checked != 3 {
		t.Errorf("%d rows of values, want 3", checked)
	}
	old := experiment("redis", "a", "redis-server", 1)
	again := experiment("redis", "a", "redis-server", 1)
	again.Environments[0].Fingerprint, again.Environments[0].Software.Versions["gramine"] = "another", "2.0"
	if alike(&old.Environments[0], &again.Environments[0]) {
		t.Error("two versions of Gramine are one platform")
	}
	if other := experiment("nginx", "", "nginx", 1); alike(&experiment("redis", "", "redis-server", 1).Environments[0], &other.Environments[0]) {
		t.Error("two machines without an id are one platform")
	}
	newer := experiment("nginx again", "a", "nginx", 1)
	newer.Environments[0].Fingerprint, newer.Environments[0].Software.Versions["nginx"] = "upgraded", "2"
	s = platforms(Document{Experiments: []*result.Experiment{old, experiment("nginx", "a", "nginx", 1), newer}})
	if got := fmt.Sprint(s[0].Tables[0].Columns); got != "[environment native gramine-direct native]" {
		t.Errorf("with two versions of nginx: columns %s", got)
	}
}
