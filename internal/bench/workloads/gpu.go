package workloads

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/workloads/gpu"
)

var (
	gpuClock = &metric.Desc{Name: "gpu_clock_hertz", Unit: "hertz", Kind: metric.Gauge, Better: metric.Higher, Most: metric.MostHertz,
		Help: "Clock of the GPU's multiprocessors during the timed part: the median of nvidia-smi's readings, taken every 200 ms in that part."}
	gpuPower = &metric.Desc{Name: "gpu_power_watts", Unit: "watts", Kind: metric.Gauge, Better: metric.Lower, Most: metric.MostWatts,
		Help: "Power of the GPU during the timed part: the median of nvidia-smi's readings, taken every 200 ms in that part."}
)

// gpuTools are what every GPU workload needs. PyTorch is looked for by the script, which says in a line what is missing.
var gpuTools = []bench.Tool{{Command: "nvidia-smi", Package: "nvidia-smi with NVIDIA's driver"}, {Command: "python3", Package: "python3 with PyTorch for CUDA", Param: "python"}}

var gpuPython = bench.Param{Name: "python", Path: true, Named: true, Default: "python3", Subject: true, Doc: "The Python program with PyTorch, in the environment."}

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

// gpuOutput is the report with the times of its steps.
type gpuOutput struct {
	gpuReport
	steps
}

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
	r := &gpuOutput{}
	var err error
	if r.steps, err = readSteps("script", in, &r.gpuReport); err != nil {
		return nil, err
	}
	switch {
	case r.Device == "" || r.Device == "cpu":
		return nil, fmt.Errorf("the script ran on %q, which is not a GPU", r.Device)
	case r.Repeats < 1 || r.Size < 1 || len(r.Seconds) == 0:
		return nil, fmt.Errorf("report of the script: %d repeats of size %d, with times of %d steps: want at least one of each", r.Repeats, r.Size, len(r.Seconds))
	}
	for step := range r.Seconds {
		if r.times[step] != 1 {
			return nil, fmt.Errorf("the script did not print exactly one begin line and one end line for its step %.40q", step)
		}
	}
	return r, nil
}

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
		found.value(x.desc, positive(*x.value), "want a value above 0, but nvidia-smi reported "+strconv.FormatFloat(*x.value, 'g', -1, 64))
	}
	found.derived(clockDisagreement, math.Abs(positive(r.Seconds[step])/r.harnessSeconds(step)-1), together)
	return found.samples, errors.Join(found.missing...)
}
