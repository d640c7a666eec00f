package workloads

import (
	"errors"
	"fmt"
	"math"
	"sort"
	"strings"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/metric"
)

// singleTimes are the metrics of operations that a worker times one by one: a histogram, whose value is the mean, and
// quantiles, each only where ten observations lie above it. The parameter samples says how often they are timed.
type singleTimes struct {
	mean      *metric.Desc
	quantiles []singleQuantile
	each      uint64 // observations of a sample
	counted   string // "wake-ups were timed"
}

type singleQuantile struct {
	q    float64
	desc *metric.Desc
}

// newSingleTimes returns the metrics of times whose mean is the value of mean. The names of quantiles begin with prefix,
// and their help texts end with what.
func newSingleTimes(mean *metric.Desc, prefix string, each uint64, counted, what string) *singleTimes {
	s := &singleTimes{mean: mean, each: each, counted: counted}
	for _, q := range []struct {
		q           float64
		short, long string
	}{{0.5, "p50", "Median"}, {0.9, "p90", "90th percentile"}, {0.99, "p99", "99th percentile"}, {0.999, "p999", "99.9th percentile"}} {
		s.quantiles = append(s.quantiles, singleQuantile{q.q, &metric.Desc{Name: prefix + "_" + q.short + "_seconds", Unit: "seconds", Kind: metric.Gauge,
			Better: metric.Lower, Help: q.long + " of " + what + "."}})
	}
	return s
}

// mostSamples keeps the lines of a run below the limit of package host.
const mostSamples = 40_000

// sampleCount returns the parameter samples.
func sampleCount(p bench.Params) (int64, error) {
	n, err := p.Int("samples", 1)
	if err == nil && n > mostSamples {
		err = fmt.Errorf("parameter samples=%d: want at most %d", n, mostSamples)
	}
	return n, err
}

// observations is how many times a run with these parameters has.
func (s *singleTimes) observations(p bench.Params) uint64 {
	n, _ := p.Int("samples", 1) // Job reports what is wrong
	return s.each * uint64(max(n, 0))
}

// quantilesFor returns the quantiles that a run with these parameters has.
func (s *singleTimes) quantilesFor(p bench.Params) (descs []*metric.Desc) {
	for _, x := range s.quantiles {
		if enough(s.observations(p), x.q) {
			descs = append(descs, x.desc)
		}
	}
	return descs
}

// read returns the samples of the lines that the worker printed. Its error is about the mean.
func (s *singleTimes) read(lines []string, p bench.Params) ([]metric.Sample, error) {
	l, err := readLatencies(lines)
	if err != nil {
		return nil, &bench.MetricError{Metric: s.mean.Name, Err: err}
	}
	h := l.histogram(singleBounds)
	samples := []metric.Sample{{Desc: s.mean, Value: h.Sum / float64(l.n), Hist: h}}
	for _, x := range s.quantiles {
		if enough(min(l.n, s.observations(p)), x.q) {
			samples = append(samples, metric.Sample{Desc: x.desc, Value: l.quantile(x.q)})
		}
	}
	return samples, nil
}

// check returns an error unless the worker timed as many operations as the parameters say. A backward clock spoils the
// times, not the work, so read reports it.
func (s *singleTimes) check(lines []string, p bench.Params) error {
	n, err := p.Int("samples", 1)
	if err != nil {
		return err
	}
	l, err := readLatencies(lines)
	switch want := s.each * uint64(n); {
	case errors.Is(err, errBackwards):
		return nil
	case err == nil && l.n != want:
		return fmt.Errorf("%d %s, want %d", l.n, s.counted, want)
	}
	return err
}

// singleBounds are the bounds of the histograms, the same in every run.
var singleBounds = []float64{
	5e-7, 1e-6, 2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 1e-1, 1,
}

// rare is how many values must lie above a quantile for it to be reported.
const rare = 10

// enough reports whether of n values as many as rare lie above a quantile.
func enough(n uint64, q float64) bool { return math.Round(float64(n)*(1-q)*1e6) >= rare*1e6 }

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
				return l, fmt.Errorf("cannot read the worker's line %.60q: want ascending latencies", line)
			}
			l.n += v[1]
			l.seconds, l.upTo = append(l.seconds, float64(v[0])/1e9), append(l.upTo, l.n)
		case "backwards":
			v, err := numbers(rest, 1)
			if err != nil || ended {
				return l, fmt.Errorf("cannot read the worker's line %.60q", line)
			}
			if v[0] > 0 {
				return l, fmt.Errorf("%w (%d times)", errBackwards, v[0])
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
