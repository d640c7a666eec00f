package workloads

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/workloads/gpu"
)

var (
	gpuClock = &metric.Desc{Name: "gpu_clock_hertz", Unit: "hertz", Kind: metric.Gauge, Better: metric.Higher,
		Help: "Clock of the GPU's multiprocessors during the timed part: the median of what nvidia-smi said every 200 ms."}
	gpuPower = &metric.Desc{Name: "gpu_power_watts", Unit: "watts", Kind: metric.Gauge, Better: metric.Lower,
		Help: "Power of the GPU during the timed part: the median of what nvidia-smi said every 200 ms."}

	gemmRate = loadGauge("gemm_operations_per_second", "operations_per_second", metric.Higher,
		"Operations of multiplying square matrices, 2 x size^3 each, over their time on the harness's clock.")
	gemmError = quotient(loadGauge("gemm_error_ratio", "ratio", metric.Lower, "Difference of sampled rows of the product from the same rows in FP64, relative to these, as Frobenius norms."))

	copyRate    = loadGauge("copied_bytes_per_second", "bytes_per_second", metric.Higher, "Bytes copied per second on the harness's clock; a copied byte counts once.")
	copySeconds = loadGauge("copy_seconds", "seconds", metric.Lower, "Time of one copy on the harness's clock.")
	copyTraffic = loadGauge("device_memory_bytes_per_second", "bytes_per_second", metric.Higher, "Bytes that copies within the device's memory read and wrote per second: each copied byte counts twice.")

	launchQueued = loadGauge("launch_seconds", "seconds", metric.Lower, "Time of one launch of a kernel that adds 1, many queued one after the other, on the harness's clock.")
	launchWaited = loadGauge("launch_waited_seconds", "seconds", metric.Lower, "Time of one such launch when each is waited for.")
)

// gpuTools are what every GPU workload needs. PyTorch is looked for by the script, which says in a line what is missing.
var gpuTools = []bench.Tool{{Command: "nvidia-smi", Package: "nvidia-smi with NVIDIA's driver"}, {Command: "python3", Package: "python3 with PyTorch for CUDA"}}

var gpuPython = bench.Param{Name: "python", Default: "python3", Subject: true, Doc: "The Python that has PyTorch, in the environment."}

var gpuGemm = bench.Workload{
	Name: "gpu-gemm",
	Doc: "Throughput of a GPU at multiplying dense random matrices in FP32, BF16, FP8 or INT8 through the machine's PyTorch; " +
		"sampled rows of the product are compared with FP64.",
	Version: 1,
	Params: []bench.Param{
		{Name: "dtype", Default: "bf16", Values: []string{"fp32", "bf16", "fp8", "int8"}, Doc: "Type of the matrices. FP32 is without TF32; FP8 is e4m3 with results in BF16; INT8 has results in INT32."},
		{Name: "size", Default: "8192", Doc: "Rows and columns of each matrix, a multiple of 32."},
		{Name: "repeats", Default: "50", Doc: "Products in the timed part."},
		{Name: "warm", Default: "10", Doc: "Warm-up: products before it."},
		gpuPython,
	},
	Metrics: func(bench.Params) []*metric.Desc {
		return []*metric.Desc{gemmRate, gemmError, gpuClock, gpuPower, clockDisagreement}
	},
	Primary:  func(bench.Params) *metric.Desc { return gemmRate },
	Sweep:    map[string][]string{"dtype": {"fp32", "bf16", "fp8", "int8"}},
	Tools:    gpuTools,
	Estimate: func(bench.Params) (time.Duration, int64) { return 20 * time.Second, 0 },
	Job: func(p bench.Params) (bench.Job, error) {
		size, err := p.Int("size", 32)
		if err == nil && (size%32 != 0 || size > 1<<17) {
			err = fmt.Errorf("parameter size=%q: want a multiple of 32 up to %d", p["size"], 1<<17)
		}
		repeats, err2 := p.Int("repeats", 1)
		if err := errors.Join(err, err2); err != nil {
			return bench.Job{}, err
		}
		return gpuJob(p, "gemm", size, repeats, "--dtype", p["dtype"])
	},
	Parse: func(o bench.Outcome) ([]metric.Sample, error) {
		r, err := readGPU(o)
		if err != nil {
			return nil, err
		}
		var found reading
		found.derived(gemmRate, positive(r.Operations)/r.outside("gemm"), together)
		found.derived(gemmError, r.Error, "the script does not report it")
		return r.rest(found, "gemm")
	},
	Check: func(o bench.Outcome) (string, error) {
		r, err := readGPU(o)
		if err != nil {
			return "", err
		}
		n := float64(r.Size)
		switch {
		case r.Dtype != o.Params["dtype"]:
			return "", fmt.Errorf("the matrices were %s, want %s", r.Dtype, o.Params["dtype"])
		case r.Operations != 2*n*n*n*float64(r.Repeats):
			return "", fmt.Errorf("%g operations, want 2 x %d^3 x %d", r.Operations, r.Size, r.Repeats)
		case r.Rows < 1 || !(r.Error >= 0) || r.Error > r.Bound:
			return "", fmt.Errorf("%d rows of the product were compared with FP64: off by %g, and %g is allowed", r.Rows, r.Error, r.Bound)
		}
		return digest("gpu-gemm", r.Dtype, strconv.FormatInt(r.Size, 10), strconv.FormatInt(r.Repeats, 10)), nil
	},
}

