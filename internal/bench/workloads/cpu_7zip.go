package workloads

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
)

// half holds the metrics of one of the two tests in 7-Zip's benchmark, in the order of its
// columns.
type half struct{ speed, usage, perUse, rating *metric.Desc }

func sevenZipHalf(name, what string) half {
	d := func(suffix, unit, help string) *metric.Desc {
		return &metric.Desc{Name: name + suffix, Unit: unit, Kind: metric.Gauge, Better: metric.Higher, Help: help}
	}
	return half{
		speed:  d("_bytes_per_second", "bytes_per_second", what+" speed in bytes of plain data per second (column Speed, mean of the passes)."),
		usage:  ofCores(d("_cpu_ratio", "ratio", what+": CPU time divided by wall time, 2 is two busy CPUs (column Usage).")),
		perUse: d("_per_cpu_instructions_per_second", "instructions_per_second", what+" rating divided by the CPU use, in nominal instructions per second (column R/U)."),
		rating: d("_instructions_per_second", "instructions_per_second", what+" rating in nominal instructions per second (column Rating); 7-Zip's own scale, not retired instructions."),
	}
}

var (
	sevenZipCompress   = sevenZipHalf("compression", "LZMA compression")
	sevenZipDecompress = sevenZipHalf("decompression", "LZMA decompression")
	sevenZipTotal      = half{
		usage: &metric.Desc{Name: "total_cpu_ratio", Unit: "ratio", Kind: metric.Gauge, Better: metric.Higher, Most: mostCores,
			Help: "CPU time divided by wall time over both tests (line Tot)."},
		perUse: &metric.Desc{Name: "total_per_cpu_instructions_per_second", Unit: "instructions_per_second", Kind: metric.Gauge, Better: metric.Higher,
			Help: "Total rating divided by the CPU use, in nominal instructions per second (line Tot)."},
		rating: &metric.Desc{Name: "total_instructions_per_second", Unit: "instructions_per_second", Kind: metric.Gauge, Better: metric.Higher,
			Help: "Mean of the compression and decompression ratings, in nominal instructions per second (line Tot)."},
	}
	sevenZipFrequency = &metric.Desc{Name: "cpu_single_thread_hertz", Unit: "hertz", Kind: metric.Gauge, Better: metric.Higher, Most: metric.MostHertz,
		Help: "CPU frequency as 7-Zip estimates it before the test, from a chain of dependent additions on one thread: the median of its readings."}
)

// sevenZip is the benchmark of 7-Zip and p7zip. Its format is not specified; the columns are
// those that the table's head names (7-Zip's help, "b (Benchmark) command").
//
// Ratings are comparable within one version of 7-Zip only, so the version is part of the digest
// of the work. With one thread the encoder runs alone; with more, each LZMA encoder has a second
// thread for the match finder, so the step from 1 to 2 threads does not show scaling.
var sevenZip = bench.Workload{
	Name: "cpu-7zip",
	Doc: "The benchmark of 7-Zip: LZMA compression, which depends on memory latency and the TLB, and decompression, " +
		"which depends on the integer units, by number of threads.",
	Version: 1,
	Params: []bench.Param{
		{Name: "threads", Doc: "Threads of the benchmark (-mmt).", Default: "1"},
		{Name: "dictionary", Doc: "Largest dictionary as a power of two; 22 is 4 MiB (-md). Together with threads it determines the memory use. A pass begins at 22, or at 18 if the largest dictionary is smaller than 22.", Default: "22"},
		{Name: "passes", Doc: "Number of times that the benchmark is repeated within a run.", Default: "1"},
		{Name: "program", Path: true, Named: true, Doc: "The 7-Zip program, by name or path; 7z or 7za with the older p7zip package.", Default: "7zz", Subject: true},
	},
	Metrics: func(bench.Params) []*metric.Desc {
		c, d, t := sevenZipCompress, sevenZipDecompress, sevenZipTotal
		return []*metric.Desc{t.rating, t.perUse, t.usage, c.speed, c.rating, c.perUse, c.usage, d.speed, d.rating, d.perUse, d.usage, sevenZipFrequency}
	},
	Primary:  func(bench.Params) *metric.Desc { return sevenZipTotal.rating },
	Sweep:    threadSweep(runtime.NumCPU()),
	Tools:    []bench.Tool{{Command: "7zz", Package: "7zip", Param: "program"}},
	Estimate: sevenZipEstimate,
	Job: func(p bench.Params) (bench.Job, error) {
		threads, err1 := p.Int("threads", 1)
		dictionary, err2 := p.Int("dictionary", 18)
		passes, err3 := p.Int("passes", 1)
		err := errors.Join(err1, err2, err3)
		switch {
		case err != nil:
			return bench.Job{}, err
		case dictionary > 31:
			return bench.Job{}, fmt.Errorf("parameter dictionary=%d: want 18 (256 KiB) to 31 (2 GiB)", dictionary)
		case p["program"] == "":
			return bench.Job{}, errors.New("parameter program is empty: want 7zz, 7z or a path")
		}
		return bench.Job{Inside: host.Cmd{Argv: []string{p["program"], "b", strconv.FormatInt(passes, 10),
			fmt.Sprintf("-mmt%d", threads), fmt.Sprintf("-md%d", dictionary)}}}, nil
	},
	Parse: func(o bench.Outcome) ([]metric.Sample, error) {
		t := readSevenZip(o.Inside.Stdout)
		return t.found.samples, errors.Join(t.found.missing...)
	},
	Check: checkSevenZip,
}

