package workloads

import (
	"fmt"
	"strconv"
	"time"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/metric"
)

var (
	launchQueued = loadGauge("launch_seconds", "seconds", metric.Lower, "Time of one launch of a kernel that adds 1, if many launches are queued one after the other, on the harness's clock.")
	launchWaited = loadGauge("launch_waited_seconds", "seconds", metric.Lower, "Time of one launch of a kernel that adds 1, if the program waits for each launch to finish, on the harness's clock.")
)

var gpuLaunch = bench.Workload{
	Name:    "gpu-launch",
	Doc:     "Time to launch a kernel on a GPU through the machine's PyTorch: many launches queued, and with a wait for each launch. The kernels count themselves.",
	Version: 1,
	Params: []bench.Param{
		{Name: "repeats", Default: "500000", Doc: "Number of launches in each timed part."},
		{Name: "warm", Default: "100", Doc: "Warm-up: number of launches before the timed parts."},
		gpuPython,
	},
	Metrics: func(bench.Params) []*metric.Desc {
		return []*metric.Desc{launchQueued, launchWaited, gpuClock, gpuPower, clockDisagreement}
	},
	Primary:  func(bench.Params) *metric.Desc { return launchWaited },
	Tools:    gpuTools,
	Estimate: func(bench.Params) (time.Duration, int64) { return 20 * time.Second, 0 },
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
		found.derived(launchQueued, r.harnessSeconds("queued")/float64(r.Repeats), together)
		found.derived(launchWaited, r.harnessSeconds("waited")/float64(r.Repeats), together)
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
			return "", fmt.Errorf("%d launches were timed and the GPU counted %d: want %s launches in each of two timed parts, and a count of both parts and %d warm-up launches", r.Launches, r.Counted, o.Params["repeats"], warm)
		}
		return digest("gpu-launch", o.Params["repeats"]), nil
	},
}
