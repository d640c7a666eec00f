package cli

import (
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/stats"
)

// ladder is a result whose cost follows a parameter as f says, with one counter
// that follows the cost and one that does not.
func ladder(f func(x float64) float64, sizes ...string) *result.Experiment {
	e := &result.Experiment{}
	for i, size := range sizes {
		c := result.Case{ID: "size=" + size, Params: map[string]string{"size": size, "access": "latency"}}
		x, err := metric.ParseSize(size)
		if err != nil {
			c.Params["size"] = size
		}
		cost := f(x)
		e.Cases = append(e.Cases, c)
		e.Comparisons = append(e.Comparisons,
			result.Comparison{Baseline: "native", Treatment: "sgx", Case: c.ID, Metric: "latency_seconds", Primary: true, Cost: &cost, Pairs: 10, Verdict: stats.Cost},
			result.Comparison{Baseline: "native", Treatment: "sgx", Case: c.ID, Metric: "other", Cost: &cost, Pairs: 10})
		e.Attribution = append(e.Attribution,
			result.Attribution{Baseline: "native", Treatment: "sgx", Case: c.ID, Counter: "tee_page_faults_total", Delta: cost * 7},
			result.Attribution{Baseline: "native", Treatment: "sgx", Case: c.ID, Counter: "tee_context_switches_total", Delta: float64(i % 2)})
	}
	return e
}

func TestPredictCommand(t *testing.T) {
	line := func(x float64) float64 { return 1 + x/(100<<20) }
	sizes := []string{"1MiB", "8MiB", "16M", "32MiB", "65536KiB"}
	refused := ladder(line, sizes...)
	refused.Comparisons[2].Verdict = stats.Invalid
	single := ladder(line, sizes...)
	single.Comparisons = nil
	others := ladder(line, sizes...)
	others.Cases[0].Params["access"] = "throughput"
	for name, tt := range map[string]struct {
		e       *result.Experiment
		setting string
		want    []string // parts of the output, or of the error
		fails   bool
	}{
		"between": {ladder(line, sizes...), "size=48MiB", []string{
			"sgx against native: predicted cost at size=48MiB: 1.48x [1.48, 1.48] (95 % prediction interval).",
			"fitted to 5 settings as y = a + b x",
			"tee_page_faults_total per operation follows the cost: rank correlation 1, p = 0.0333 (corrected for 2 counters)",
		}, false},
		"beyond":           {ladder(line, sizes...), "size=80MiB", []string{"predicted cost at size=80MiB: 1.8x [1.8, 1.8]", "outside the measured settings"}, false},
		"too far":          {ladder(line, sizes...), "size=1GiB", []string{"no prediction: setting 1.073741824e+09 is too far"}, false},
		"one refused":      {refused, "size=48MiB", []string{"(invalid comparisons left out: 1)", "fitted to 4 settings"}, false},
		"few settings":     {ladder(line, "1MiB", "2MiB"), "size=3MiB", []string{"no prediction: 2 settings: a curve needs at least 4"}, false},
		"others differ":    {others, "size=48MiB", []string{"access=latency: predicted cost at size=48MiB", "access=throughput: no prediction: 1 settings"}, false},
		"no value":         {ladder(line, sizes...), "size", []string{"want PARAM=VALUE"}, true},
		"no number":        {ladder(line, sizes...), "size=big", []string{`"big": want a number or a size`}, true},
		"infinite":         {ladder(line, sizes...), "size=1e999", []string{`want a number or a size`}, true},
		"no such param":    {ladder(line, sizes...), "threads=4", []string{"the result has fewer than two values of this parameter; parameters with several values: size"}, true},
		"not of numbers":   {ladder(line, "small", "large"), "size=1", []string{`case size=small: "small"`}, true},
		"nothing compared": {single, "size=48MiB", []string{"the result has no comparison"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := predict(tt.e, tt.setting)
			if (err != nil) != tt.fails {
				t.Fatal(got, err)
			}
			if err != nil {
				got = err.Error()
			}
			got = strings.Join(strings.Fields(got), " ")
			for _, w := range tt.want {
				if !strings.Contains(got, w) {
					t.Errorf("said %q, want %q", got, w)
				}
			}
		})
	}
}

// TestPredictChange prints what a change of the TEE's events does; package explain has the numbers.
func TestPredictChange(t *testing.T) {
	v := func(x float64) *float64 { return &x }
	e := ladder(func(float64) float64 { return 2 }, "1MiB")
	e.Comparisons[0].CostLow, e.Comparisons[0].CostHigh = v(1.9), v(2.1)
	for _, a := range []result.Attribution{
		{Metric: "tee_process_cpu_seconds_total", Base: v(1e-3), Delta: 1e-3},
		{Metric: "tee_sgx_process_enclave_faults_total", Base: v(0), Delta: 20, UnitCost: v(10e-6), Seconds: v(200e-6), Share: v(0.2)},
	} {
		a.Baseline, a.Treatment, a.Case, a.Counter = "native", "sgx", "size=1MiB", a.Metric
		e.Attribution = append(e.Attribution, a)
	}
	got, err := predict(e, "enclave_faults=0.5x")
	got = strings.Join(strings.Fields(got), " ")
	if want := "sgx against native, size=1MiB: predicted cost with 0.5x of enclave_faults: 1.9x [1.81, 1.99]; it was 2x [1.9, 2.1]. assumes: one of faults on enclave memory costs as much as now, 10 µs (measured) assumes: faults on enclave memory are 20 % "; err != nil || !strings.HasPrefix(got, want) {
		t.Errorf("said %q, %v; want %q", got, err, want)
	}
	got, err = predict(e, "epc=2x")
	if want := "no prediction: pages loaded back into the EPC were not counted in both arms."; err != nil || !strings.Contains(strings.Join(strings.Fields(got), " "), want) {
		t.Errorf("said %q, %v", got, err)
	}
	if _, err = predict(e, "pages=2x"); err == nil || !strings.Contains(err.Error(), `"pages": want one of epc, transitions`) {
		t.Errorf("error %v", err)
	}
	if _, err = predict(&result.Experiment{}, "epc=2x"); err == nil || !strings.Contains(err.Error(), "the result has no comparison") {
		t.Errorf("error %v", err)
	}
}