// threadSweep doubles the threads up to the CPUs of this machine; with one CPU
// there is nothing to sweep.
func threadSweep(cpus int) map[string][]string {
	var out []string
	for n := 1; n < cpus; n *= 2 {
		out = append(out, strconv.Itoa(n))
	}
	if out == nil {
		return nil
	}
	return map[string][]string{"threads": append(out, strconv.Itoa(cpus))}
}

// sevenZipEstimate: a pass lasts about 7 s at 4 MiB and somewhat longer with larger dictionaries;
// it uses no disk.
func sevenZipEstimate(p bench.Params) (time.Duration, int64) {
	passes, err := p.Int("passes", 1)
	if err != nil {
		passes = 1
	}
	return time.Duration(passes) * 7 * time.Second, 0
}

// sevenZipTable is one output of the benchmark.
type sevenZipTable struct {
	version     string // "26.02"; "" when the first lines do not say
	threads     string
	dictionary  string
	rows        int
	whole, good bool // the line Tot is there; no line reports an error
	found       reading
}

// readSevenZip reads the table line by line. Only complete lines count, so a truncated number is
// never read.
func readSevenZip(out []byte) (t sevenZipTable) {
	const kib, million = 1 << 10, 1e6
	t.good = true
	var compress, decompress, frequency []float64 // speeds of each row; readings
	var head [2][]string                          // names of the columns of both halves
	var averages [2]map[string]float64
	var total map[string]float64
	for line := range bytes.Lines(out) {
		text, whole := bytes.CutSuffix(line, []byte("\n"))
		if !whole {
			break
		}
		s := strings.TrimSpace(string(text))
		key, rest, _ := strings.Cut(s, ":")
		left, right, _ := strings.Cut(rest, "|")
		switch {
		case strings.HasPrefix(s, "7-Zip") && t.version == "":
			t.version = sevenZipVersion(s)
		case strings.HasPrefix(strings.ToUpper(s), "ERROR"):
			t.good = false
		case strings.HasPrefix(s, "RAM usage:"):
			if _, n, ok := strings.Cut(s, "# Benchmark threads:"); ok {
				t.threads = strings.TrimSpace(n)
			}
		case (key == "CPU Freq" || key == "1T CPU Freq (MHz)") && frequency == nil:
			frequency = sevenZipNumbers(rest) // later lines are for several threads, with their use
		case strings.Contains(s, "Usage") && strings.Contains(s, "Rating") && head[0] == nil:
			l, r, _ := strings.Cut(strings.TrimPrefix(s, "Dict"), "|")
			head = [2][]string{strings.Fields(l), strings.Fields(r)}
		case key == "Avr":
			averages = [2]map[string]float64{sevenZipColumns(head[0], left), sevenZipColumns(head[1], right)}
		case key == "Tot":
			total, t.whole = sevenZipColumns(head[0], rest), true
		default:
			if _, err := strconv.ParseUint(key, 10, 8); err != nil || averages[0] != nil {
				continue
			}
			t.rows++
			t.dictionary = key
			l, r := sevenZipColumns(head[0], left), sevenZipColumns(head[1], right)
			if l["Speed"] > 0 && r["Speed"] > 0 {
				compress, decompress = append(compress, l["Speed"]), append(decompress, r["Speed"])
			}
		}
	}
	// Before 21.00 the line Avr has no speeds; the rows have them in every version.
	const noSpeeds = "a row of 7-Zip's table is missing or does not match the table's header"
	t.found.value(sevenZipCompress.speed, mean(compress, t.rows)*kib, noSpeeds)
	t.found.value(sevenZipDecompress.speed, mean(decompress, t.rows)*kib, noSpeeds)
	for i, h := range []half{sevenZipCompress, sevenZipDecompress, sevenZipTotal} {
		columns, line := total, "Tot"
		if i < len(averages) {
			columns, line = averages[i], "Avr"
		}
		for _, c := range []struct {
			desc  *metric.Desc
			name  string
			scale float64
		}{{h.usage, "Usage", 0.01}, {h.perUse, "R/U", million}, {h.rating, "Rating", million}} {
			v, ok := columns[c.name]
			if !ok {
				v = math.NaN()
			}
			t.found.value(c.desc, v*c.scale, fmt.Sprintf("7-Zip's line %s is missing or does not match the table's header", line))
		}
	}
	t.frequency(frequency, million)
	return t
}

