package report

import (
	"fmt"
	"strings"
	"testing"

	"github.com/teescope/teescope/experiments"
	"github.com/teescope/teescope/internal/result"
)

// TestSpecified: the median of a run stands beside the specification of its GPU for its type, and beside nothing of
// another GPU or type.
func TestSpecified(t *testing.T) {
	const rate = "gemm_operations_per_second"
	on := func(gpu, dtype string, value *float64) *Table {
		e := withArms("gpu-gemm", rate, map[string]string{"dtype": dtype}, result.TEE{}, result.TEE{})
		e.Workload.Metrics[0].Unit = "operations_per_second"
		e.Environments[1].Hardware.GPUs = []result.GPU{{Model: gpu}}
		e.Runs = []result.Run{{Env: "on", Case: "default", Status: result.OK, Metrics: []result.Metric{{Name: rate, Value: value, Reason: "the GPU vanished"}}}}
		return specificationTable(e)
	}
	half := 989.4e12 / 2
	const h100 = "NVIDIA H100 80GB HBM3"
	rows := on(h100, "bf16", &half).Rows
	if len(rows) != 1 || rows[0][0].Text != "on" || rows[0][5].Text != "50 %" || !strings.Contains(rows[0][6].Text, "https://") {
		t.Errorf("half of the H100's BF16: %+v", rows)
	}
	if rows := on(h100, "bf16", nil).Rows; len(rows) != 1 || rows[0][3].Reason != "the GPU vanished" || rows[0][5].Text != "missing" {
		t.Errorf("without a value: %+v", rows)
	}
	for _, other := range [][2]string{{"NVIDIA H300", "bf16"}, {h100 + " 2", "bf16"}, {h100, "fp64"}, {"", "bf16"}} {
		if rows := on(other[0], other[1], &half).Rows; len(rows) != 0 {
			t.Errorf("%q: %+v", other, rows)
		}
	}
}

// TestParseSpecified: the file is whole, no entry is there twice, and an error names the entry.
func TestParseSpecified(t *testing.T) {
	all, err := ParseSpecified(experiments.Specifications)
	if err != nil || len(all) == 0 {
		t.Fatalf("%d specifications: %v", len(all), err)
	}
	seen := map[string]bool{}
	for _, s := range all {
		key := fmt.Sprint(s.GPU, s.Workload, s.Metric, s.CaseParam, s.Value)
		if seen[key] {
			t.Errorf("%s is there twice", key)
		}
		seen[key] = true
	}
	head := strings.Join(columnsOfSpecified, ",") + "\n"
	const good = "A,w,m,p=1,2,cited,note\n"
	if _, err := ParseSpecified([]byte(head + good)); err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{"A,": ",", "p=1": "p", ",2,": ",-2,", "2,cited": "Inf,cited", "cited": "", "note": ""} {
		t.Run(from, func(t *testing.T) {
			if _, err := ParseSpecified([]byte(head + strings.Replace(good, from, to, 1))); err == nil {
				t.Errorf("%q in place of %q is accepted", to, from)
			}
		})
	}
	if _, err := ParseSpecified(nil); err == nil {
		t.Error("an empty file is accepted")
	}
}
