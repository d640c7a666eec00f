package estimate

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/metric"
)

var (
	counted = &metric.Desc{Name: "tee_counted_total", Kind: metric.Counter, Help: "Calls.", Labels: []string{"process", "call"}}
	known   = &metric.Desc{Name: "tee_known_total", Kind: metric.Counter, Help: "Calls.", Labels: []string{"process"}}
	// Both a and b are calls of a total; c is none of them.
	agreed = Exact{Counter: counted, Total: known, Of: func(labels []string) [][]string {
		if labels[1] == "c" {
			return nil
		}
		return [][]string{labels[:1]}
	}, Beside: func(labels []string) [][]string { return [][]string{labels[:1]} }}
)

// sampled is a process whose calls are counted in windows.
type sampled struct {
	e            Estimator
	seen         [3]float64 // counted of a, b and c
	total, real  float64    // what the kernel has counted of a and b, and what there was
	estimate     float64    // of a and b
	c, estimateC float64
}

// round adds calls of which the part seen is counted, and the kernel counts the part told.
func (s *sampled) round(a, b, c, seen, told, scale float64, has bool) {
	s.real, s.c, s.total = s.real+a+b, s.c+c, s.total+told*(a+b)
	var samples []metric.Sample
	for i, n := range []float64{a, b, c} {
		s.seen[i] += n * seen
		samples = append(samples, metric.Sample{Desc: counted, Labels: []string{"redis", "abc"[i : i+1]}, Value: s.seen[i]})
	}
	now := map[metric.SeriesKey]float64{}
	if has {
		now[metric.Sample{Desc: known, Labels: []string{"redis"}}.Key()] = s.total
	}
	factor := s.e.Agree(&agreed, samples, now, scale)
	s.estimate = 0
	for i, x := range samples {
		if v := s.e.Extrapolate(x, factor(x)).Value; i < 2 {
			s.estimate += v
		} else {
			s.estimateC = v
		}
	}
	s.e.EndRound()
}

// bursts makes n rounds of a load in bursts, which the windows see by chance.
func (s *sampled) bursts(r *rand.Rand, n int, told float64) {
	for range n {
		calls := 1e4 * math.Exp(0.5*r.NormFloat64())
		seen := 0.02 * math.Exp(0.5*r.NormFloat64()-0.125)
		if r.IntN(10) == 0 {
			seen = 0
		}
		s.round(calls, calls/3, calls/2, seen, told, 50, true)
	}
	s.round(1e4, 1e3, 1, 0.02, told, 50, true) // what no window saw is in the estimate by now
}

// TestEstimatesAgree: calls that the kernel counts are estimated without error, after a time in which
// plain estimates have shown that these are the same calls.
func TestEstimatesAgree(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 0))
	var s sampled
	s.bursts(r, 5*acquainted, 1)
	real, estimate, c, estimateC := s.real, s.estimate, s.c, s.estimateC
	if math.Abs(estimate/real-1) < 1e-9 {
		t.Error("the first rounds are exact, though the total was not known to be that of these calls")
	}
	s.bursts(r, 100, 1)
	if got, want := s.estimate-estimate, s.real-real; math.Abs(got/want-1) > 1e-9 {
		t.Errorf("estimated %g calls, want the kernel's %g", got, want)
	}
	if got, want := s.estimateC-estimateC, s.c-c; math.Abs(got/want-1) > 0.3 || got == want {
		t.Errorf("estimated %g other calls of %g", got, want)
	}
}

// TestSlowedInWindows: a process that is slower while it is counted does less in windows than outside of them. How much
// is known where the kernel counts some of its calls, and then the others are estimated without that bias, too.
func TestSlowedInWindows(t *testing.T) {
	for told, want := range map[float64]float64{1: 1, 0.5: 0.9} {
		r := rand.New(rand.NewPCG(10, 0))
		var s sampled
		rounds := func(n int) {
			for range n {
				calls, seen := 1e4*math.Exp(0.3*r.NormFloat64()), 0.9*0.02*math.Exp(0.2*r.NormFloat64()-0.02)
				s.round(calls, calls/3, calls/2, seen, told, 50, true)
			}
		}
		rounds(5 * acquainted)
		c, estimate := s.c, s.estimateC
		rounds(2000)
		if got := (s.estimateC - estimate) / (s.c - c); math.Abs(got-want) > 0.02 {
			t.Errorf("the kernel counts %g of the calls: the others are estimated at %.3f of what they were, want %g", told, got, want)
		}
	}
}

