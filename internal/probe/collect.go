package probe

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe/budget"
	"github.com/teescope/teescope/internal/probe/estimate"
)

// Collect reads every open source once and returns the time of the reading and the
// samples, the engine's own included, ordered by metric name. It begins a new round
// for values that cover the time since the last one.
func (e *Engine) Collect(ctx context.Context) (time.Time, []metric.Sample) {
	return e.collect(ctx, e.governor.TakeMostUsed)
}

// Peek is Collect without beginning a new round: it takes nothing from the next one.
func (e *Engine) Peek(ctx context.Context) (time.Time, []metric.Sample) {
	return e.collect(ctx, e.governor.MostUsed)
}

func (e *Engine) collect(ctx context.Context, used func() (float64, bool)) (time.Time, []metric.Sample) {
	sources := *e.sources.Lock()
	defer e.sources.Unlock()
	at := e.host.Now()
	var out []metric.Sample
	round := e.round.begin()
	for _, known := range []bool{false, true} { // the totals of a source are read before it
		for _, l := range sources {
			if known != (l.Source.Exact != nil) {
				continue
			}
			if known {
				l.exact = exact(sources, l)
			}
			l.estimate.At, l.estimate.Zero = time.Time{}, time.Time{}
			if l.fromZero && l.before {
				l.estimate.At, l.estimate.Zero = at, l.lastAt
			}
			out = e.read(ctx, l, out, round)
			l.lastAt = at
		}
	}
	if ratio, ok := used(); ok {
		out = append(out, metric.Sample{Desc: BudgetUsed, Value: ratio, Trust: metric.Estimated})
	}
	if times := e.governor.Slowed(); times > 0 {
		out = append(out, metric.Sample{Desc: SlowedDesc, Value: float64(times)})
	}
	metric.SortByName(out)
	return at, out
}

func (e *Engine) read(ctx context.Context, l *live, out []metric.Sample, round *unique) []metric.Sample {
	name := []string{l.Source.Name}
	delivered := false
	if l.reader != nil {
		first := len(out)
		if u, ok := l.reader.(Unhurried); ok {
			u.Slow(e.Slowed())
		}
		began := e.host.Now()
		out, delivered = e.values(ctx, l, out, round)
		l.Read = e.host.Now().Sub(began)
		l.Series = len(out) - first
		if l.Coverage != nil {
			out = append(out, metric.Sample{Desc: Coverage, Labels: name, Value: *l.Coverage})
		}
		if l.Error != nil {
			out = append(out, metric.Sample{Desc: StandardError, Labels: []string{l.Source.Name, OfSum}, Value: *l.Error, Trust: metric.Estimated})
		}
		if l.RestError != nil {
			out = append(out, metric.Sample{Desc: StandardError, Labels: []string{l.Source.Name, OfRest}, Value: *l.RestError, Trust: metric.Estimated})
		}
		if l.throttle != nil {
			_, seconds := l.throttle.Spent()
			var sum float64
			for _, s := range seconds {
				sum += s
			}
			out = append(out, metric.Sample{Desc: SourceCPU, Labels: name, Value: sum, Trust: metric.Estimated})
		}
		if l.Level != "" {
			out = append(out, metric.Sample{Desc: LevelDesc, Labels: []string{l.Source.Name, l.Level}, Value: 1})
		}
		out = append(out,
			metric.Sample{Desc: Missed, Labels: name, Value: l.Missed},
			metric.Sample{Desc: Folded, Labels: name, Value: l.Folded},
			metric.Sample{Desc: ReadSeconds, Labels: name, Value: l.Read.Seconds()})
	}
	if l.Blind {
		out = append(out, metric.Sample{Desc: BlindDesc, Labels: []string{l.Source.Name, l.Reason}, Value: 1})
	}
	if !slices.Contains([]State{Absent, Off, Opening}, l.State) {
		up := 0.0
		if delivered {
			up = 1
		}
		out = append(out, metric.Sample{Desc: Up, Labels: name, Value: up})
	}
	return out
}

// values reads the source's own metrics, scaled where it saw only part of the time,
// and updates its state.
func (e *Engine) values(ctx context.Context, l *live, out []metric.Sample, round *unique) ([]metric.Sample, bool) {
	l.Coverage, l.Error, l.RestError, l.Missed, l.Folded = nil, nil, nil, 0, 0
	seen := budget.Coverage{Share: 1}
	if l.throttle != nil {
		seen = e.governor.Round(l.throttle)
	}
	delivered := false
	samples, err := e.readInTime(ctx, l)
	samples, refused := round.tidy(samples)
	if err = joined(err, refused); seen.Refused != nil && !errors.Is(err, seen.Refused) { // some readers say it themselves
		err = joined(err, seen.Refused)
	}
	factor := l.estimate.Agree(l.exact, samples, totals(l.exact, out), samplingWeight(seen))
	for _, s := range samples {
		switch s.Desc {
		case Coverage:
			v := s.Value
			l.Coverage = &v
		case Missed:
			l.Missed = s.Value
		case Folded:
			l.Folded = s.Value
		default:
			delivered = true
			if l.throttle != nil || l.fromZero {
				s = l.estimate.Extrapolate(s, factor(s))
			}
			if !seen.Off && !seen.Gone && l.inScope(s) {
				out = append(out, s)
			}
		}
	}
	all, busy := l.estimate.MinuteSums(e.host.Now(), samplingWeight(seen))
	l.estimate.EndRound()
	if l.Coverage == nil && err == nil {
		all := 1.0
		l.Coverage = &all
	}
	if l.Coverage != nil {
		share := *l.Coverage * seen.Share
		l.Coverage = &share
	}
	if !math.IsNaN(seen.Err) && seen.Limited {
		sum := seen.Err * all.Untold()
		if l.Error = &sum; sum > 0 && all.Told > 0 {
			l.RestError = &seen.Err
		}
		for _, p := range busy {
			if s := (metric.Sample{Desc: ProcessError, Labels: []string{l.Source.Name, p.Process}, Value: seen.Err * p.Untold(), Trust: metric.Estimated}); l.inScope(s) {
				out = append(out, s)
			}
		}
	}
	e.note(l, err)
	if l.throttle != nil {
		l.limited(e.governor.Level(l.throttle), seen)
	}
	l.before = !seen.Off && !seen.Gone && (delivered || err == nil)
	return out, l.before
}

// exact is the source's Exact while both sources count all processes.
func exact(sources []*live, l *live) *estimate.Exact {
	x := l.Source.Exact
	for _, o := range sources {
		if (o == l || slices.Contains(o.Source.Metrics, x.Total)) && o.Scope.narrow() {
			return nil
		}
	}
	return x
}

// totals are the values of a source's totals among the samples of a round.
func totals(x *estimate.Exact, samples []metric.Sample) map[metric.SeriesKey]float64 {
	if x == nil {
		return nil
	}
	now := map[metric.SeriesKey]float64{}
	for _, s := range samples {
		if s.Desc == x.Total {
			now[s.Key()] = s.Value
		}
	}
	return now
}

func (l *live) inScope(s metric.Sample) bool {
	if l.Scope.Process == nil {
		return true
	}
	name, has := s.Process()
	return !has || l.Scope.Process.MatchString(name)
}

// samplingWeight is the number of events that one counted event stands for.
func samplingWeight(c budget.Coverage) float64 {
	switch {
	case c.Wait:
		return estimate.Hold
	case c.Share == 0:
		return 0
	}
	return 1 / c.Share
}
