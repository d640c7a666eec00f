package monitor

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/machine"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/verdict"
)

// memoryResult is the experiment of a fixture of package formats, as if it were of workload memory.
func memoryResult(t *testing.T, name string) *result.Experiment {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "report", "formats", "testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	var d struct{ Experiments []*result.Experiment }
	if err := json.Unmarshal(b, &d); err != nil {
		t.Fatal(err)
	}
	e := d.Experiments[0]
	e.Workload.Name = "memory"
	for i := range e.Cases {
		c := &e.Cases[i]
		c.Params = map[string]string{"access": "latency", "size": strings.TrimPrefix(c.ID, "threads=") + "MiB"}
	}
	return e
}

func TestMemoryBaseline(t *testing.T) {
	file := filepath.Join(t.TempDir(), "r.json")
	here := machine.Fingerprint{CPU: "model name Intel(R) Xeon(R) Gold 6548Y+, microcode 0x21000283", Kernel: "6.18.2-amd64 #1 SMP"}
	read := func(e *result.Experiment, f machine.Fingerprint) (string, []metric.Sample) {
		t.Helper()
		if err := result.Write(file, e); err != nil {
			t.Fatal(err)
		}
		samples, err := memoryBaseline(file, f, judging)
		if err != nil {
			return err.Error(), nil
		}
		return "", samples
	}
	e := memoryResult(t, "sweep.json")
	said, samples := read(e, here)
	got := map[string]float64{}
	for _, s := range samples {
		if s.Desc != MemoryCostDesc {
			t.Errorf("a sample of %s", s.Desc.Name)
		}
		got[strings.Join(s.Labels, " ")] = s.Value
	}
	verdict.Conclude(e, judging) // the fixture's comparisons are made up
	want := map[string]float64{}
	for _, c := range e.Comparisons {
		if c.Primary && c.Cost != nil && c.CostLow != nil {
			size := strings.TrimPrefix(c.Case, "threads=") + "MiB"
			want["latency "+size+" median"], want["latency "+size+" low"], want["latency "+size+" high"] = *c.Cost, *c.CostLow, *c.CostHigh
		}
	}
	if said != "" || len(want) == 0 || len(got) != len(samples) || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%q, %v, want %v", said, got, want)
	}
	other := memoryResult(t, "sweep.json")
	other.Workload.Name = "redis"
	updated := here
	updated.CPU = strings.Replace(here.CPU, "0x21000283", "0x21000290", 1)
	for want, x := range map[string]struct {
		e *result.Experiment
		f machine.Fingerprint
	}{
		"the result's workload is redis; want a result of `teescope bench run memory`":                               {other, here},
		"no environment other than the baseline ran on this machine":                                                 {e, machine.Fingerprint{CPU: "AMD", Kernel: "6.1"}},
		"ran with microcode 0x21000283":                                                                              {e, updated},
		"ran on this machine, so it is not clear which of them to compare with; give a result with only one of them": {memoryResult(t, "ladder.json"), here},
	} {
		if said, samples := read(x.e, x.f); !strings.Contains(said, want) || samples != nil {
			t.Errorf("said %q, %d samples; want %q", said, len(samples), want)
		}
	}
	if _, err := memoryBaseline(file+".none", here, judging); err == nil {
		t.Error("a file that is not there was read")
	}
}
