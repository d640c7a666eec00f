package cli

import (
	"os"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/explain"
	"github.com/teescope/teescope/internal/explain/prices"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/machine"
	"github.com/teescope/teescope/internal/result"
)

// arm is an environment on a machine of this kernel.
func arm(id, kernel string) result.Environment {
	return result.Environment{ID: id, Hardware: result.Hardware{CPUModel: "AMD EPYC"}, Software: result.Software{Kernel: kernel}}
}

// TestCompared: each verdict is followed by where its difference comes from.
func TestCompared(t *testing.T) {
	ptr := func(v float64) *float64 { return &v }
	e := &result.Experiment{Comparisons: []result.Comparison{
		{Primary: true, Baseline: "native", Treatment: "slow", Case: "one", Headline: "slow needs 1.5 times the time of native.", Cause: "Half of it is system calls: make fewer."},
		{Primary: true, Baseline: "native", Treatment: "vm", Case: "one", Headline: "vm is equivalent."},
		{Headline: "Another metric."}},
		UnitCosts: &result.UnitCosts{Units: []result.UnitCost{{Event: "syscall", Seconds: 2e-7, Low: 1.8e-7, High: 2.5e-7}}}}
	row := func(treatment, metric string, labels map[string]string, delta float64) *result.Attribution {
		e.Attribution = append(e.Attribution, result.Attribution{Baseline: "native", Treatment: treatment, Case: "one",
			Counter: explain.EventOf(metric, labels).String(), Metric: metric, Labels: labels, Base: ptr(1), Delta: delta})
		return &e.Attribution[len(e.Attribution)-1]
	}
	a := row("slow", explain.CallCount, map[string]string{"syscall": "getppid"}, 10)
	a.UnitCost, a.Seconds, a.Share, a.DeltaLow, a.DeltaHigh = ptr(2e-7), ptr(2e-6), ptr(0.5), ptr(9), ptr(12)
	a = row("slow", explain.WaitSamples, map[string]string{"call": "futex", "state": "lock"}, 1e-6)
	a.Seconds, a.Share, a.Unexplained = ptr(1e-6), ptr(0.25), ptr(0.25)
	row("slow", explain.CPUAccount, nil, 3e-6).Reason = "this is the total that the rows are compared with"
	for range 18 {
		row("slow", "tee_page_cache_pages_total", map[string]string{"operation": "add"}, 3).Reason = "the cost of one is unknown"
	}
	row("vm", explain.FaultCount, map[string]string{"cause": "protection"}, 1).Reason = "fault_protection is not calibrated on this machine"
	checkGolden(t, "testdata/explain-result.txt", compared(e))
	for _, tree := range known.Trees(e) {
		if tree.Baseline != "native" || tree.Per != "operation" || tree.Subject == "slow" && (len(tree.Rows) != 2 || len(tree.Uncosted) != 19) {
			t.Errorf("tree %+v", tree)
		}
	}
}

func TestCostsNow(t *testing.T) {
	dir := t.TempDir()
	e := &result.Experiment{Environments: []result.Environment{arm("native", "6.18.1")}}
	if c := costsNow(e, dir); !strings.Contains(c.Reason, "teescope calibrate --data "+dir) {
		t.Errorf("without a calibration: %+v", c)
	}
	k := &prices.Calibration{Version: prices.Version,
		Fingerprint: machine.Fingerprint{CPU: "vendor_id AuthenticAMD, model name AMD EPYC, stepping 1", Kernel: "6.18.1 #1 SMP"},
		Units:       []prices.Unit{{Event: "syscall", Seconds: 2e-7, Low: 1e-7, High: 3e-7}}}
	if err := k.Store(host.Local(), dir); err != nil {
		t.Fatal(err)
	}
	if c := costsNow(e, dir); c.Reason != "" || len(c.Units) != 1 || c.Units[0] != (result.UnitCost{Event: "syscall", Seconds: 2e-7, Low: 1e-7, High: 3e-7}) {
		t.Errorf("of this machine: %+v", c)
	}
	e.Environments[0].Hardware.Microcode = "0x1"
	if c := costsNow(e, dir); c.Reason != "" {
		t.Errorf("of a machine that hides its microcode: %+v", c)
	}
	k.Fingerprint.CPU += ", microcode 0x10"
	if err := k.Store(host.Local(), dir); err != nil {
		t.Fatal(err)
	}
	if c := costsNow(e, dir); len(c.Units) != 0 || !strings.Contains(c.Reason, "native ran with microcode 0x1, and the costs of this machine were measured with 0x10") {
		t.Errorf("with other microcode: %+v", c)
	}
	e.Environments[0].Hardware.Microcode = "0x10"
	if c := costsNow(e, dir); c.Reason != "" || len(c.Units) != 1 {
		t.Errorf("with the same microcode: %+v", c)
	}
	e.Environments[0] = arm("vm", "6.1.0")
	if c := costsNow(e, dir); len(c.Units) != 0 || !strings.Contains(c.Reason, "another machine") {
		t.Errorf("of another machine: %+v", c)
	}
}

func TestNothingToAttribute(t *testing.T) {
	if got := compared(&result.Experiment{}); got != "The runs hold no counters per operation: nothing says where a difference comes from.\n" {
		t.Errorf("printed %q", got)
	}
}

func checkGolden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || string(want) != got {
		t.Errorf("printed\n%s\nwant\n%s\n%v", got, want, err)
	}
}
