package estimate

import (
	"math"

	"github.com/teescope/teescope/internal/metric"
)

// Exact relates the series of a source to totals that another source has of the same
// events, counted by the kernel itself. While the source counts part of the time, the estimates of
// the series of a total add up to it.
type Exact struct {
	// Counter is what the source counts, Total the other source's.
	Counter, Total *metric.Desc
	// Of returns the label values of the totals that hold the events of one of the counter's series,
	// none if there is none. The first of them scales the series.
	Of func(labels []string) [][]string
	// Beside returns those of events that the same threads make, for a series without totals of its own: what windows
	// missed of the totals, they missed of it.
	Beside func(labels []string) [][]string
}

const (
	// acquainted is the number of rounds for which a total is compared with plain
	// estimates before it is believed.
	acquainted = 10
	// apart is the part of the plain estimates by which a total may differ from them, besides their
	// standard error, which is at most unclear: the kernel does not count calls that it refuses early,
	// and counts some of its own.
	apart, unclear = 0.15, 0.15
	// recent is the weight that earlier rounds keep in that comparison at each new one.
	recent = 0.98
)

// agreement is what is known of one total.
type agreement struct {
	// used is the total when an increase of it was used last, if it is known.
	used  float64
	known bool
	// counted and factor are of the round: events counted, and events for each of them.
	counted, factor float64
	// rounds that were compared, with the faded sums of the total's increase, of the plain estimates,
	// and of the squared differences.
	rounds                    int
	exact, estimated, squares float64
	believed                  bool
	told                      bool // the round's factor is the total's increase
	round                     int  // in which it was seen last
}

// Agree ends a round for the totals of the samples; now are their values. It returns the factor for each
// sample: the total's increase for each counted event where that is known (the
// ratio estimator with the total as its own auxiliary variable; Cochran, Sampling Techniques,
// section 6.2), scale times what windows missed of the totals beside it where those are known (weights calibrated on
// a known total; Deville and Sarndal, Calibration Estimators in Survey Sampling, 1992), and scale otherwise. scale is 1
// for a round that saw everything.
func (e *Estimator) Agree(x *Exact, samples []metric.Sample, now map[metric.SeriesKey]float64, scale float64) func(metric.Sample) float64 {
	plain := func(metric.Sample) float64 { return scale }
	if x == nil {
		e.totals = nil
		return plain
	}
	if scale == Hold { // what was counted waits, and so do the totals
		return plain
	}
	if e.totals == nil {
		e.totals = map[metric.SeriesKey]*agreement{}
	}
	for _, s := range samples {
		if s.Desc != x.Counter {
			continue
		}
		for _, total := range x.Of(s.Labels) {
			key := metric.Sample{Desc: x.Total, Labels: total}.Key()
			a := e.totals[key]
			if a == nil {
				a = &agreement{}
				e.totals[key] = a
			}
			if a.round != e.round {
				a.round, a.counted = e.round, 0
			}
			a.counted += e.growth(s)
		}
	}
	for key, a := range e.totals {
		if a.round == e.round {
			total, known := now[key]
			a.endRound(total, known, scale)
		}
	}
	return func(s metric.Sample) float64 {
		if s.Desc != x.Counter || scale == 1 {
			return scale
		}
		factor, told := scale, false
		if totals := x.Of(s.Labels); len(totals) > 0 {
			a := e.totals[metric.Sample{Desc: x.Total, Labels: totals[0]}.Key()]
			factor, told = a.factor, a.told
		} else {
			factor *= e.missed(x, s.Labels)
		}
		name, _ := s.Process()
		e.lately.add(name, e.growth(s)*factor, told)
		return factor
	}
}

// missed returns the events for each estimated one, of the totals beside a series.
func (e *Estimator) missed(x *Exact, labels []string) float64 {
	exact, estimated := 0.0, 0.0
	for _, total := range x.Beside(labels) {
		if a := e.totals[metric.Sample{Desc: x.Total, Labels: total}.Key()]; a != nil && a.believed {
			exact, estimated = exact+a.exact, estimated+a.estimated
		}
	}
	if estimated == 0 {
		return 1
	}
	return exact / estimated
}

// endRound decides the factor of a round. What the total gained while the source saw nothing of
// it is left for the next round that sees some.
func (a *agreement) endRound(total float64, known bool, scale float64) {
	counted, gained, comparable := a.counted, total-a.used, known && a.known && total >= a.used
	a.factor, a.told = scale, false
	if !known || scale == 0 {
		a.known, a.believed = false, false
		return
	}
	if comparable && scale != 1 && counted == 0 {
		return
	}
	a.used, a.known = total, true
	if !comparable || scale == 1 {
		return
	}
	estimated := counted * scale
	a.rounds++
	a.exact = a.exact*recent + gained
	a.estimated = a.estimated*recent + estimated
	a.squares = a.squares*recent*recent + (gained-estimated)*(gained-estimated)
	differs, err := math.Abs(a.exact/a.estimated-1), math.Sqrt(a.squares)/a.estimated
	a.believed = a.rounds > acquainted && err <= unclear && differs <= apart+err
	if a.believed && gained >= counted {
		a.factor, a.told = gained/counted, true
	}
}
