package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/result"
)

// TestPlatformTable has ceilings, and with a price what a million units cost.
func TestPlatformTable(t *testing.T) {
	rate := func(v float64) result.Run {
		return result.Run{Env: "native", Status: result.OK, Metrics: []result.Metric{{Name: "requests_per_second", Value: &v}}}
	}
	e := &result.Experiment{Name: "platform: data server, Redis GET",
		Design:       result.Design{Primary: "requests_per_second", Ceilings: []result.Ceiling{{Metric: "requests_per_second", Value: 1e6, Source: "the link"}}},
		Workload:     result.Workload{Metrics: []result.MetricDesc{{Name: "requests_per_second", Unit: "requests_per_second"}}},
		Environments: []result.Environment{{ID: "native"}},
	}
	for range 6 {
		e.Runs = append(e.Runs, rate(100_000))
	}
	empty := *e
	empty.Name, empty.Runs = "platform: nothing", nil
	for name, c := range map[string]struct {
		cost *price
		want []string
	}{
		"no price": {nil, []string{"ceiling", "the link"}},
		"a price":  {&price{PerHour: 3.6, Currency: "EUR", Source: "a list", Date: "2026-11-01"}, []string{"0.01 EUR per million requests", "3.6 EUR an hour for the machine, from a list, 2026-11-01"}},
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			printPlatform(&b, []*result.Experiment{e, &empty}, c.cost)
			for _, w := range c.want {
				if !strings.Contains(b.String(), w) {
					t.Errorf("%s: no %q in\n%s", name, w, b.String())
				}
			}
			if c.cost == nil && strings.Contains(b.String(), "million") {
				t.Errorf("a cost without a price:\n%s", b.String())
			}
		})
	}
}

// TestPlatformCeilings: each goes to the parts of the suite that have its metric.
func TestPlatformCeilings(t *testing.T) {
	if out, errs, code := run(t, "bench", "run", "platform", "--dry-run", "--ceiling", "requests_per_second=1e6,the link"); code != exitOK && !strings.Contains(out, "cannot run here") {
		t.Errorf("exit status %d: %s%s", code, out, errs)
	}
	if _, errs, code := run(t, "bench", "run", "platform", "--dry-run", "--ceiling", "no_such=1e6,the link"); code != exitUsage || !strings.Contains(errs, "no_such") {
		t.Errorf("exit status %d: %s", code, errs)
	}
	all, err := platformChoices(bench.Choice{Ceilings: []result.Ceiling{{Metric: "requests_per_second", Value: 1e6, Source: "x"}}})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, c := range all {
		n += len(c.Ceilings)
	}
	if n != 2 { // the data server and the gateway
		t.Errorf("%d parts have the ceiling, want 2", n)
	}
}

// TestPlatformParts: each asks for parameters that its workload has, under a name of its own, and of a kind for each part of the machine.
func TestPlatformParts(t *testing.T) {
	all, err := platformChoices(bench.Choice{})
	if err != nil || len(all) != len(components) {
		t.Fatalf("%d parts of %d: %v", len(all), len(components), err)
	}
	names, workloads := map[string]bool{}, map[string]bool{}
	for _, c := range all {
		if names[c.Experiment.Name] {
			t.Errorf("two parts are called %s", c.Experiment.Name)
		}
		names[c.Experiment.Name], workloads[c.Experiment.Workload] = true, true
	}
	for _, w := range strings.Fields("cpu-7zip memory wakeup syscall startup fio iperf gateway redis channel attest gpu-gemm gpu-copy gpu-launch") {
		if !workloads[w] {
			t.Errorf("no part measures %s", w)
		}
	}
}

func TestBadPrice(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct{ text, want string }{
		"unknown key": {"per_hour: 1\ncurrencies: EUR\n", "currencies"},
		"free":        {"per_hour: 0\ncurrency: EUR\nsource: x\ndate: 2026-11-01\n", "above 0"},
		"no source":   {"per_hour: 1\ncurrency: EUR\ndate: 2026-11-01\n", "source"},
		"empty":       {"", "want per_hour above 0"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(dir, name)
			if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := readPrice(path); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, want %q", name, err, c.want)
			}
		})
	}
	if _, errs, code := run(t, "bench", "run", "startup", "--price", filepath.Join(dir, "none")); code != exitUsage || !strings.Contains(errs, "platform") {
		t.Errorf("exit status %d: %s", code, errs)
	}
}
