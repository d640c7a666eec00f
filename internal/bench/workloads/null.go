package workloads

import (
	"fmt"
	"time"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/metric"
)

var nullSeconds = &metric.Desc{Name: "run_seconds", Unit: "seconds", Kind: metric.Gauge, Better: metric.Lower,
	Help: "Wall time of a process that does nothing, in seconds on the harness's clock: the cost of the launcher and the harness."}

// null measures the harness itself: the path of every other run, with an empty program at its
// end.
var null = bench.Workload{
	Name:     "null",
	Doc:      "A process that does nothing: the cost of a run without work, by launcher.",
	Version:  1,
	Metrics:  func(bench.Params) []*metric.Desc { return []*metric.Desc{nullSeconds} },
	Primary:  func(bench.Params) *metric.Desc { return nullSeconds },
	Estimate: func(bench.Params) (time.Duration, int64) { return 10 * time.Millisecond, 0 },
	Job:      func(bench.Params) (bench.Job, error) { return microJob("null") },
	Parse: func(o bench.Outcome) ([]metric.Sample, error) {
		if o.Inside.Wall <= 0 {
			return nil, fmt.Errorf("%s: the run has no duration", nullSeconds.Name)
		}
		return []metric.Sample{{Desc: nullSeconds, Value: o.Inside.Wall.Seconds()}}, nil
	},
	Check: func(o bench.Outcome) (string, error) {
		if s := string(o.Inside.Stdout); s != "done\n" {
			return "", fmt.Errorf("the worker printed %.40q, want \"done\"", s)
		}
		return digest("null"), nil
	},
}
