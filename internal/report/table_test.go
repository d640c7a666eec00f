package report

import (
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/stats"
)

// rendered returns a table as text: the columns, then the rows, a missing value with its reason.
func rendered(t *Table) string {
	lines := []string{strings.Join(t.Columns, " | ")}
	for _, r := range t.Rows {
		var cells []string
		for _, c := range r {
			if c.Reason != "" {
				c.Text += ": " + c.Reason
			}
			cells = append(cells, c.Text)
		}
		lines = append(lines, strings.Join(cells, " | "))
	}
	return strings.Join(lines, "\n")
}

// timed returns a run of one metric, "work_seconds".
func timed(env, kase string, seconds float64, status result.Status) result.Run {
	return result.Run{Env: env, Case: kase, Status: status, Seconds: seconds, Metrics: []result.Metric{{Name: "work_seconds", Value: &seconds}}}
}

// swept returns a job on 1, 2 and 4 threads, in an arm that scales and one that stops scaling.
func swept() *result.Experiment {
	e := &result.Experiment{
		Workload:     result.Workload{Metrics: []result.MetricDesc{{Name: "work_seconds", Unit: "seconds", Better: "lower"}}},
		Environments: []result.Environment{{ID: "native"}, {ID: "vm"}},
	}
	for _, threads := range []string{"4", "1", "2"} {
		e.Cases = append(e.Cases, result.Case{ID: "threads=" + threads, Params: map[string]string{"threads": threads}})
	}
	for kase, seconds := range map[string][2]float64{"threads=1": {8, 9}, "threads=2": {4, 0}, "threads=4": {2, 9}} {
		e.Runs = append(e.Runs, timed("native", kase, seconds[0], result.OK))
		if seconds[1] > 0 {
			e.Runs = append(e.Runs, timed("vm", kase, seconds[1], result.OK))
		}
	}
	e.Runs = append(e.Runs, result.Run{Env: "vm", Case: "threads=2", Status: result.Failed, Reason: "out of memory"})
	cost, low, high := 4.5, 4.0, 5.0
	e.Comparisons = []result.Comparison{
		{Metric: "work_seconds", Case: "threads=4", Baseline: "native", Treatment: "vm", Cost: &cost, CostLow: &low, CostHigh: &high, Primary: true, Verdict: stats.Invalid},
	}
	return e
}

// TestSweepTable: medians, the efficiency against the arm's own first point, and the cost, each
// missing where a run failed.
func TestSweepTable(t *testing.T) {
	tables := sweepTables(swept())
	if len(tables) != 1 || tables[0].Caption != "work over threads" {
		t.Fatalf("%d tables: %+v", len(tables), tables)
	}
	want := `threads | native | vm | native, efficiency | vm, efficiency | vm, cost
1 | 8 s | 9 s | 100 % | 100 % | missing: not compared at this point
2 | 4 s | missing: the run failed: out of memory | 100 % | missing: the arm has no value here | missing: not compared at this point
4 | 2 s | 9 s | 100 % | 25 % | 4.5x [4, 5], refused`
	if got := rendered(tables[0]); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	e := swept()
	e.Workload.Metrics[0].Better = "none"
	if got := rendered(sweepTables(e)[0]); strings.Contains(got, "efficiency") {
		t.Errorf("a metric without a better direction has an efficiency:\n%s", got)
	}
}

// TestSpreadTable: quartiles appear only with enough runs, and runs that do not count are mentioned.
func TestSpreadTable(t *testing.T) {
	e := swept()
	e.Cases, e.Runs = e.Cases[:1], nil
	for _, v := range []float64{5, 1, 3, 2, 4} {
		e.Runs = append(e.Runs, timed("native", "threads=4", v, result.OK))
	}
	e.Runs = append(e.Runs, timed("vm", "threads=4", 7, result.OK), timed("vm", "threads=4", 70, result.Excluded))
	got := spreadTable(e, []string{"threads=4"}, "work_seconds")
	want := `environment | runs | not counted | median | range | quartiles | standard deviation | variance
native | 5 | 0 | 3 s | 1 to 5 s | 2 to 4 s | 1.58 s (52.7 %) | 2.5
vm | 1 | 1 | 7 s | 7 to 7 s | missing: fewer than 5 runs | missing: fewer than 5 runs | missing: fewer than 5 runs`
	if r := rendered(got); r != want {
		t.Errorf("got\n%s\nwant\n%s", r, want)
	}
	if got.Caption != "Spread of work, variance in s²" {
		t.Errorf("the caption is %q", got.Caption)
	}
	e.Runs = e.Runs[4:]
	if r := rendered(spreadTable(e, []string{"threads=4"}, "work_seconds")); strings.Contains(r, "quartiles") {
		t.Errorf("quartiles of single runs:\n%s", r)
	}
}

