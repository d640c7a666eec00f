package workloads

import (
	"errors"
	"fmt"
	"math"
	"sort"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/metric"
)

var (
	roundTripsPerSecond = &metric.Desc{Name: "round_trips_per_second", Unit: "round_trips_per_second", Kind: metric.Gauge, Better: metric.Higher,
		Help: "Round trips between the two threads per second, each two wake-ups, on the harness's clock: the median of the windows."}
	roundTrips = &metric.Desc{Name: "round_trips_total", Unit: "round_trips", Kind: metric.Counter,
		Help: "Round trips in the timed windows."}
	wakeupSeconds = &metric.Desc{Name: "wakeup_seconds", Unit: "seconds", Kind: metric.Histogram, Better: metric.Lower,
		Help: "Time from before the waking call in one thread until the other runs, in seconds on the worker's clock; the value is the mean."}
)

// wakeupQuantiles are published only where ten observations lie above them.
var wakeupQuantiles = []struct {
	q    float64
	desc *metric.Desc
}{
	{0.5, wakeupQuantile("p50", "Median")},
	{0.9, wakeupQuantile("p90", "90th percentile")},
	{0.99, wakeupQuantile("p99", "99th percentile")},
	{0.999, wakeupQuantile("p999", "99.9th percentile")},
}

// wakeupSamples is how many wake-ups are timed one by one, two for each round trip.
func wakeupSamples(p bench.Params) uint64 {
	n, _ := p.Int("samples", 1) // Job reports what is wrong
	return 2 * uint64(max(n, 0))
}

func wakeupQuantile(short, long string) *metric.Desc {
	return &metric.Desc{Name: "wakeup_" + short + "_seconds", Unit: "seconds", Kind: metric.Gauge, Better: metric.Lower,
		Help: long + " of the time from before the waking call in one thread until the other runs, in seconds on the worker's clock."}
}

// wakeupBounds are the bounds of the histogram, the same in every run.
var wakeupBounds = []float64{
	5e-7, 1e-6, 2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 1e-1, 1,
}

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
		{Name: "mechanism", Default: "futex", Values: []string{"futex", "eventfd", "pipe"}, Doc: "How a thread wakes the other."},
		{Name: "placement", Default: "same", Values: []string{"any", "same", "smt", "cross"},
			Doc: "CPUs of the two threads: any leaves it to the scheduler, same is one CPU, smt two threads of one core, cross two cores (needs two CPUs)."},
		{Name: "samples", Default: "10000", Doc: "Round trips whose two wake-ups are timed one by one, after the windows."},
		formParam,
	}, windowParams("100ms", "200ms")...),
	Metrics: func(p bench.Params) []*metric.Desc {
		descs := []*metric.Desc{roundTripsPerSecond, wakeupSeconds, clockDisagreement, roundTrips}
		for _, x := range wakeupQuantiles {
			if enough(wakeupSamples(p), x.q) {
				descs = append(descs, x.desc)
			}
		}
		return descs
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
		samples, err := p.Int("samples", 1)
		if err != nil {
			return bench.Job{}, err
		}
		if samples > mostSamples {
			return bench.Job{}, fmt.Errorf("parameter samples=%d: want at most %d", samples, mostSamples)
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
		l, err := readLatencies(r.others)
		if err != nil {
			return samples, fmt.Errorf("%s: %w", wakeupSeconds.Name, err)
		}
		h := l.histogram(wakeupBounds)
		samples = append(samples, metric.Sample{Desc: wakeupSeconds, Value: h.Sum / float64(l.n), Hist: h})
		for _, x := range wakeupQuantiles {
			if enough(min(l.n, wakeupSamples(o.Params)), x.q) {
				samples = append(samples, metric.Sample{Desc: x.desc, Value: l.quantile(x.q)})
			}
		}
		return samples, nil
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
		n, err := o.Params.Int("samples", 1)
		if err != nil {
			return "", err
		}
		// A backward clock spoils the latencies, not the work, so Parse reports it.
		l, err := readLatencies(r.others)
		if err != nil && !errors.Is(err, errBackwards) {
			return "", err
		}
		if err == nil && l.n != 2*uint64(n) {
			return "", fmt.Errorf("%d wake-ups were timed, want %d", l.n, 2*n)
		}
		return digest("wakeup", o.Params["mechanism"], o.Params["placement"], o.Params["windows"], o.Params["operations"], o.Params["samples"]), nil
	},
}

// mostSamples keeps the lines of a run below the limit of package host.
const mostSamples = 40_000

// enough reports whether ten of n observations lie above a quantile.
func enough(n uint64, q float64) bool { return math.Round(float64(n)*(1-q)*1e6) >= 10e6 }

// latencies are observations in ascending order, equal ones together.
type latencies struct {
	seconds []float64
	upTo    []uint64 // observations of at most seconds[i]
	n       uint64
}

// errBackwards: the clocks of two CPUs differ.
var errBackwards = errors.New("a thread woke before the call that woke it: the worker's clock differs between CPUs")

// readLatencies reads lines "latency NANOSECONDS COUNT" and the line
// "backwards COUNT" that follows them.
func readLatencies(lines []string) (latencies, error) {
	var l latencies
	ended := false
	for _, line := range lines {
		word, rest, _ := strings.Cut(line, " ")
		switch word {
		case "latency":
			v, err := numbers(rest, 2)
			if err != nil || ended || v[1] == 0 || len(l.seconds) > 0 && float64(v[0])/1e9 <= l.seconds[len(l.seconds)-1] {
				return l, fmt.Errorf("the worker said %.60q: latencies must ascend", line)
			}
			l.n += v[1]
			l.seconds, l.upTo = append(l.seconds, float64(v[0])/1e9), append(l.upTo, l.n)
		case "backwards":
			v, err := numbers(rest, 1)
			if err != nil || ended {
				return l, fmt.Errorf("the worker said %.60q", line)
			}
			if v[0] > 0 {
				return l, fmt.Errorf("%w, %d times", errBackwards, v[0])
			}
			ended = true
		}
	}
	if !ended || l.n == 0 {
		return l, errors.New("the worker printed no latencies")
	}
	return l, nil
}

// quantile is the smallest observation that at least the share q does not exceed.
func (l latencies) quantile(q float64) float64 {
	rank := uint64(math.Ceil(q * float64(l.n)))
	return l.seconds[min(sort.Search(len(l.upTo), func(i int) bool { return l.upTo[i] >= rank }), len(l.seconds)-1)]
}

func (l latencies) histogram(bounds []float64) *metric.Hist {
	h := &metric.Hist{Bounds: bounds, Counts: make([]uint64, len(bounds)+1)}
	before := uint64(0)
	for i, v := range l.seconds {
		h.Counts[sort.SearchFloat64s(bounds, v)] += l.upTo[i] - before
		h.Sum += v * float64(l.upTo[i]-before)
		before = l.upTo[i]
	}
	return h
}
