package workloads

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/document"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
)

// fioReport is the part read of fio's output format json+ (fio's HOWTO, "JSON+ output"). A nil
// pointer or map was not in the output: the fields depend on fio's version and the options.
type fioReport struct {
	Version string   `json:"fio version"`
	Jobs    []fioJob `json:"jobs"` // in fio's order
	Disks   []struct {
		Name        string   `json:"name"`
		ReadIOs     *float64 `json:"read_ios"`
		WriteIOs    *float64 `json:"write_ios"`
		ReadMerges  float64  `json:"read_merges"`
		WriteMerges float64  `json:"write_merges"`
	} `json:"disk_util"`
	Global map[string]string `json:"global options"`

	ramp, main *fioJob // the ramp is nil where there was none
}

type fioJob struct {
	Name    string            `json:"jobname"`
	Error   *int              `json:"error"`
	Options map[string]string `json:"job options"`
	User    *float64          `json:"usr_cpu"` // percent
	System  *float64          `json:"sys_cpu"`
	Runtime *float64          `json:"job_runtime"` // milliseconds, the sum of the jobs
	Read    fioDirection      `json:"read"`
	Write   fioDirection      `json:"write"`
	Steady  *struct {
		Criterion string `json:"ss"`
		Attained  int    `json:"attained"`
		Data      struct {
			IOPS []float64 `json:"iops"`
		} `json:"data"`
	} `json:"steadystate"`
}

type fioDirection struct {
	Bytes     float64     `json:"io_bytes"`
	Total     float64     `json:"total_ios"`
	Dropped   float64     `json:"drop_ios"`
	Runtime   float64     `json:"runtime"` // milliseconds
	IOPS      *float64    `json:"iops"`
	Bandwidth *float64    `json:"bw_bytes"`
	Latency   *fioLatency `json:"clat_ns"`
}

type fioLatency struct {
	Mean        float64            `json:"mean"`
	N           *float64           `json:"N"`
	Percentiles map[string]float64 `json:"percentile"`
	Bins        map[string]uint64  `json:"bins"`
}

func (j *fioJob) direction(w *way) *fioDirection {
	if w == fioReads {
		return &j.Read
	}
	return &j.Write
}

// readFio finds the report in fio's output. Warnings of fio and its libraries may precede and follow it; it
// begins on a line of its own.
func readFio(out []byte) (*fioReport, error) {
	out = document.Text(out)
	reason := errors.New("no JSON document found")
	for at := 0; at < len(out); {
		if out[at] == '{' {
			var r fioReport
			one, _, err := document.JSON(out[at:])
			if errors.Is(err, document.ErrSeveral) {
				return nil, fmt.Errorf("cannot read fio's output: %w", err)
			}
			if err == nil {
				err = json.Unmarshal(one, &r)
			}
			if err == nil {
				err = r.sort()
			}
			if err == nil {
				return &r, nil
			}
			reason = err
		}
		next := bytes.IndexByte(out[at:], '\n')
		if next < 0 {
			break
		}
		at += next + 1
	}
	return nil, fmt.Errorf("cannot read fio's output: %w", reason)
}

// sort finds the ramp and the measurement; each is one entry for its group of threads.
func (r *fioReport) sort() error {
	for i := range r.Jobs {
		switch j := &r.Jobs[i]; {
		case j.Name == fioRamp && r.ramp == nil:
			r.ramp = j
		case j.Name == fioMain && r.main == nil:
			r.main = j
		default:
			return fmt.Errorf("unexpected or duplicate job %q", j.Name)
		}
	}
	if r.main == nil {
		return fmt.Errorf("the job %q is missing", fioMain)
	}
	return nil
}

// total is the number of operations of a direction, in the ramp and after it.
func (r *fioReport) total(w *way) float64 {
	n := r.main.direction(w).Total
	if r.ramp != nil {
		n += r.ramp.direction(w).Total
	}
	return n
}

func parseFio(o bench.Outcome) ([]metric.Sample, error) {
	r, err := readFio(o.Inside.Stdout)
	if err != nil {
		return nil, err
	}
	var found reading
	j := r.main
	rate, operations := 0.0, 0.0
	for _, w := range ways(o.Params["rw"]) {
		d := j.direction(w)
		if d.Total == 0 {
			d.IOPS, d.Bandwidth = nil, nil // without operations there is no rate, not a rate of 0
		}
		found.optional(w.rate, d.IOPS, 1, "fio counted no "+w.name+" operations")
		found.optional(w.bandwidth, d.Bandwidth, 1, "fio counted no bytes of "+w.name+" operations, or is older than 3.0")
		if d.IOPS == nil {
			rate = math.NaN()
		} else {
			rate += *d.IOPS
			operations += r.total(w)
		}
		if o.Params["gtod-reduce"] != "true" {
			found.latency(w, d.Latency)
		}
	}
	found.value(fioRate, rate, "fio did not count the operations of every direction")
	whole := math.NaN()
	if operations > 0 {
		whole = operations
	}
	found.value(fioOperations, whole, "fio counted no operations")
	if o.Params["gtod-reduce"] != "true" {
		found.cpu(j)
	}
	found.disk(r, o.Params, whole)
	if o.Params["cold"] == "true" {
		found.pageCache(o)
	}
	return found.samples, errors.Join(found.missing...)
}

