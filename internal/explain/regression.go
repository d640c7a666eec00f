package explain

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/query"
	"github.com/teescope/teescope/internal/stats"
)

// regression describes how to estimate the price of an event that nothing measures: from the process's CPU time in
// parts of the window in which the number of events varies.
type regression struct {
	// x is the query for the rate of the events, for a length of parts.
	x func(l *Ledger, span string) string
	// beside are counters that may vary together with it.
	beside []string
}

// regressions are keyed by the id of a row.
var regressions = map[string]regression{
	"transitions": {
		func(l *Ledger, span string) string {
			entries, exits := "sum("+l.rateOver(EnclaveEntries, span)+")", "sum("+l.rateOver(EnclaveExits, span)+")"
			return entries + " + " + exits + " or " + entries + " or " + exits
		}, []string{CallCount, FaultCount, SwitchCount, EnclaveFaults, EnclaveAsyncExits},
	},
	"async_exits": {
		func(l *Ledger, span string) string { return "sum(" + l.rateOver(EnclaveAsyncExits, span) + ")" },
		[]string{CallCount, FaultCount, SwitchCount, EnclaveFaults, EnclaveEntries, EnclaveExits},
	},
}

// The parts of a window are mostParts at most, and shortestPart at least, so each has several readings.
const (
	mostParts    = 40
	shortestPart = 15 * time.Second
)

// regress prices rows that have no better price, or states in them why it cannot. A calibrated
// transition is not better: it lacks what the runtime does in each call.
func (l *Ledger) regress(ctx context.Context, db query.Querier, q Question, rows []row) error {
	for i := range rows {
		r := &rows[i]
		how, ok := regressions[r.ID]
		if !ok || r.Rate == nil || r.Unit != nil && r.Unit.Origin != Published && r.Unit.Origin != Calibrated {
			continue
		}
		s, number, part, err := l.slope(ctx, db, q, how)
		if err != nil {
			return err
		}
		if s.reason != "" {
			r.Reason = strings.TrimPrefix(r.Reason+"; no cost by regression: "+s.reason, "; ")
			continue
		}
		// There may be fewer calls than counted events.
		time := Amount{s.Value, s.Low, s.High}.scaled(number)
		unit := Unit{time.scaled(1 / r.Rate.Value), Regressed, fmt.Sprintf("by regression of the process's CPU time on the number of these events, calls, faults and switches in %d windows of %s", s.Windows, part)}
		r.Unit, r.Time, r.Reason, r.within = &unit, time, "", own
	}
	return nil
}

// slope is the cost of one event, or the reason why it is unknown.
type slope struct {
	stats.Slope
	reason string
}

// slope reads the parts of the window. number is the mean rate of the events.
func (l *Ledger) slope(ctx context.Context, db query.Querier, q Question, how regression) (s slope, number float64, part time.Duration, err error) {
	part = max(shortestPart, (q.To.Sub(q.From) / mostParts).Round(time.Second))
	span := query.PromDuration(part)
	exprs := []string{"sum(" + l.rateOver(CPUAccount, span) + ")", how.x(l, span)}
	for _, name := range how.beside {
		exprs = append(exprs, "sum("+l.rateOver(name, span)+")")
	}
	columns := make([][]float64, len(exprs))
	for at := q.To; !at.Add(-part).Before(q.From); at = at.Add(-part) {
		for i, expr := range exprs {
			v := math.NaN()
			points, err := db.Query(ctx, expr, at)
			if err != nil {
				return s, 0, part, err
			}
			if len(points) == 1 {
				v = points[0].Value
			}
			columns[i] = append(columns[i], v)
		}
	}
	// A part without a reading of the time or of the events is unusable. A counter without any readings was never
	// counted.
	var kept [][]float64
	for i, c := range columns {
		if i >= 2 && all(c, math.IsNaN) {
			continue
		}
		kept = append(kept, nil)
		for j, v := range c {
			if math.IsNaN(columns[0][j]) || math.IsNaN(columns[1][j]) {
				continue
			}
			if math.IsNaN(v) {
				v = 0 // before its first event
			}
			kept[len(kept)-1] = append(kept[len(kept)-1], v)
		}
	}
	s.Slope, err = stats.RegressionSlope(kept[0], kept[1], kept[2:], 0.95)
	if err != nil {
		s.reason = err.Error()
		return s, 0, part, nil
	}
	for _, v := range kept[1] {
		number += v / float64(len(kept[1]))
	}
	return s, number, part, nil
}

func all(list []float64, is func(float64) bool) bool {
	for _, v := range list {
		if !is(v) {
			return false
		}
	}
	return true
}

// rateOver returns the query for a rate over another length.
func (w *window) rateOver(name, span string) string {
	return query.Rate(w.process.Select(name), span)
}