var gpuCopy = bench.Workload{
	Name: "gpu-copy",
	Doc: "Copies between a machine and its GPU, both ways, from pinned or pageable memory, or within the GPU's memory, through the machine's PyTorch: " +
		"bandwidth of large copies, and the time of small ones that are waited for, where confidential mode costs most. The copy is compared with its source.",
	Version: 1,
	Params: []bench.Param{
		{Name: "direction", Default: "to-device", Values: []string{"to-device", "to-host", "device"}, Doc: "To the GPU, from it, or within its memory."},
		{Name: "memory", Default: "pinned", Values: []string{"pinned", "pageable"}, Doc: "The machine's memory: pinned, which the GPU reads and writes itself, or pageable, which the driver copies first."},
		{Name: "size", Default: "64MiB", Doc: "Bytes of a copy."},
		{Name: "each", Default: "queued", Values: []string{"queued", "waited"}, Doc: "Queued: the next copy is asked for at once. Waited: when the last has ended; with small sizes a storm of small copies."},
		{Name: "repeats", Default: "0", Doc: "Copies in the timed part; 0 for as many as come to 4 GiB, at least 50 and at most 20,000."},
		{Name: "warm", Default: "10", Doc: "Warm-up: copies before it."},
		gpuPython,
	},
	Metrics: func(p bench.Params) []*metric.Desc {
		out := []*metric.Desc{copyRate, copySeconds, gpuClock, gpuPower, clockDisagreement}
		if p["direction"] == "device" {
			out = append(out, copyTraffic)
		}
		return out
	},
	Primary: func(p bench.Params) *metric.Desc {
		switch {
		case p["each"] == "waited":
			return copySeconds
		case p["direction"] == "device":
			return copyTraffic
		}
		return copyRate
	},
	Sweep:    map[string][]string{"size": {"64", "4KiB", "256KiB", "64MiB"}},
	Tools:    gpuTools,
	Estimate: func(bench.Params) (time.Duration, int64) { return 15 * time.Second, 0 },
	Job: func(p bench.Params) (bench.Job, error) {
		size, repeats, err := copyWork(p)
		if err != nil {
			return bench.Job{}, err
		}
		return gpuJob(p, "copy", size, repeats, "--direction", p["direction"], "--memory", p["memory"], "--each", p["each"])
	},
	Parse: func(o bench.Outcome) ([]metric.Sample, error) {
		r, err := readGPU(o)
		if err != nil {
			return nil, err
		}
		var found reading
		found.derived(copyRate, positive(r.Bytes)/r.outside("copy"), together)
		found.derived(copySeconds, r.outside("copy")/float64(r.Repeats), together)
		if o.Params["direction"] == "device" {
			found.derived(copyTraffic, 2*positive(r.Bytes)/r.outside("copy"), together)
		}
		return r.rest(found, "copy")
	},
	Check: func(o bench.Outcome) (string, error) {
		r, err := readGPU(o)
		if err != nil {
			return "", err
		}
		size, repeats, err := copyWork(o.Params)
		p := o.Params
		switch {
		case err != nil:
			return "", err
		case r.Direction != p["direction"] || r.Memory != p["memory"]:
			return "", fmt.Errorf("the copies went %s with %s memory, want %s with %s", r.Direction, r.Memory, p["direction"], p["memory"])
		case r.Size != size || r.Repeats != repeats || r.Copies != repeats || r.Bytes != float64(size)*float64(repeats):
			return "", fmt.Errorf("%d copies with %g bytes in all, want %d of %d bytes", r.Copies, r.Bytes, repeats, size)
		}
		return digest("gpu-copy", r.Direction, r.Memory, p["each"], strconv.FormatInt(size, 10), strconv.FormatInt(repeats, 10)), nil
	},
}

