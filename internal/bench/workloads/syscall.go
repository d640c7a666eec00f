package workloads

import (
	"time"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/metric"
)

var (
	operationSeconds = &metric.Desc{Name: "operation_seconds", Unit: "seconds", Kind: metric.Gauge, Better: metric.Lower,
		Help: "Time of one operation in seconds, on the harness's clock: the median of the windows."}
	operationInside = &metric.Desc{Name: "operation_inside_seconds", Unit: "seconds", Kind: metric.Gauge, Better: metric.Lower,
		Help: "Time of one operation in seconds, on the worker's own clock: the median of the windows."}
	operations = &metric.Desc{Name: "operations_total", Unit: "operations", Kind: metric.Counter,
		Help: "Operations in the timed windows."}
)

// syscallCost measures leaving the program. In an enclave each system call is an exit and an
// entry, unless the runtime answers inside; in a sandbox it is a switch to the sandbox's kernel.
// The static worker makes them by the bare instruction, which a runtime that replaces the C
// library has to trap; the dynamic one by that library. The warm-up is long because gVisor answers its vDSO's clock by
// system calls for the first second, a thousand times slower than afterwards.
var syscallCost = bench.Workload{
	Name:    "syscall",
	Doc:     "Cost of a null system call, of reading the clock with and without a system call, and of the first touch of a page.",
	Version: 1,
	Params: append([]bench.Param{
		{Name: "mechanism", Default: "null", Values: []string{"null", "vdso", "clock", "fault"},
			Doc: "The operation that is repeated. null: getppid. vdso: clock_gettime through the C library. clock: clock_gettime forced through the kernel. fault: the first touch of a page of fresh memory (mapping and unmapping are not timed)."},
		formParam,
	}, windowParams("100ms", "1s")...),
	Metrics: func(bench.Params) []*metric.Desc {
		return []*metric.Desc{operationSeconds, operationInside, clockDisagreement, operations}
	},
	Primary:    func(bench.Params) *metric.Desc { return operationSeconds },
	Operations: operations,
	Sweep:      map[string][]string{"mechanism": {"null", "vdso", "clock", "fault"}},
	Estimate:   func(p bench.Params) (time.Duration, int64) { return windowTime(p), 0 },
	Job: func(p bench.Params) (bench.Job, error) {
		args, err := windowArgs(p)
		if err != nil {
			return bench.Job{}, err
		}
		return formJob(p["form"], append([]string{"syscall", p["mechanism"]}, args...)...)
	},
	Parse: func(o bench.Outcome) ([]metric.Sample, error) {
		r, err := readWindows(o.Inside)
		if err != nil {
			return nil, err
		}
		return []metric.Sample{
			{Desc: operationSeconds, Value: r.cost(part.byHarness)},
			{Desc: operationInside, Value: r.cost(part.byWorker)},
			r.disagreement(),
			{Desc: operations, Value: float64(r.operations)},
		}, nil
	},
	Series: windowSeries(func(_ bench.Params, cost float64) float64 { return cost }),
	Check: func(o bench.Outcome) (string, error) {
		r, err := readWindows(o.Inside)
		if err != nil {
			return "", err
		}
		if err := r.check(o.Params); err != nil {
			return "", err
		}
		return digest("syscall", o.Params["mechanism"], o.Params["windows"], o.Params["operations"]), nil
	},
}