// TestToldShare: the part of the events that totals give, which have no error, is that of the last minute; it is 0 before
// totals are believed, and begins anew after a time that was seen in full.
func TestToldShare(t *testing.T) {
	var s sampled
	now := time.Unix(1e9, 0)
	share := func(rounds int, others, seen, scale float64) (share float64) {
		for range rounds {
			now = now.Add(5 * time.Second)
			s.round(600, 300, others, seen, 1, scale, true)
			all, _ := s.e.MinuteSums(now, scale)
			share = 1 - all.Untold()
		}
		return share
	}
	for _, c := range []struct {
		what                      string
		rounds                    int
		others, seen, scale, want float64
	}{
		{"no total is believed yet", 1 + acquainted, 100, 0.02, 50, 0},
		{"some of the minute", 6, 100, 0.02, 50, 0.45},
		{"all of it", 6, 100, 0.02, 50, 0.9},
		{"more others for half a minute", 6, 900, 0.02, 50, 0.9 * 1000 / 1400},
		{"and for the other half", 6, 900, 0.02, 50, 0.5},
		{"nothing was seen for half a minute", 6, 900, 0, 0, 0.5},
		{"nor for all of it", 6, 900, 0, 0, 0},
		{"in full", 1, 100, 1, 1, 0},
	} {
		t.Run(c.what, func(t *testing.T) {
			if got := share(c.rounds, c.others, c.seen, c.scale); math.Abs(got-c.want) > 1e-3 {
				t.Errorf("%s: the kernel gives %.3f of the events, want %.3f", c.what, got, c.want)
			}
		})
	}
}

// TestBusyProcesses: a process with a hundredth of the events or more has sums of its own, which include no name's events
// twice.
func TestBusyProcesses(t *testing.T) {
	var e Estimator
	now := time.Unix(1e9, 0)
	for range 3 {
		for _, c := range []struct {
			process string
			n       float64
			told    bool
		}{{"redis", 700, true}, {"redis", 200, false}, {"client", 80, false}, {"small", 9, true}, {"", 11, false}, {"none", 0, true}} {
			e.lately.add(c.process, c.n, c.told)
		}
		now = now.Add(time.Second)
		e.MinuteSums(now, 50)
	}
	all, busy := e.MinuteSums(now, 50)
	if want := []ProcessSums{{"client", Sums{240, 0}}, {"redis", Sums{2700, 2100}}}; all != (Sums{3000, 2127}) || !slices.Equal(busy, want) {
		t.Errorf("all %v, busy %v, want %v", all, busy, want)
	}
	if all, busy := e.MinuteSums(now, 1); all != (Sums{}) || busy != nil || all.Untold() != 1 {
		t.Errorf("after a round that saw everything: %v of %v", busy, all)
	}
}

// TestEstimatesDisagree: a total of other calls, as one that leaves out those that are refused or has some of
// the kernel's own, is not taken for them.
func TestEstimatesDisagree(t *testing.T) {
	for _, told := range []float64{0.3, 0.6, 1.5} {
		r := rand.New(rand.NewPCG(8, 0))
		var s sampled
		s.bursts(r, 200, told)
		real, estimate := s.real, s.estimate
		s.bursts(r, 400, told)
		if got, want := s.estimate-estimate, s.real-real; math.Abs(got/want-1) > 0.15 {
			t.Errorf("estimated %g calls of %g, of which the kernel counts %g", got, want, told)
		}
	}
}

// TestTotalsComeAndGo: without a total, after one that began again, and after a time in full, estimates go on
// from where they were.
func TestTotalsComeAndGo(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 0))
	var s sampled
	s.bursts(r, 5*acquainted, 1)
	for _, c := range []struct {
		what  string
		round func() // sees exactly a fiftieth, or all
	}{
		{"without a total", func() { s.round(500, 500, 0, 0.02, 1, 50, false) }},
		{"the first round with it again", func() { s.round(500, 500, 0, 0.02, 1, 50, true) }},
		{"a total that began again", func() { s.total = 0; s.round(500, 500, 0, 0.02, 1, 50, true) }},
		{"in full", func() { s.round(500, 500, 0, 1, 1, 1, true) }},
		{"in windows again, of which one saw less", func() { s.round(500, 500, 0, 0.01, 1, 50, true) }},
		{"held", func() { s.round(500, 500, 0, 0.02, 1, Hold, true); s.round(0, 0, 0, 0, 1, 50, true) }},
	} {
		t.Run(c.what, func(t *testing.T) {
			real, estimate := s.real, s.estimate
			c.round()
			if got, want := s.estimate-estimate, s.real-real; math.Abs(got/want-1) > 1e-9 {
				t.Errorf("%s: estimated %g calls of %g", c.what, got, want)
			}
		})
	}
	for range 3 * forgotten {
		s.e.EndRound()
	}
	if len(s.e.totals) != 0 {
		t.Errorf("%d ended totals are kept", len(s.e.totals))
	}
}