// copyWork is the size of a copy and their number.
func copyWork(p bench.Params) (size, repeats int64, err error) {
	if size, err = p.Bytes("size"); err != nil {
		return 0, 0, err
	}
	repeats, err = p.Int("repeats", 0)
	if size < 1 {
		err = errors.Join(err, fmt.Errorf("parameter size=%q: want 1 byte or more", p["size"]))
	}
	if err == nil && repeats == 0 {
		repeats = min(max((4<<30)/size, 50), 20_000)
	}
	return size, repeats, err
}

var gpuLaunch = bench.Workload{
	Name:    "gpu-launch",
	Doc:     "Time to launch a kernel on a GPU through the machine's PyTorch: many queued, and each waited for. The kernels count themselves.",
	Version: 1,
	Params: []bench.Param{
		{Name: "repeats", Default: "20000", Doc: "Launches in each timed part."},
		{Name: "warm", Default: "100", Doc: "Warm-up: launches before them."},
		gpuPython,
	},
	Metrics: func(bench.Params) []*metric.Desc {
		return []*metric.Desc{launchQueued, launchWaited, gpuClock, gpuPower, clockDisagreement}
	},
	Primary:  func(bench.Params) *metric.Desc { return launchWaited },
	Tools:    gpuTools,
	Estimate: func(bench.Params) (time.Duration, int64) { return 15 * time.Second, 0 },
	Job: func(p bench.Params) (bench.Job, error) {
		repeats, err := p.Int("repeats", 1)
		if err != nil {
			return bench.Job{}, err
		}
		return gpuJob(p, "launch", 1, repeats)
	},
	Parse: func(o bench.Outcome) ([]metric.Sample, error) {
		r, err := readGPU(o)
		if err != nil {
			return nil, err
		}
		var found reading
		found.derived(launchQueued, r.outside("queued")/float64(r.Repeats), together)
		found.derived(launchWaited, r.outside("waited")/float64(r.Repeats), together)
		return r.rest(found, "waited")
	},
	Check: func(o bench.Outcome) (string, error) {
		r, err := readGPU(o)
		if err != nil {
			return "", err
		}
		warm, err := o.Params.Int("warm", 0)
		switch {
		case err != nil:
			return "", err
		case strconv.FormatInt(r.Repeats, 10) != o.Params["repeats"] || r.Launches != r.Repeats || r.Counted != 2*r.Repeats+warm:
			return "", fmt.Errorf("%d launches were timed and the device counted %d, want %s, and twice that with %d before", r.Launches, r.Counted, o.Params["repeats"], warm)
		}
		return digest("gpu-launch", o.Params["repeats"]), nil
	},
}

// gpuJob runs the script.
func gpuJob(p bench.Params, mode string, size, repeats int64, more ...string) (bench.Job, error) {
	warm, err := p.Int("warm", 0)
	if err == nil && p["python"] == "" {
		err = errors.New("parameter python: want a program, such as python3")
	}
	argv := append([]string{p["python"], "{work}/gpu.py", mode, "--size", strconv.FormatInt(size, 10), "--repeats", strconv.FormatInt(repeats, 10), "--warm", strconv.FormatInt(warm, 10)}, more...)
	return bench.Job{Inside: host.Cmd{Argv: argv}, Files: []bench.File{{Name: "gpu.py", Data: gpu.Script}}}, err
}

