package workloads

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/metric"
)

var (
	gemmRate = loadGauge("gemm_operations_per_second", "operations_per_second", metric.Higher,
		"Operations of multiplying square matrices, 2 x size^3 for each product, divided by their time on the harness's clock.")
	gemmError = quotient(loadGauge("gemm_error_ratio", "ratio", metric.Lower, "Relative error of sampled rows of the product: their difference from the same rows computed in FP64, as a ratio of Frobenius norms."))
)

var gpuGemm = bench.Workload{
	Name: "gpu-gemm",
	Doc: "Throughput of a GPU at multiplying dense random matrices in FP32, BF16, FP8 or INT8 through the machine's PyTorch; " +
		"sampled rows of the product are compared with FP64.",
	Version: 1,
	Params: []bench.Param{
		{Name: "dtype", Default: "bf16", Values: []string{"fp32", "bf16", "fp8", "int8"}, Doc: "Number type of the matrices. fp32 does not use TF32. fp8 is e4m3 with results in BF16. int8 has results in INT32."},
		{Name: "size", Default: "8192", Doc: "Rows and columns of each matrix, a multiple of 32."},
		{Name: "repeats", Default: "0", Doc: "Number of products in the timed part. 0 chooses a number that takes seconds on a large GPU: 130 x 10^12 operations in FP32, 2 x 10^15 in BF16 and 4 x 10^15 in FP8 and INT8, at least 50 and at most 200,000 products."},
		{Name: "warm", Default: "10", Doc: "Warm-up: number of products before the timed part."},
		gpuPython,
	},
	Metrics: func(bench.Params) []*metric.Desc {
		return []*metric.Desc{gemmRate, gemmError, gpuClock, gpuPower, clockDisagreement}
	},
	Primary:  func(bench.Params) *metric.Desc { return gemmRate },
	Sweep:    map[string][]string{"dtype": {"fp32", "bf16", "fp8", "int8"}},
	Tools:    gpuTools,
	Estimate: func(bench.Params) (time.Duration, int64) { return 30 * time.Second, 0 },
	Job: func(p bench.Params) (bench.Job, error) {
		size, repeats, err := gemmWork(p)
		if err != nil {
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
		found.derived(gemmRate, positive(r.Operations)/r.harnessSeconds("gemm"), together)
		found.derived(gemmError, r.Error, "the script does not report it")
		return r.rest(found, "gemm")
	},
	Check: func(o bench.Outcome) (string, error) {
		r, err := readGPU(o)
		if err != nil {
			return "", err
		}
		n := float64(r.Size)
		size, repeats, err := gemmWork(o.Params)
		switch {
		case err != nil:
			return "", err
		case r.Size != size || r.Repeats != repeats:
			return "", fmt.Errorf("the script made %d products of size %d, want %d products of size %d", r.Repeats, r.Size, repeats, size)
		case r.Dtype != o.Params["dtype"]:
			return "", fmt.Errorf("the matrices were %s, want %s", r.Dtype, o.Params["dtype"])
		case r.Operations != 2*n*n*n*float64(r.Repeats):
			return "", fmt.Errorf("the script reports %g operations, want 2 x %d^3 x %d", r.Operations, r.Size, r.Repeats)
		case r.Rows < 1 || !(r.Error >= 0) || r.Error > r.Bound:
			return "", fmt.Errorf("%d rows of the product were compared with FP64: the relative error is %g, want at most %g", r.Rows, r.Error, r.Bound)
		}
		return digest("gpu-gemm", r.Dtype, strconv.FormatInt(r.Size, 10), strconv.FormatInt(r.Repeats, 10)), nil
	},
}

// gemmVolume is how many operations take seconds on a large GPU.
var gemmVolume = map[string]int64{"fp32": 130e12, "bf16": 2e15, "fp8": 4e15, "int8": 4e15}

// gemmWork is the size of the matrices and the number of products.
func gemmWork(p bench.Params) (size, repeats int64, err error) {
	size, err = p.Int("size", 32)
	if err == nil && (size%32 != 0 || size > 1<<17) {
		err = fmt.Errorf("parameter size=%q: want a multiple of 32 up to %d", p["size"], 1<<17)
	}
	repeats, err2 := p.Int("repeats", 0)
	if err = errors.Join(err, err2); err == nil && repeats == 0 {
		repeats = min(max(gemmVolume[p["dtype"]]/(2*size*size*size), 50), 200_000)
	}
	return size, repeats, err
}
