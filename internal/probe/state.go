package probe

// What is known of each source now: its state (available, degraded, ...), the reason and the remedy. doctor, the API
// and the page show it; the log gets errors once.

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe/budget"
)

// State of a source, as doctor and the page show it.
type State string

// The states. Absent is no fault: the machine lacks what the source reads. Opening is
// that of a source before Start.
const (
	Opening     State = "opening"
	Available   State = "available"
	Degraded    State = "degraded"
	Unavailable State = "unavailable"
	Absent      State = "not here"
	Off         State = "off"
)

// Status is what is known of one source now.
type Status struct {
	Source *Source
	State  State
	// Reason and Remedy explain every state but Available.
	Reason, Remedy string
	Blind          bool
	// Scope is what the source is narrowed to.
	Scope Scope
	// Level is the level of detail in force, "" where there is one only; Wanted
	// the user's. They differ where the budget allows less.
	Level, Wanted string
	// Sample is the largest share of time in which the source may count, 0
	// where it cannot be sampled.
	Sample float64
	// Narrows: the source takes PIDs, control groups and containers.
	Narrows bool
	// Files are the patterns of files that were set, none for the source's own.
	Files []string
	// Auto: no setting says on or off, so the source is on while what it waits for is
	// there. Seen is what of it was seen last, and shortly after its end; else "".
	Auto bool
	Seen string
	// Coverage, Missed and Folded are those of the last round; see the metrics
	// of these names. Coverage is nil where it is unknown: nothing was read, or the
	// reader lost an unknown amount.
	Coverage *float64
	// Error is the relative standard error of the scaled number of events; nil
	// where every event is counted or the error is unknown. RestError is that of the events whose
	// number the kernel does not give; nil also where it gives none.
	Error, RestError *float64
	Missed, Folded   float64
	Series           int
	Read             time.Duration
}

// note sets the state from the error of opening or reading. What is shown of it is UTF-8, whatever names are in it, and names
// no file of a user: everybody who reaches the page reads it. The log has the names.
func (e *Engine) note(l *live, err error) {
	l.Reason, l.Remedy, l.Blind = "", "", false
	switch {
	case err == nil:
		l.State = Available
		return
	case l.reader != nil:
		l.State = Degraded
	case errors.Is(err, errors.ErrUnsupported):
		l.State = Absent
	default:
		l.State = Unavailable
	}
	// The state says "not here"; the sentinel's own text adds nothing.
	l.Reason = metric.Label(strings.TrimSuffix(host.PublicText(err), ": "+errors.ErrUnsupported.Error()))
	e.log(l, err)
	l.Remedy, l.Blind = Remedy(err), Blind(err)
}

// logEvery is the least time between two lines of the log about a source.
const logEvery = time.Minute

// log writes an error to the log whose names are not shown, when it is another than the last.
func (e *Engine) log(l *live, err error) {
	text, now := err.Error(), e.host.Now()
	if text == l.logged || host.PublicText(err) == text || !l.loggedAt.IsZero() && now.Sub(l.loggedAt) < logEvery {
		return
	}
	l.logged, l.loggedAt = text, now
	slog.Warn("source is "+string(l.State), "source", l.Source.Name, "error", text)
}

// IsEstimate reports whether a source with this coverage counts a part of its events. What is missing to all of them
// below half a percent is the imprecision of its clocks.
func IsEstimate(coverage float64) bool { return coverage < 0.995 }

// IsShort reports whether a source counts less than it was set to. Coverage is the share of events that it counts,
// sample the share of the time that was set, 0 if it cannot be sampled: coverage varies a little around it.
func IsShort(coverage, sample float64) bool {
	if sample > 0 && sample < 1 {
		return coverage <= 0.9*sample
	}
	return IsEstimate(coverage)
}

// budgetReason is the label of teescope_source_blind where the budget switches a
// source off.
const budgetReason = "budget"

// limited sets the state of a source that the budget or its user limits.
func (l *live) limited(level int, seen budget.Coverage) {
	if len(l.Source.Levels) > 0 {
		l.Level = l.Source.Levels[level].Name
	}
	var why string
	switch {
	case seen.Off:
		l.State, l.Blind, l.Reason = Degraded, true, budgetReason
		l.Remedy = "raise --budget: these events are so frequent that counting them for even a ten-thousandth of the time exceeds the budget"
		return
	case seen.Limited && l.Level != l.Wanted:
		why = fmt.Sprintf("the budget allows level %s, not %s", l.Level, l.Wanted)
	}
	if seen.Share < 1 {
		if why != "" {
			why += "; "
		}
		why += fmt.Sprintf("it counts only %s of the time", metric.Percent(seen.Share))
		if l.Sample < 1 && !IsShort(seen.Share, l.Sample) {
			why += ", as configured"
		} else {
			why += " to stay within the budget"
		}
		why += "; its counters are scaled up to all events"
		if l.Error != nil {
			why += ", with a standard error of " + metric.Percent(*l.Error) + " for their sum"
			if l.RestError != nil {
				why += ", " + metric.Percent(*l.RestError) + " for the events without an exact kernel count"
			}
		}
	}
	if why == "" || l.State != Available {
		return
	}
	l.State, l.Reason, l.Remedy = Degraded, why, "raise --budget for more, or narrow the source"
}

// Status describes all sources, in the order of the list.
func (e *Engine) Status() []Status {
	sources := *e.sources.Lock()
	defer e.sources.Unlock()
	out := make([]Status, len(sources))
	for i, l := range sources {
		out[i] = l.status()
	}
	return out
}

func (l *live) status() Status {
	s := l.Status
	if l.reader != nil {
		s.Narrows = l.narrows()
		if l.throttle == nil {
			s.Sample = 0
		}
	}
	return s
}
