package probe

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/teescope/teescope/internal/machine"
	"github.com/teescope/teescope/internal/metric"
)

// Tidy makes the samples of one reading fit for use, in place: names are UTF-8 and stay different, no series occurs
// twice, and no value is one that cannot be. The error says what was refused or added up.
func Tidy(samples []metric.Sample) ([]metric.Sample, error) { return new(unique).begin().tidy(samples) }

// unique knows the series of a round: no two sources may have the same.
type unique struct {
	series map[metric.SeriesKey]place
	source int
}

// place is where a series is: the number of its source in the round, and of its sample among the source's.
type place struct{ source, sample int }

// begin begins a round.
func (u *unique) begin() *unique {
	if u.series == nil {
		u.series = map[metric.SeriesKey]place{}
	}
	clear(u.series)
	u.source = 0
	return u
}

func (u *unique) tidy(samples []metric.Sample) ([]metric.Sample, error) {
	u.source++
	var bad machine.Faults
	kept := samples[:0]
	for _, s := range samples {
		own := s.Desc == Coverage || s.Desc == Missed || s.Desc == Folded // without the label that the engine adds
		if own {
			s.Labels = []string{""}
		}
		if err := s.Check(); err != nil {
			bad.Add(err)
			continue
		}
		if own {
			s.Labels = nil
			kept = append(kept, s)
			continue
		}
		s.Labels = labels(s.Labels)
		key := s.Key()
		at, known := u.series[key]
		switch {
		case !known:
			u.series[key] = place{u.source, len(kept)}
			kept = append(kept, s)
		case at.source != u.source:
			bad.Add(fmt.Errorf("another source has %s%q too; its value counts", s.Desc.Name, s.Labels))
		case add(&kept[at.sample], s):
			bad.Add(fmt.Errorf("%s%q occurs more than once; the values are added up", s.Desc.Name, s.Labels))
		default:
			bad.Add(fmt.Errorf("%s%q occurs more than once; the first value counts", s.Desc.Name, s.Labels))
		}
	}
	return kept, bad.Err()
}

// add adds a sample to one of the same series, and reports whether that makes sense: for what counts it does, a gauge
// or a value of unknown kind is not the sum of two.
func add(to *metric.Sample, s metric.Sample) bool {
	switch {
	case s.Hist != nil && slices.Equal(to.Hist.Bounds, s.Hist.Bounds):
		sum := metric.Hist{Bounds: s.Hist.Bounds, Counts: slices.Clone(s.Hist.Counts), Sum: to.Hist.Sum + s.Hist.Sum}
		for i, n := range to.Hist.Counts {
			sum.Counts[i] += n
		}
		to.Hist = &sum
	case s.Desc.Kind == metric.Counter:
		to.Value += s.Value
	default:
		return false
	}
	to.Trust = max(to.Trust, s.Trust)
	if !to.Began.Equal(s.Began) {
		to.Began, to.Zero = time.Time{}, time.Time{}
	}
	return true
}

// labels returns values as metric.Label makes them. It copies a slice that changes,
// because the reader may keep it.
func labels(values []string) []string {
	copied := false
	for i, v := range values {
		if fit := metric.Label(v); fit != v {
			if !copied {
				values, copied = slices.Clone(values), true
			}
			values[i] = fit
		}
	}
	return values
}

// joined is a source's error with what was refused of its samples. Advice comes from the source's.
func joined(err, refused error) error {
	if err == nil || refused == nil {
		return errors.Join(err, refused)
	}
	return fmt.Errorf("%w; %w", err, refused)
}