// TestCounterTable: values equal in every row move to the caption, and counters that counted nothing come last.
func TestCounterTable(t *testing.T) {
	count := func(name string, v float64, scope string, trust result.Trust) result.Counter {
		return result.Counter{Name: name, Value: &v, Scope: scope, Trust: trust}
	}
	run := func(env string, c ...result.Counter) result.Run {
		return result.Run{Env: env, Case: "default", Status: result.OK, Counters: c}
	}
	e := &result.Experiment{
		Environments: []result.Environment{{ID: "native"}, {ID: "sgx"}},
		Runs: []result.Run{
			run("native", count("tee_zeros_total", 0, "process", result.Full), count("tee_syscalls_total", 4, "process", result.Full), count("tee_llc_misses_total", 9, "machine", result.Partial)),
			run("sgx", count("tee_zeros_total", 0, "process", result.Full), count("tee_syscalls_total", 40, "process", result.Partial)),
		},
	}
	got := counterTable(e, "default")
	want := `counter | of | native | sgx
syscalls | the workload | 4 | ≥ 40
llc misses | the whole machine | ≤ 9 | missing: this counter has no reading in this arm
zeros | the workload | 0 | 0`
	if r := rendered(got); r != want || got.Caption != "Counters per run" {
		t.Errorf("%q:\n%s\nwant\n%s", got.Caption, r, want)
	}
}

// TestHarnessTable: the share of counting is the median over the runs, and a missing measurement has its reason.
func TestHarnessTable(t *testing.T) {
	used := func(env string, cpu *float64, seconds float64) result.Run {
		return result.Run{Env: env, Seconds: seconds, Interference: result.Interference{MonitorCPU: cpu, Missing: map[string]string{"monitor_cpu_seconds": "no counters"}}}
	}
	open, little, more := 0.5, 0.02, 0.06
	e := &result.Experiment{
		Environments: []result.Environment{{ID: "native", OpenSeconds: &open, NullSeconds: &result.Spread{Min: 0.001, Mean: 0.002, Max: 0.004, N: 3}}, {ID: "vm", Missing: map[string]string{"first_run_seconds": "it failed"}}},
		Runs:         []result.Run{used("native", &little, 2), used("native", &more, 2), used("vm", nil, 2)},
	}
	want := `environment | time to open | an empty run | the first run, not counted | counting, share of a core
native | 500 ms | 2 ms (1 to 4 ms) | missing: it failed or was not timed | 2 %
vm | missing: not timed | missing: not measured, or the environment runs only its own programs | missing: it failed | missing: no counters`
	if got := rendered(harnessTable(e)); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestTables: the page's tables are of the chosen case and metric, with a mark for each reason.
func TestTables(t *testing.T) {
	captions := map[string]SectionTable{}
	for _, s := range Tables(swept(), View{Case: "threads=2"}) {
		captions[s.Section+": "+s.Caption] = s
	}
	spread := captions["runs: Spread of work"]
	if len(captions) != 3 || len(captions["scaling: work over threads"].Rows) != 3 || len(captions["harness: The harness's own cost"].Rows) != 2 {
		t.Errorf("tables %v", captions)
	}
	if len(spread.Rows) != 2 || len(spread.Footnotes) != 1 || spread.Footnotes[0] != (Note{"a", "the run failed: out of memory"}) {
		t.Errorf("the spread is %+v", spread)
	}
	e := swept()
	e.Comparisons = nil
	if first := Tables(e, View{})[0]; first.Section != "costs" || first.Caption != "Medians" || len(first.Rows) != 6 {
		t.Errorf("without comparisons the first table is %+v", first)
	}
}
