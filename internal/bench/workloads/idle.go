package workloads

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
)

var idleCPU = ofCores(loadGauge("idle_cpu_ratio", "ratio", metric.Lower,
	"Number of host CPUs that the virtual machine monitor and its vhost threads kept busy while nothing ran in the guest."))

// idle is the other side of what makes wake-ups cheap: a guest that polls instead of halting answers sooner, and keeps its
// host's CPUs busy while it has nothing to do. Its kernel's own work (timers) is included. Counters are read on the host, because
// a monitor in the guest would be most of the work there.
var idle = bench.Workload{
	Name:         "idle",
	Doc:          "A guest in which nothing runs: the number of host CPUs that the guest keeps busy.",
	Version:      1,
	Params:       []bench.Param{{Name: "time", Default: "10s", Doc: "How long nothing runs, in whole seconds; the host accounts CPU time in steps of 10 ms."}},
	Metrics:      func(bench.Params) []*metric.Desc { return []*metric.Desc{idleCPU} },
	Primary:      func(bench.Params) *metric.Desc { return idleCPU },
	Environments: []string{"default=qemu", "poll=qemu,idle=poll"},
	Tools:        []bench.Tool{{Command: "sleep", Package: "coreutils"}},
	Estimate: func(p bench.Params) (time.Duration, int64) {
		d, err := wholeSeconds(p, "time")
		if err != nil {
			return time.Second, 0 // Job reports what is wrong
		}
		return d, 0
	},
	Job: func(p bench.Params) (bench.Job, error) {
		d, err := wholeSeconds(p, "time")
		if err != nil {
			return bench.Job{}, err
		}
		if d < time.Second {
			return bench.Job{}, fmt.Errorf("parameter time=%q: want a second or more", p["time"])
		}
		return bench.Job{Inside: host.Cmd{Argv: []string{"sleep", strconv.FormatFloat(d.Seconds(), 'f', 0, 64)}}, Monitor: true}, nil
	},
	Parse: func(o bench.Outcome) ([]metric.Sample, error) {
		if o.Monitor == nil || o.Monitor.Elapsed <= 0 {
			return nil, errors.New("the CPU time of the virtual machine's monitor could not be read")
		}
		return []metric.Sample{{Desc: idleCPU, Value: o.Monitor.CPU.Seconds() / o.Monitor.Elapsed.Seconds()}}, nil
	},
	Check: func(o bench.Outcome) (string, error) {
		d, err := wholeSeconds(o.Params, "time")
		switch {
		case err != nil:
			return "", err
		case o.Inside.Code != 0:
			return "", fmt.Errorf("sleep ended with status %d", o.Inside.Code)
		case o.Monitor != nil && o.Monitor.Elapsed < d:
			return "", fmt.Errorf("the guest was idle for %v, want %v", o.Monitor.Elapsed, d)
		}
		return digest("idle", o.Params["time"]), nil
	},
}
