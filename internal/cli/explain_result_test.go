package cli

import (
	"errors"
	"math"
	"os"
	"testing"

	"github.com/teescope/teescope/internal/calibrate"
	"github.com/teescope/teescope/internal/result"
)

// priced is a result of three arms, of which two ran on the calibrated machine.
func priced(none error) *result.Experiment {
	arm := func(id, kernel string) result.Environment {
		return result.Environment{ID: id, Hardware: result.Hardware{CPUModel: "AMD EPYC"}, Software: result.Software{Kernel: kernel}}
	}
	e := &result.Experiment{
		Environments: []result.Environment{arm("native", "6.18.1"), arm("slow", "6.18.1"), arm("vm", "6.1.0")},
		Comparisons:  []result.Comparison{{Primary: true, Headline: "slow needs 1.5 times the time of native."}, {Headline: "Another metric."}},
	}
	for _, treatment := range []string{"slow", "vm"} {
		for _, c := range []struct {
			name  string
			delta float64
		}{{cpuTime, 4e-6}, {"tee_syscalls_total", 10}, {`tee_syscalls_total{syscall="read"}`, 10}, {`tee_page_faults_total{cause="write",space="user"}`, 1},
			{`tee_page_faults_total{cause="odd"}`, 1}, {"tee_page_cache_pages_total", 3}} {
			e.Attribution = append(e.Attribution, result.Attribution{Baseline: "native", Treatment: treatment, Case: "one", Counter: c.name, Delta: c.delta})
		}
	}
	price(e, &calibrate.Calibration{
		Fingerprint: calibrate.Fingerprint{CPU: "vendor_id AuthenticAMD, model name AMD EPYC, stepping 1", Kernel: "6.18.1 #1 SMP"},
		Units:       []calibrate.Unit{{Event: "syscall", Seconds: 2e-7}, {Event: "fault_write", Seconds: 1e-6}},
	}, none)
	return e
}

func TestPrice(t *testing.T) {
	e := priced(nil)
	rest := 0
	for _, a := range e.Attribution {
		switch {
		case a.Treatment == "vm" && (a.UnitCost != nil || a.Share != nil):
			t.Errorf("%s of another machine has a price", a.Counter)
		case a.Treatment == "slow" && a.Counter == "tee_syscalls_total" && (a.Share == nil || math.Abs(*a.Share-0.5) > 1e-9):
			t.Errorf("system calls: %+v, want half of the CPU time", a)
		}
		if a.Unexplained != nil {
			rest++
			if math.Abs(*a.Unexplained-0.25) > 1e-9 {
				t.Errorf("unexplained is %v, want 0.25", *a.Unexplained)
			}
		}
	}
	if rest != 1 {
		t.Errorf("%d rests, want one", rest)
	}
	checkGolden(t, "testdata/explain-result.txt", attributed(e))
	for _, a := range priced(errors.New("no calibration")).Attribution {
		if a.UnitCost != nil || eventOf(a.Counter) != "" && a.Reason != "no calibration" {
			t.Errorf("without a calibration: %+v", a)
		}
	}
}

func TestNothingToAttribute(t *testing.T) {
	if got := attributed(&result.Experiment{}); got != "The runs hold no counters per operation: nothing says where a difference comes from.\n\n" {
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