// gpuReport is the last line of the script.
type gpuReport struct {
	Mode        string             `json:"mode"`
	Size        int64              `json:"size"`
	Repeats     int64              `json:"repeats"`
	Torch       string             `json:"torch"`
	CUDA        string             `json:"cuda"`
	Device      string             `json:"device"`
	MemoryBytes int64              `json:"memory_bytes"`
	Seconds     map[string]float64 `json:"seconds"`
	Clock       *float64           `json:"clock_hertz"`
	ClockWhy    string             `json:"clock_hertz_missing"`
	Power       *float64           `json:"power_watts"`
	PowerWhy    string             `json:"power_watts_missing"`
	// Of gemm.
	Dtype      string  `json:"dtype"`
	Operations float64 `json:"operations"`
	Error      float64 `json:"error"`
	Bound      float64 `json:"bound"`
	Rows       int64   `json:"rows"`
	// Of copy.
	Direction string  `json:"direction"`
	Memory    string  `json:"memory"`
	Bytes     float64 `json:"bytes"`
	Copies    int64   `json:"copies"`
	// Of launch.
	Launches int64 `json:"launches"`
	Counted  int64 `json:"counted"`
}

// gpuOutput is the report with the times of its steps on the harness's clock.
type gpuOutput struct {
	gpuReport
	steps map[string]time.Duration
}

// together is why a step has no time of its own.
const together = "the lines around it arrived together"

// readGPU reads the script's output. Where the script failed, the error is its own line.
func readGPU(o bench.Outcome) (*gpuOutput, error) {
	in := o.Inside
	if in.Code != 0 {
		said := strings.TrimSpace(string(in.Stderr))
		if i := strings.LastIndexByte(said, '\n'); i >= 0 {
			said = said[i+1:]
		}
		return nil, fmt.Errorf("the script ended with status %d: %.400s", in.Code, said)
	}
	if len(in.Lines) == 0 || !bytes.HasSuffix(in.Stdout, []byte("\n")) {
		return nil, errors.New("the script's output is cut off")
	}
	r := &gpuOutput{steps: map[string]time.Duration{}}
	last := len(in.Lines) - 1
	if err := readReport("script", []byte(in.Lines[last].Text), &r.gpuReport); err != nil {
		return nil, err
	}
	for i := 0; i < last; i += 2 {
		step, begun := strings.CutPrefix(in.Lines[i].Text, "begin ")
		if !begun || i+1 == last || in.Lines[i+1].Text != "end "+step || r.steps[step] != 0 {
			return nil, fmt.Errorf("the script said %.60q in the wrong place", in.Lines[i].Text)
		}
		r.steps[step] = in.Lines[i+1].At - in.Lines[i].At
	}
	switch {
	case r.Device == "" || r.Device == "cpu":
		return nil, fmt.Errorf("the script ran on %q, which is no GPU", r.Device)
	case r.Repeats < 1 || r.Size < 1 || len(r.Seconds) == 0:
		return nil, fmt.Errorf("report of the script: %d repeats of size %d, %d times", r.Repeats, r.Size, len(r.Seconds))
	}
	for step := range r.Seconds {
		if _, ok := r.steps[step]; !ok {
			return nil, fmt.Errorf("the script's lines are not around its step %.40q", step)
		}
	}
	return r, nil
}

// outside is the time of a step on the harness's clock; NaN if there is none.
func (r *gpuOutput) outside(step string) float64 { return positive(r.steps[step].Seconds()) }

// rest adds what all modes report.
func (r *gpuOutput) rest(found reading, step string) ([]metric.Sample, error) {
	for _, x := range []struct {
		desc  *metric.Desc
		value *float64
		why   string
	}{{gpuClock, r.Clock, r.ClockWhy}, {gpuPower, r.Power, r.PowerWhy}} {
		if x.value == nil {
			found.lack(x.desc, "not reported: "+x.why)
			continue
		}
		found.value(x.desc, positive(*x.value), "nvidia-smi said "+strconv.FormatFloat(*x.value, 'g', -1, 64))
	}
	found.derived(clockDisagreement, math.Abs(positive(r.Seconds[step])/r.outside(step)-1), together)
	return found.samples, errors.Join(found.missing...)
}