// optional adds a number that may be missing in the output.
func (r *reading) optional(d *metric.Desc, v *float64, scale float64, why string) {
	if v == nil {
		r.lack(d, why)
		return
	}
	r.value(d, *v*scale, why)
}

// latency reads mean and percentiles. fio writes zeros where nothing was timed, and may omit the
// percentiles (fio issues 691 and 1478), which then come from the bins of json+.
func (r *reading) latency(w *way, l *fioLatency) {
	why := ""
	switch {
	case l == nil:
		why = "fio's output has no completion latency (clat_ns); fio before 3.0 uses other names and units"
	case l.N != nil && *l.N == 0 || l.Mean <= 0:
		why = "fio timed no " + w.name + " operation"
	}
	if why != "" {
		r.lack(w.latency, why)
		for _, q := range w.percentiles {
			r.lack(q.desc, why)
		}
		return
	}
	bins := l.sorted()
	mean := metric.Sample{Desc: w.latency, Value: l.Mean / 1e9}
	if len(bins) > 0 {
		mean.Hist = histogram(bins, mean.Value)
	}
	r.sample(mean, "fio's mean is not a number")
	for _, q := range w.percentiles {
		v, ok := l.Percentiles[strconv.FormatFloat(q.rank, 'f', 6, 64)]
		switch {
		case ok && v > 0:
			r.value(q.desc, v/1e9, "fio's percentile is not a number")
		case len(bins) > 0:
			r.derived(q.desc, percentile(bins, q.rank), "fio's bins are not numbers")
		default:
			r.lack(q.desc, "fio reports neither percentiles nor bins of the completion latency")
		}
	}
}

// bin is a latency in seconds and the number of operations that had it.
type bin struct {
	seconds float64
	count   uint64
}

func (l *fioLatency) sorted() []bin {
	var out []bin
	for k, n := range l.Bins {
		if v, err := strconv.ParseUint(k, 10, 63); err == nil && n > 0 {
			out = append(out, bin{float64(v) / 1e9, n})
		}
	}
	slices.SortFunc(out, func(a, b bin) int {
		if a.seconds < b.seconds {
			return -1
		}
		return 1
	})
	return out
}

// percentile is the bin in which the operation of that rank lies.
func percentile(bins []bin, rank float64) float64 {
	total := 0.0
	for _, b := range bins {
		total += float64(b.count)
	}
	seen := 0.0
	for _, b := range bins {
		if seen += float64(b.count); seen >= math.Ceil(rank/100*total) {
			return b.seconds
		}
	}
	return math.NaN()
}

// fioBounds are the bounds of the histograms, the same in every run: ten per decade, from 1
// microsecond to 10 seconds.
var fioBounds = func() []float64 {
	var out []float64
	for i := range 71 {
		out = append(out, math.Pow(10, float64(i)/10-6))
	}
	return out
}()

// histogram sums fio's bins, up to two thousand, into the buckets of fioBounds.
func histogram(bins []bin, mean float64) *metric.Hist {
	h := &metric.Hist{Bounds: fioBounds, Counts: make([]uint64, len(fioBounds)+1)}
	n := uint64(0)
	for _, b := range bins {
		i, _ := slices.BinarySearch(fioBounds, b.seconds)
		h.Counts[i] += b.count
		n += b.count
	}
	h.Sum = mean * float64(n)
	return h
}

func (r *reading) cpu(j *fioJob) {
	const why = "fio does not report CPU use"
	r.value(fioCPUUser, timeShare(valueOrNaN(j.User)/100), why)
	r.value(fioCPUSystem, timeShare(valueOrNaN(j.System)/100), why)
	total := j.Read.Total + j.Write.Total
	if j.User == nil || j.System == nil || j.Runtime == nil || total <= 0 {
		r.lack(fioCPUOperation, "fio reports no CPU use, no run time or no operations")
		return
	}
	r.derived(fioCPUOperation, (*j.User+*j.System)/100**j.Runtime/1e3/total, why)
}

// disk compares what the disk saw with what fio did, both from the start of the
// ramp to the end.
func (r *reading) disk(f *fioReport, p bench.Params, operations float64) {
	const absent = "fio reports no disk: the file lies on a file system without a block device (overlay, tmpfs, a sandbox), or fio left it out (fio issue 1627)"
	if len(f.Disks) == 0 {
		r.lack(fioBlockLayer, absent)
		return
	}
	d := f.Disks[0] // the device that holds the file system; those below it follow
	seen := 0.0
	for _, w := range ways(p["rw"]) {
		ios, merges := d.ReadIOs, d.ReadMerges
		if w == fioWrites {
			ios, merges = d.WriteIOs, d.WriteMerges
		}
		if ios == nil {
			r.lack(fioBlockLayer, "fio reports no "+w.name+" requests of disk "+d.Name)
			return
		}
		seen += *ios + merges
	}
	r.derived(fioBlockLayer, seen/operations, "fio counted no operations to compare with")
}

