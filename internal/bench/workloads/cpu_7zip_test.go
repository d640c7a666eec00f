package workloads

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/host"
)

// TestSevenZipUnknownOutput: values that a changed table lacks are named and absent, and nothing
// is read from another column.
func TestSevenZipUnknownOutput(t *testing.T) {
	b, err := os.ReadFile("testdata/cpu-7zip-threads.txtar")
	if err != nil {
		t.Fatal(err)
	}
	_, out, _ := strings.Cut(string(b), "-- good/stdout --\n")
	out, _, _ = strings.Cut(out, "\n-- ")
	out += "\n"
	speeds := []string{"compression_bytes_per_second", "decompression_bytes_per_second"}
	var averages []string
	for _, side := range []string{"compression", "decompression"} {
		averages = append(averages, side+"_cpu_ratio", side+"_per_cpu_instructions_per_second", side+"_instructions_per_second")
	}
	params := bench.Params{"threads": "2", "dictionary": "22", "passes": "1", "program": "7zz"}
	for _, tc := range []struct {
		name, old, new string
		missing        []string // the metrics that are absent
		check          string   // part of Check's error; "" if the work is fine
	}{
		{"column gone from Tot", "187   6395  11812", "187   11812",
			[]string{"total_cpu_ratio", "total_per_cpu_instructions_per_second", "total_instructions_per_second"}, ""},
		{"column more in Avr", "197   4749   9335\nTot", "197   4749   9335  1\nTot", averages, ""},
		{"word in a row", "22:      14689   178", "22:      n/a   178", speeds, ""},
		{"zero speed", "22:      14689", "22:      0", speeds, ""},
		{"no frequency", "1T CPU Freq (MHz)", "1 thread (MHz)", []string{"cpu_single_thread_hertz"}, ""},
		{"version gone", " 26.02 ", " ", nil, "version"},
		{"threads gone", "# Benchmark threads", "# threads", nil, "threads"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if !strings.Contains(out, tc.old) {
				t.Fatalf("the fixture has no %q", tc.old)
			}
			o := bench.Outcome{Params: params, Inside: host.Output{Stdout: []byte(strings.ReplaceAll(out, tc.old, tc.new))}}
			samples, err := sevenZip.Parse(o)
			for _, d := range sevenZip.Metrics(params) {
				want := !slices.Contains(tc.missing, d.Name)
				got := false
				for _, s := range samples {
					got = got || s.Desc == d
				}
				if got != want {
					t.Errorf("%s is there: %v, want %v", d.Name, got, want)
				}
				if named := err != nil && strings.Contains(err.Error(), d.Name+": "); named == got {
					t.Errorf("%s is there: %v, and named as missing: %v", d.Name, got, named)
				}
			}
			_, err = sevenZip.Check(o)
			if (err == nil) != (tc.check == "") || err != nil && !strings.Contains(err.Error(), tc.check) {
				t.Errorf("check: %v, want %q", err, tc.check)
			}
		})
	}
}

func TestSevenZipRefusesParameters(t *testing.T) {
	for _, p := range []bench.Params{{"threads": "0"}, {"threads": "two"}, {"dictionary": "64"}, {"dictionary": "4"}, {"passes": ""}, {"program": ""}} {
		full, err := bench.Complete("workload cpu-7zip", sevenZip.Params, p)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := sevenZip.Job(full); err == nil {
			t.Errorf("%v: no error", p)
		}
	}
}

func TestThreadSweep(t *testing.T) {
	for cpus, want := range map[int]string{1: "", 2: "1 2", 4: "1 2 4", 6: "1 2 4 6", 32: "1 2 4 8 16 32"} {
		if got := strings.Join(threadSweep(cpus)["threads"], " "); got != want {
			t.Errorf("%d CPUs: %q, want %q", cpus, got, want)
		}
	}
}