// frequency takes the median of the readings of a frequency. A clock too coarse for the first of them, which are the shortest, gives
// numbers that double (p7zip 16.02 on slow cores), so most of them must agree.
func (t *sevenZipTable) frequency(readings []float64, scale float64) {
	const apart = 1.5
	n := len(readings)
	if n == 0 {
		t.found.lack(sevenZipFrequency, "7-Zip printed no frequency for one thread")
		return
	}
	slices.Sort(readings)
	median, near := (readings[(n-1)/2]+readings[n/2])/2, 0
	for _, v := range readings {
		if v < median*apart && v > median/apart {
			near++
		}
	}
	if 2*near < n {
		t.found.lack(sevenZipFrequency, fmt.Sprintf("7-Zip's readings of the frequency lie between %s and %s: 7-Zip's clock is too coarse, or the frequency changed",
			metric.Value(readings[0]*scale, "hertz"), metric.Value(readings[n-1]*scale, "hertz")))
		return
	}
	t.found.value(sevenZipFrequency, median*scale, "7-Zip printed no frequency for one thread")
}

// mean of v; NaN unless it has n values.
func mean(v []float64, n int) float64 {
	if len(v) != n || n == 0 {
		return math.NaN()
	}
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum / float64(n)
}

// sevenZipVersion finds "26.02" in "7-Zip (z) 26.02 (x64) : Copyright …".
func sevenZipVersion(s string) string {
	s, _, _ = strings.Cut(s, " : ")
	for _, word := range strings.Fields(s) {
		if _, err := metric.ParseNumber(word); err == nil && strings.Contains(word, ".") {
			return word
		}
	}
	return ""
}

// sevenZipColumns reads a line, or the half of one, by the names of the table's columns; nil where their numbers differ. The
// lines of means and totals may have no speed, whose column is the first.
func sevenZipColumns(names []string, s string) map[string]float64 {
	v := sevenZipNumbers(s)
	if len(names) > 0 && names[0] == "Speed" && len(v) == len(names)-1 {
		names = names[1:]
	}
	if len(v) == 0 || len(v) != len(names) {
		return nil
	}
	out := map[string]float64{}
	for i, name := range names {
		if _, twice := out[name]; twice {
			return nil
		}
		out[name] = v[i]
	}
	return out
}

// sevenZipNumbers reads numbers above 0, with a percent sign or without; nil if there is anything else.
func sevenZipNumbers(s string) []float64 {
	var out []float64
	for _, word := range strings.Fields(s) {
		v, err := metric.ParseNumber(strings.TrimSuffix(word, "%"))
		if err != nil || v <= 0 {
			return nil
		}
		out = append(out, v)
	}
	return out
}

// checkSevenZip: 7-Zip compares checksums of what it has decompressed and ends with an error when
// they differ; what remains to check is that it ran with these parameters, to the end.
func checkSevenZip(o bench.Outcome) (string, error) {
	t, p := readSevenZip(o.Inside.Stdout), o.Params
	switch {
	case !t.good:
		return "", errors.New("7-Zip reports an error: its own check of the decompressed data failed, or there was not enough memory")
	case !t.whole:
		return "", errors.New("7-Zip's table is cut off: its last line, Tot, is missing")
	case t.version == "":
		return "", errors.New("7-Zip's output does not name its version, and ratings of unknown versions cannot be compared")
	case t.threads != p["threads"]:
		return "", fmt.Errorf("7-Zip ran with %q threads, want %s", t.threads, p["threads"])
	case t.dictionary != p["dictionary"]:
		return "", fmt.Errorf("7-Zip's last dictionary was %q, want %s", t.dictionary, p["dictionary"])
	}
	if passes, err := p.Int("passes", 1); err != nil || t.rows == 0 || t.rows%int(passes) != 0 {
		return "", fmt.Errorf("7-Zip's table has %d rows, which cannot be divided into %s equal passes", t.rows, p["passes"])
	}
	return digest("cpu-7zip", t.version, t.threads, t.dictionary, p["passes"]), nil
}
