// Package estimate says what the events that a source counted part of the time stand for: it extrapolates counters, makes
// them agree with totals that the kernel counts itself, and keeps the sums that the errors of processes come from.
package estimate

import (
	"time"

	"github.com/teescope/teescope/internal/metric"
)

// Estimator extrapolates the counters of a source that sees part of the time: a
// round's increase is multiplied by elapsed / attached (the ratio estimator of survey
// sampling; Cochran, Sampling Techniques, chapter 6). It also records when a series
// began. Gauges pass unchanged.
type Estimator struct {
	series map[metric.SeriesKey]*estimate
	totals map[metric.SeriesKey]*agreement
	// lately are the sums of the round, rounds those of the last minute.
	lately byProcess
	rounds []round
	// scaled says that some value was ever extrapolated.
	scaled bool
	round  int
	// At is the time of the round if its new series were 0 in the round before.
	At time.Time
	// Zero is the time of the round before, if at is not zero.
	Zero time.Time
}

// forgotten is the number of rounds after which a series that ended is dropped, so
// memory stays bounded. A series that returns begins again as a new one.
const forgotten = 60

// EndRound ends a round.
func (e *Estimator) EndRound() {
	e.round++
	if e.round%forgotten != 0 {
		return
	}
	for key, x := range e.series {
		if x.round < e.round-forgotten {
			delete(e.series, key)
		}
	}
	for key, a := range e.totals {
		if a.round < e.round-forgotten {
			delete(e.totals, key)
		}
	}
}

type estimate struct {
	round       int // in which the series was seen last
	began, zero time.Time
	last, total float64
	hist        *metric.Hist // the total; lastCounts and last belong to it
	lastCounts  []uint64
	rest        []float64 // of a count below one event, for the next round
}

// Hold is a scale that leaves the increase for a later round.
const Hold = -1

// Extrapolate returns s with its value extrapolated; scale is 1 for a round that saw
// everything.
func (e *Estimator) Extrapolate(s metric.Sample, scale float64) metric.Sample {
	if s.Desc.Kind != metric.Counter && s.Desc.Kind != metric.Histogram {
		return s
	}
	if e.series == nil {
		e.series = map[metric.SeriesKey]*estimate{}
	}
	key := s.Key()
	x := e.series[key]
	if x == nil {
		x = &estimate{began: e.At, zero: e.Zero}
		e.series[key] = x
	}
	x.round, s.Began, s.Zero = e.round, x.began, x.zero
	if scale != 1 {
		e.scaled = true
	}
	switch {
	case s.Hist != nil:
		s.Hist = x.spread(s.Hist, scale)
	case scale == Hold:
		s.Value = x.total
	default:
		x.total += grown(s.Value, x.last) * scale
		x.last, s.Value = s.Value, x.total
	}
	if e.scaled {
		s.Trust = max(s.Trust, metric.Estimated)
	}
	return s
}

// growth is the increase of a sample's counter since it was taken last.
func (e *Estimator) growth(s metric.Sample) float64 {
	if x := e.series[s.Key()]; x != nil {
		return grown(s.Value, x.last)
	}
	return s.Value
}

// grown is the increase of a counter. One that fell has restarted from 0.
func grown(now, last float64) float64 {
	if now < last {
		return now
	}
	return now - last
}

func (x *estimate) spread(h *metric.Hist, scale float64) *metric.Hist {
	if x.hist == nil || len(x.hist.Counts) != len(h.Counts) {
		x.hist = &metric.Hist{Bounds: h.Bounds, Counts: make([]uint64, len(h.Counts))}
		x.lastCounts, x.rest, x.last = make([]uint64, len(h.Counts)), make([]float64, len(h.Counts)), 0
	}
	for i, n := range h.Counts {
		if scale == Hold {
			break
		}
		x.rest[i] += grown(float64(n), float64(x.lastCounts[i])) * scale
		whole := uint64(x.rest[i])
		x.hist.Counts[i] += whole
		x.rest[i] -= float64(whole)
	}
	if scale != Hold {
		copy(x.lastCounts, h.Counts)
		x.hist.Sum += grown(h.Sum, x.last) * scale
		x.last = h.Sum
	}
	out := *x.hist
	out.Counts = append([]uint64(nil), x.hist.Counts...)
	return &out
}