// pageCache reads the line that the job's first step printed after dropping the caches.
func (r *reading) pageCache(o bench.Outcome) {
	v := math.NaN()
	for line := range strings.Lines(string(o.Inside.Stdout)) {
		if rest, ok := strings.CutPrefix(line, "Cached:"); ok && strings.HasSuffix(rest, " kB\n") {
			if n, err := strconv.ParseUint(strings.TrimSpace(strings.TrimSuffix(rest, " kB\n")), 10, 50); err == nil {
				v = float64(n) * 1024
			}
		}
	}
	why := "the page cache could not be dropped (this needs root and a writable /proc/sys/vm/drop_caches inside the environment)"
	if said := o.Inside.FailureReason(); math.IsNaN(v) && len(o.Inside.Stderr) > 0 {
		why += ": " + said
	}
	r.value(fioPageCache, v, why)
}

// fioSeries is fio's own verdict on steady state, with the seconds that it is based on.
func fioSeries(o bench.Outcome) (bench.Series, error) {
	r, err := readFio(o.Inside.Stdout)
	switch {
	case err != nil:
		return bench.Series{}, err
	case o.Params["steady"] == steadyOff || o.Params["verify"] != "off":
		return bench.Series{}, errors.New("steady state: fio was not configured to detect one")
	case r.main.Steady == nil:
		return bench.Series{}, errors.New("steady state: missing in fio's output; use fio 3.0 or later")
	}
	s := r.main.Steady
	attained := s.Attained == 1
	return bench.Series{Values: s.Data.IOPS, Width: 1, Attained: &attained, Method: "fio " + s.Criterion}, nil
}

// checkFio verifies that fio ran without an error for the requested time, with the options that
// were given.
func checkFio(o bench.Outcome) (string, error) {
	r, err := readFio(o.Inside.Stdout)
	if err != nil {
		return "", err
	}
	for _, j := range r.Jobs {
		switch {
		case j.Error == nil:
			return "", fmt.Errorf("fio does not report whether job %s had errors", j.Name)
		case *j.Error != 0:
			return "", host.WithReason(fmt.Errorf("fio ended job %s with error %d (an errno; 84 means that data read back differ from the data written)", j.Name, *j.Error), host.Output{Stderr: o.Inside.Stderr})
		}
	}
	j, p := r.main, o.Params
	asked, err := fioOptions(p)
	if err != nil {
		return "", err
	}
	switch {
	case asked.ramp != nil && r.ramp == nil:
		return "", fmt.Errorf("fio's output has no job for the ramp, although ramp=%s", p["ramp"])
	case asked.ramp == nil && r.ramp != nil:
		return "", fmt.Errorf("fio's output has a job for the ramp, although ramp=%s", p["ramp"])
	}
	words := []string{"fio", "ramp=" + p["ramp"]}
	subject := []string{"direct", "exec_prerun", "invalidate"}
	for _, kv := range slices.Concat(asked.common, asked.main) {
		said, ok := j.Options[kv[0]]
		if !ok {
			said, ok = r.Global[kv[0]]
		}
		if ok && said != kv[1] {
			return "", fmt.Errorf("fio ran with %s=%s, want %s", kv[0], said, kv[1])
		}
		if !slices.Contains(subject, kv[0]) {
			words = append(words, kv[0]+"="+kv[1])
		}
	}
	for _, w := range ways(p["rw"]) {
		if err := j.direction(w).done(j, w.name, p); err != nil {
			return "", err
		}
	}
	return digest(words...), nil
}

// done verifies that the requested time, or in a checked run the requested bytes, were completed.
func (d *fioDirection) done(j *fioJob, name string, p bench.Params) error {
	if d.Total <= 0 {
		return fmt.Errorf("fio completed no %s operation", name)
	}
	if d.Dropped > 0 {
		return fmt.Errorf("fio dropped %v %s operations", d.Dropped, name)
	}
	if p["verify"] != "off" {
		size, _ := p.Bytes("size")
		bs, _ := p.Bytes("bs")
		if want := float64(size / bs * bs); d.Bytes != want || j.Read.Bytes != want {
			return fmt.Errorf("fio wrote %.0f bytes and read %.0f bytes back, want %.0f bytes each", d.Bytes, j.Read.Bytes, want)
		}
		return nil
	}
	runtime, _ := p.Seconds("runtime")
	early := j.Steady != nil && j.Steady.Attained == 1
	if ms := float64(runtime.Milliseconds()); !early && d.Runtime < 0.99*ms {
		return fmt.Errorf("fio's %s operations ran for %.3g s, want %v", name, d.Runtime/1e3, runtime)
	}
	return nil
}
