package report

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/teescope/teescope/experiments"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/tee"
)

// withArms returns a result of a workload with one comparison between two arms.
func withArms(workload, metric string, params map[string]string, base, treat result.TEE) *result.Experiment {
	cost, lo, hi := 1.4, 1.3, 1.5
	return &result.Experiment{
		Workload:     result.Workload{Name: workload, Metrics: []result.MetricDesc{{Name: metric, Better: "higher"}}},
		Cases:        []result.Case{{ID: "default", Params: params}},
		Environments: []result.Environment{{ID: "off", TEE: base}, {ID: "on", TEE: treat}},
		Comparisons:  []result.Comparison{{Baseline: "off", Treatment: "on", Case: "default", Metric: metric, Primary: true, Cost: &cost, CostLow: &lo, CostHigh: &hi}},
	}
}

// TestPublished: a published figure stands behind comparisons of its workload, metric, case and TEE, and of no others.
func TestPublished(t *testing.T) {
	none := result.TEE{Type: "none"}
	on := func(kind string) result.TEE { return result.TEE{Type: kind, Active: true} }
	gpu := on("tdx")
	gpu.Facts = []tee.Facts{{Kind: "nvidia-cc", Role: tee.Device, Active: true}}
	const seven = "total_instructions_per_second"
	for name, c := range map[string]struct {
		e    *result.Experiment
		want []string
	}{
		"the case":            {withArms("cpu-7zip", seven, map[string]string{"threads": "32"}, none, on("tdx")), []string{"tdx-7zip-32"}},
		"another case":        {withArms("cpu-7zip", seven, map[string]string{"threads": "3"}, none, on("tdx")), nil},
		"another TEE":         {withArms("cpu-7zip", seven, map[string]string{"threads": "32"}, none, on("sev")), nil},
		"no TEE":              {withArms("cpu-7zip", seven, map[string]string{"threads": "32"}, none, none), nil},
		"TEE in both":         {withArms("cpu-7zip", seven, map[string]string{"threads": "32"}, on("tdx"), on("tdx")), nil},
		"TEE that is not on":  {withArms("cpu-7zip", seven, map[string]string{"threads": "32"}, none, result.TEE{Type: "tdx"}), nil},
		"another metric":      {withArms("cpu-7zip", "compression_bytes_per_second", map[string]string{"threads": "32"}, none, on("tdx")), nil},
		"another workload":    {withArms("zk-rsa", seven, map[string]string{"threads": "32"}, none, on("tdx")), nil},
		"the GPU of a guest":  {withArms("llm", "ttft_mean_seconds", map[string]string{"rate": "1"}, none, gpu), []string{"h-llm-ttft-8b", "h-llm-ttft-70b"}},
		"the GPU of one only": {withArms("llm", "ttft_mean_seconds", map[string]string{"rate": "1"}, on("tdx"), gpu), []string{"h-llm-ttft-8b", "h-llm-ttft-70b"}},
		"another rate":        {withArms("llm", "ttft_mean_seconds", map[string]string{"rate": "4"}, none, gpu), nil},
		"a guest without it":  {withArms("llm", "ttft_mean_seconds", map[string]string{"rate": "1"}, none, on("tdx")), nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, r := range bandsBehind(c.e, &c.e.Comparisons[0]) {
				got = append(got, r.ID)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%s: %q, want %q", name, got, c.want)
			}
			drawing, ok := forest(c.e)
			svg := string(drawing.SVG())
			if !ok || strings.Contains(svg, "published: ") != (c.want != nil) {
				t.Errorf("%s: published figures are drawn: %v", name, strings.Contains(svg, "published: "))
			}
			listed := publishedTable(c.e)
			if len(listed.Rows) != len(c.want) {
				t.Errorf("%s: %d figures are listed", name, len(listed.Rows))
			}
		})
	}
}

// TestPublishedFar: a figure far beyond what was measured is listed, and not drawn at the end of the axis.
func TestPublishedFar(t *testing.T) {
	e := withArms("redis", "requests_per_second", map[string]string{"pipeline": "8"}, result.TEE{Type: "none"}, result.TEE{Type: "sgx", Active: true})
	drawing, _ := forest(e)
	svg := string(drawing.SVG())
	if !strings.Contains(svg, "2.75x, redis-benchmark") || !strings.Contains(svg, "(a lower bound: the native arm") || strings.Contains(svg, "published: 50.5x") {
		t.Errorf("want 2.75x near 1.4x, and not 50.5x")
	}
	if rows := publishedTable(e).Rows; !slices.ContainsFunc(rows, func(r []Cell) bool { return r[2].Text == "50.5x to 60x" }) {
		t.Errorf("50.5x is not listed: %v", rows)
	}
}

// TestParsePublished: the file is whole, and an error names the entry.
func TestParsePublished(t *testing.T) {
	all, err := ParsePublished(experiments.Published)
	if err != nil || len(all) < 20 {
		t.Fatalf("%d figures: %v", len(all), err)
	}
	head := strings.Join(columnsOfPublished, ",") + "\n"
	const good = "a,sgx,SGX1,redis,requests_per_second,threads=1,compared,1,2,cited,caveat\n"
	if _, err := ParsePublished([]byte(head + good)); err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{"a,": ",", ",1,2,": ",2,1,", "threads=1": "threads", "cited": "", ",1,": ",zero,", ",2,": ",NaN,", "redis": "", "SGX1,": ""} {
		t.Run(from, func(t *testing.T) {
			if _, err := ParsePublished([]byte(head + strings.Replace(good, from, to, 1))); err == nil {
				t.Errorf("%q in place of %q is accepted", to, from)
			}
		})
	}
	for _, data := range [][]byte{nil, []byte("id\n"), []byte(head + good + good), bytes.Replace([]byte(head+good), []byte("tee"), []byte("kind"), 1)} {
		if _, err := ParsePublished(data); err == nil {
			t.Errorf("%q is accepted", data)
		}
	}
}
