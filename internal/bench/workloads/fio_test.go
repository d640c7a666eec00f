package workloads

import (
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
)

// fioFixture returns the good output of a fixture and its parameters.
func fioFixture(t *testing.T, name string) (string, bench.Params) {
	t.Helper()
	a, err := txtar.ParseFile(filepath.Join("testdata", name+".txtar"))
	if err != nil {
		t.Fatal(err)
	}
	f := fixture{path: name, archive: a}
	out, _ := f.file("good/stdout")
	text, _ := f.file("params")
	p, err := bench.Complete("workload fio", fio.Params, settings(t, name, text))
	if err != nil {
		t.Fatal(err)
	}
	return out, p
}

// TestFioMissing: a field that a version or a file system omits removes only its own metrics,
// and the error says which and why.
func TestFioMissing(t *testing.T) {
	drop := func(pattern string) func(string) string {
		re := regexp.MustCompile(pattern)
		return func(s string) string {
			out := re.ReplaceAllString(s, "")
			if out == s {
				t.Fatalf("the fixture has no %s", pattern)
			}
			return out
		}
	}
	latency := []string{"read_latency_seconds", "read_latency_p50_seconds", "read_latency_p99_seconds", "read_latency_p999_seconds"}
	for _, tc := range []struct {
		name    string
		change  func(string) string
		missing []string
		why     string
	}{
		{"no disk_util (issue 1627)", drop(`(?s),\s*"disk_util" : \[.*\]`), []string{"block_layer_ratio"}, "no disk"},
		{"no CPU use", drop(`"usr_cpu" : [0-9.]+,`), []string{"cpu_user_ratio", "cpu_per_operation_seconds"}, "CPU"},
		{"percentiles without bins", drop(`(?s),\s*"bins" : \{.*?\}`), nil, ""},
		{"neither percentiles nor bins (issue 1478)", drop(`(?s),\s*"percentile" : \{[^}]*\},\s*"bins" : \{[^}]*\}`), latency[1:], "neither percentiles nor bins"},
		{"nothing timed", func(s string) string { return strings.ReplaceAll(s, `"N" : `, `"N" : 0, "was" : `) }, latency, "timed no"},
		{"names of fio 2", func(s string) string { return strings.ReplaceAll(s, `"clat_ns"`, `"clat"`) }, latency, "clat_ns"},
		{"percentiles missing (issue 691)", drop(`(?s)"percentile" : \{[^}]*\},`), nil, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			out, p := fioFixture(t, "fio")
			o := bench.Outcome{Params: p, Inside: host.Output{Stdout: []byte(tc.change(out))}}
			samples, err := fio.Parse(o)
			for _, d := range fio.Metrics(p) {
				got := slices.ContainsFunc(samples, func(s metric.Sample) bool { return s.Desc == d })
				if want := !slices.Contains(tc.missing, d.Name); got != want {
					t.Errorf("%s is there: %v, want %v (%v)", d.Name, got, want, err)
				}
				if named := err != nil && strings.Contains(err.Error(), d.Name+": "); named == got {
					t.Errorf("%s is there: %v, and named as missing: %v", d.Name, got, named)
				}
			}
			if err != nil && !strings.Contains(err.Error(), tc.why) {
				t.Errorf("error %q does not say %q", err, tc.why)
			}
		})
	}
}

