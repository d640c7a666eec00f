package workloads

import (
	"fmt"
	"maps"
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
		{"column more in Avr", "197   4749   9335\nTot", "197   4749   9335  1\nTot", averages[3:], ""},
		{"word in a row", "22:      14689   178", "22:      n/a   178", speeds, ""},
		{"zero speed", "22:      14689", "22:      0", speeds, ""},
		{"no frequency", "1T CPU Freq (MHz)", "1 thread (MHz)", []string{"cpu_single_thread_hertz"}, ""},
		{"dashes for frequencies", "1T CPU Freq (MHz):", "1T CPU Freq (MHz): - -", []string{"cpu_single_thread_hertz"}, ""},
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
				if named := err != nil && strings.Contains("\n"+err.Error(), "\n"+d.Name+": "); named == got {
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

// TestSevenZipForms: another version's columns, and percent signs, change no number.
func TestSevenZipForms(t *testing.T) {
	const table = `7-Zip (z) 26.02 (x64) : Copyright
RAM usage:    435 MB,  # Benchmark threads:      1
                       Compressing  |                  Decompressing
Dict     Speed Usage    R/U Rating  |      Speed Usage    R/U Rating
         KiB/s     %   MIPS   MIPS  |      KiB/s     %   MIPS   MIPS

22:       2500   150   2440   2432  |      30000   100   2570   2561
----------------------------------  | ------------------------------
Avr:             150   2440   2432  |              100   2570   2561
Tot:             125   2505   2497
`
	more := strings.NewReplacer("Rating  |", "Rating  E/U  |", "Rating\n", "Rating  E/U\n", "2432  |", "2432  88  |", "2561\n", "2561  99\n", "2497\n", "2497  93\n").Replace(table)
	for name, out := range map[string]string{
		"as it is": table, "percent signs": strings.NewReplacer(" 150 ", " 150% ", " 100 ", " 100% ", " 125 ", " 125% ").Replace(table),
		"a column more": more, "speeds in the means": strings.NewReplacer("Avr:             150", "Avr:  2500  150", "2432  |              100", "2432  |  30000  100").Replace(table),
		"the columns in another order": strings.NewReplacer("Usage    R/U Rating", "Rating R/U Usage", "150   2440   2432", "2432 2440 150", "100   2570   2561", "2561 2570 100", "125   2505   2497", "2497 2505 125").Replace(table),
	} {
		t.Run(name, func(t *testing.T) {
			samples, err := sevenZip.Parse(bench.Outcome{Params: bench.Params{"threads": "1", "dictionary": "22", "passes": "1"}, Inside: host.Output{Stdout: []byte(out)}})
			got := map[string]float64{}
			for _, s := range samples {
				got[s.Desc.Name] = s.Value
			}
			want := map[string]float64{"compression_bytes_per_second": 2500 << 10, "decompression_bytes_per_second": 30000 << 10,
				"compression_cpu_ratio": 1.5, "compression_per_cpu_instructions_per_second": 2440e6, "compression_instructions_per_second": 2432e6,
				"decompression_cpu_ratio": 1, "decompression_per_cpu_instructions_per_second": 2570e6, "decompression_instructions_per_second": 2561e6,
				"total_cpu_ratio": 1.25, "total_per_cpu_instructions_per_second": 2505e6, "total_instructions_per_second": 2497e6}
			if !maps.Equal(got, want) {
				t.Errorf("%s: %v, want %v (%v)", name, got, want, err)
			}
		})
	}
}

// TestSevenZipFrequency: readings that double are those of a clock, not of a CPU, whatever their size; a few low ones before a CPU is at full speed are left out.
func TestSevenZipFrequency(t *testing.T) {
	for line, want := range map[string]float64{
		"CPU Freq: 32000000 64000000 64000000 64000000 128000000 256000000 512000000 1024000000 2048000000": 0, // p7zip 16.02 on a board at 1 GHz
		"CPU Freq: 250 500 500 1000 2000 4000 8000":                                                         0,
		"CPU Freq: - - - - - - - - -":                                                                       0,
		"CPU Freq: - 4068 4057":                                                                             0,
		"CPU Freq: 12800000":                                                                                12.8e12, // more than a CPU can have: the run refuses it
		"CPU Freq: 800 1600 3190 3200 3201 3203 3202":                                                       3.2e9,
		"1T CPU Freq (MHz):  4068  4057  4092  4082  4098":                                                  4.082e9,
		"CPU Freq: 999 1001":                                                                                1e9,
	} {
		t.Run(line, func(t *testing.T) {
			samples, err := sevenZip.Parse(bench.Outcome{Inside: host.Output{Stdout: []byte(line + "\n")}})
			got := 0.0
			for _, s := range samples {
				if s.Desc == sevenZipFrequency {
					got = s.Value
				}
			}
			if got != want || (want == 0) != strings.Contains(fmt.Sprint(err), sevenZipFrequency.Name+": ") {
				t.Errorf("%s: %g, want %g (%v)", line, got, want, err)
			}
		})
	}
	if least, most := sevenZipFrequency.Range(); least != 0 || most != 10e9 {
		t.Errorf("a frequency can be from %g to %g", least, most)
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
