package workloads

import (
	"fmt"
	"time"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/metric"
)

var (
	roundTripsPerSecond = &metric.Desc{Name: "round_trips_per_second", Unit: "round_trips_per_second", Kind: metric.Gauge, Better: metric.Higher,
		Help: "Round trips between the two threads per second, on the harness's clock: the median of the windows. A round trip is two wake-ups."}
	roundTrips = &metric.Desc{Name: "round_trips_total", Unit: "round_trips", Kind: metric.Counter,
		Help: "Round trips in the timed windows."}
	wakeupSeconds = &metric.Desc{Name: "wakeup_seconds", Unit: "seconds", Kind: metric.Histogram, Better: metric.Lower,
		Help: "Time from before the waking call in one thread until the other runs, in seconds on the worker's clock; the value is the mean."}
)

// wakeupTimes are the times of single wake-ups, two for each round trip.
var wakeupTimes = newSingleTimes(wakeupSeconds, "wakeup", 2, "wake-ups were timed",
	"the time from before the waking call in one thread until the other runs, in seconds on the worker's clock")

// wakeup measures waking a thread. In a guest, waking one on an idle CPU needs an exit (the idle
// CPU halts) and often a second one for the interrupt, so network round trips grow where bulk
// transfers do not, which is easily mistaken for the cost of memory encryption. Placement same
// shows the switch alone, cross adds the idle CPU.
//
// A sandbox may accept a placement without obeying it.
var wakeup = bench.Workload{
	Name:    "wakeup",
	Doc:     "Ping-pong between two sleeping threads by futex, eventfd or pipe, on one core or across cores.",
	Version: 1,
	Params: append([]bench.Param{
		{Name: "mechanism", Default: "futex", Values: []string{"futex", "eventfd", "pipe"}, Doc: "How one thread wakes the other."},
		{Name: "placement", Default: "same", Values: []string{"any", "same", "smt", "cross"},
			Doc: "CPUs of the two threads. any: the scheduler chooses. same: one CPU for both. smt: two hardware threads of one core. cross: two cores (needs two CPUs)."},
		{Name: "samples", Default: "10000", Doc: "Number of round trips whose two wake-ups are timed one by one, after the windows."},
		formParam,
	}, windowParams("100ms", "200ms")...),
	Metrics: func(p bench.Params) []*metric.Desc {
		return append([]*metric.Desc{roundTripsPerSecond, wakeupSeconds, clockDisagreement, roundTrips}, wakeupTimes.quantilesFor(p)...)
	},
	Primary:    func(bench.Params) *metric.Desc { return roundTripsPerSecond },
	Operations: roundTrips,
	Sweep:      map[string][]string{"mechanism": {"futex", "eventfd", "pipe"}, "placement": {"same", "cross"}},
	Estimate: func(p bench.Params) (time.Duration, int64) {
		n, _ := p.Int("samples", 1)
		return windowTime(p) + time.Duration(min(n, mostSamples))*50*time.Microsecond, 0
	},
	Job: func(p bench.Params) (bench.Job, error) {
		args, err := windowArgs(p)
		if err != nil {
			return bench.Job{}, err
		}
		samples, err := sampleCount(p)
		if err != nil {
			return bench.Job{}, err
		}
		return formJob(p["form"], append([]string{"wakeup", p["mechanism"], p["placement"], fmt.Sprint(samples)}, args...)...)
	},
	Parse: func(o bench.Outcome) ([]metric.Sample, error) {
		r, err := readWindows(o.Inside)
		if err != nil {
			return nil, err
		}
		samples := []metric.Sample{
			{Desc: roundTripsPerSecond, Value: 1 / r.cost(part.byHarness)},
			r.disagreement(),
			{Desc: roundTrips, Value: float64(r.operations)},
		}
		times, err := wakeupTimes.read(r.others, o.Params)
		return append(samples, times...), err
	},
	Series: windowSeries(func(_ bench.Params, cost float64) float64 { return 1 / cost }),
	Check: func(o bench.Outcome) (string, error) {
		r, err := readWindows(o.Inside)
		if err != nil {
			return "", err
		}
		if err := r.check(o.Params); err != nil {
			return "", err
		}
		if err := wakeupTimes.check(r.others, o.Params); err != nil {
			return "", err
		}
		return digest("wakeup", o.Params["mechanism"], o.Params["placement"], o.Params["windows"], o.Params["operations"], o.Params["samples"]), nil
	},
}