// TestFioReports: warnings may stand around the report; of two different ones none is chosen.
func TestFioReports(t *testing.T) {
	out, _ := fioFixture(t, "fio")
	other := strings.Replace(out, `"jobname"`, `"another" : 1, "jobname"`, 1)
	for name, c := range map[string]struct{ out, why string }{
		"twice":            {out + "\n" + out, ""},
		"warnings":         {"fio: 1 warning\n" + out + "\n3 warnings\n[1] done\n", ""},
		"two":              {out + "\n" + other, "more than one document"},
		"two, and another": {out + "\n" + other + "\n" + out, "more than one document"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := readFio([]byte(c.out)); (err == nil) != (c.why == "") || err != nil && !strings.Contains(err.Error(), c.why) {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}

// TestFioPercentilesFromBins: percentiles computed from the bins equal fio's own.
func TestFioPercentilesFromBins(t *testing.T) {
	for _, name := range []string{"fio", "fio-mixed", "fio-cached", "fio-verify"} {
		t.Run(name, func(t *testing.T) {
			out, p := fioFixture(t, name)
			r, err := readFio([]byte(out))
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range ways(p["rw"]) {
				l := r.main.direction(w).Latency
				for _, q := range []struct {
					key  string
					rank float64
				}{{"50.000000", 50}, {"99.000000", 99}, {"99.900000", 99.9}} {
					want, ok := l.Percentiles[q.key]
					if got := percentile(l.sorted(), q.rank) * 1e9; !ok || math.Abs(got-want) > 1 {
						t.Errorf("%s: %s p%v is %v, fio says %v", name, w.name, q.rank, got, want)
					}
				}
			}
		})
	}
}

// TestFioTellsCacheFromDisk: a read from the page cache does not reach the block layer, and the
// ratio shows it.
func TestFioTellsCacheFromDisk(t *testing.T) {
	ratio := func(name string) float64 {
		out, p := fioFixture(t, name)
		samples, err := fio.Parse(bench.Outcome{Params: p, Inside: host.Output{Stdout: []byte(out)}})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range samples {
			if s.Desc == fioBlockLayer {
				return s.Value
			}
		}
		return math.NaN()
	}
	if disk, cache := ratio("fio"), ratio("fio-cached"); !(disk > 0.9 && disk < 1.1 && cache < 0.2) {
		t.Errorf("past the cache %.3g, want about 1; through it %.3g, want far below", disk, cache)
	}
}

func TestFioRefusesParameters(t *testing.T) {
	for _, p := range []bench.Params{
		{"bs": "0"}, {"bs": "4k"}, {"iodepth": "none"}, {"runtime": "0s"}, {"ramp": "soon"}, {"steady": "soon"}, {"steady-window": ""},
		{"ioengine": "psync", "iodepth": "4"}, {"rw": "randrw", "rwmixread": "100"}, {"verify": "crc32c"},
		{"verify": "crc32c", "rw": "randwrite", "numjobs": "2"}, {"offset-increment": "x"},
	} {
		full, err := bench.Complete("workload fio", fio.Params, p)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fio.Job(full); err == nil {
			t.Errorf("%v: no error", p)
		}
	}
}

// TestFioReal runs fio on this machine, timed with a cold cache, and with its data checked. If the
// temporary folder has no block device, only that metric is missing.
func TestFioReal(t *testing.T) {
	if _, err := exec.LookPath("fio"); err != nil {
		t.Skip("fio is not here; package fio has it")
	}
	for name, given := range map[string]bench.Params{
		"timed":   {"size": "8MiB", "runtime": "1s", "ramp": "0s", "steady": "off", "rw": "randrw", "ioengine": "psync", "direct": "0", "cold": "true"},
		"checked": {"size": "8MiB", "rw": "randwrite", "verify": "crc32c", "ioengine": "psync", "direct": "0"},
	} {
		t.Run(name, func(t *testing.T) {
			if given["cold"] == "true" && os.Geteuid() != 0 {
				t.Skip("dropping the page cache needs root")
			}
			p, err := bench.Complete("workload fio", fio.Params, given)
			if err != nil {
				t.Fatal(err)
			}
			got, parseErr, checkErr := read(t, &fio, runHere(t, &fio, p))
			if parseErr != nil && !strings.HasPrefix(parseErr.Error(), fioBlockLayer.Name+": ") || checkErr != nil {
				t.Errorf("parse: %v, check: %v", parseErr, checkErr)
			}
			t.Log("\n" + got)
		})
	}
}
