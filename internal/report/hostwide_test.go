package report

import (
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/explain"
	"github.com/teescope/teescope/internal/result"
)

// TestHostTable: the whole machine and its helpers are listed with the workload, each in its own row, per 100
// requests of a server.
func TestHostTable(t *testing.T) {
	count := func(name string, requests float64, labels ...string) result.Counter {
		c := result.Counter{Name: name, Labels: map[string]string{}, Value: new(float64), PerOperation: new(float64), Scope: "process", Trust: result.Full}
		*c.Value, *c.PerOperation = requests*1000, requests
		for i := 0; i+1 < len(labels); i += 2 {
			c.Labels[labels[i]] = labels[i+1]
		}
		return c
	}
	none := result.Counter{Name: "tee_llc_misses_total", Scope: "machine", Trust: result.None, Note: "no performance counters"}
	ofMachine := count("tee_llc_misses_total", 8)
	ofMachine.Scope, ofMachine.Trust = "machine", result.Partial
	const cpu = explain.CPUAccount
	run := func(env string, own, host []result.Counter) result.Run {
		return result.Run{Env: env, Case: "default", Status: result.OK, Counters: own, HostCounters: append(host, none)}
	}
	e := &result.Experiment{
		Workload:     result.Workload{Operations: "n", Metrics: []result.MetricDesc{{Name: "n", Unit: "requests"}}},
		Environments: []result.Environment{{ID: "native"}, {ID: "sgx"}, {ID: "hidden"}},
		Runs: []result.Run{
			run("native", []result.Counter{count(explain.FaultCount, 0), count(cpu, 1e-6), ofMachine},
				[]result.Counter{count(explain.FaultCount, 6.07), count(cpu, 2e-6), count(cpu, 0, "helper", "kswapd*")}),
			run("sgx", []result.Counter{count(explain.FaultCount, 0.0002, "process", "loader", "space", "user"), count(explain.FaultCount, 0.0001, "process", "sh", "space", "user"),
				count(explain.FaultCount, 0.5, "process", "sh", "space", "kernel"), count(explain.FaultCount, 0.5003), count(cpu, 3e-6)},
				[]result.Counter{count(explain.FaultCount, 89.96), count(explain.FaultCount, 0.07, "helper", "vhost*"), count(cpu, 4e-6)}),
			run("hidden", nil, []result.Counter{count(explain.FaultCount, 1)}),
		},
	}
	table := hostTable(e, "default")
	var got []string
	for _, r := range table.Rows {
		var cells []string
		for _, c := range r {
			cells = append(cells, c.Text)
		}
		got = append(got, strings.Join(cells, " | "))
	}
	want := strings.Join([]string{
		"page faults, in user space | the workload | 0 | 0.03 | missing",
		"page faults | the workload | 0 | 50 | missing",
		"page faults | the whole machine | 607 | 9 k | 100",
		"page faults | vhost* | 0 | 7 | 0",
		"CPU time | the workload | 100 µs | 300 µs | missing",
		"CPU time | the whole machine | 200 µs | 400 µs | missing",
		"last-level cache misses | the whole machine | missing | missing | missing",
	}, "\n")
	if s := strings.Join(got, "\n"); s != want {
		t.Errorf("the table is\n%s\nwant\n%s", s, want)
	}
	if !strings.HasPrefix(table.Caption, "Host-wide, per 100 requests. ") {
		t.Errorf("the caption is %q", table.Caption)
	}
	if t2 := hostTable(&result.Experiment{Runs: []result.Run{{Counters: e.Runs[1].Counters}}}, ""); len(t2.Rows) > 0 {
		t.Errorf("a table of no host-wide counters has %d rows", len(t2.Rows))
	}
}
