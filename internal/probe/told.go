package probe

// Sums of estimated events, in all and by process, over the last minute. The kernel's own totals give some of them
// exactly ("told"), so only the others have the standard error of sampling windows.

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/teescope/teescope/internal/metric"
)

// sums are numbers of events: all that were estimated, and those of them that totals gave. Only the others have the
// error of windows.
type sums struct{ all, told float64 }

// untold is the part of the events that no total gave.
func (s sums) untold() float64 {
	if s.all == 0 {
		return 1
	}
	return 1 - s.told/s.all
}

func (s sums) plus(o sums) sums { return sums{s.all + o.all, s.told + o.told} }

// byProcess are the sums of each process name.
type byProcess map[string]sums

func (b *byProcess) add(process string, n float64, told bool) {
	if n == 0 {
		return
	}
	if *b == nil {
		*b = byProcess{}
	}
	more := sums{all: n}
	if told {
		more.told = n
	}
	(*b)[process] = (*b)[process].plus(more)
}

// process is the process name in a sample's labels, if it has one.
func process(s metric.Sample) (name string, has bool) {
	i := slices.Index(s.Desc.Labels, "process")
	if i < 0 {
		return "", false
	}
	return s.Labels[i], true
}

// round holds the sums of a round that ended at a time.
type round struct {
	at   time.Time
	sums byProcess
}

// worthStating is the part of a source's events from which on the error of a process is stated: it is that of windows that
// saw the events of all processes.
const worthStating = 0.01

// told ends a round for the sums, and returns those of the last minute, of all processes and of those with many events,
// in order. scale is that of the round; one that saw everything begins anew, as the windows do.
func (e *estimator) told(at time.Time, scale float64) (all sums, busy []processSums) {
	if e.lately != nil {
		e.rounds, e.lately = append(e.rounds, round{at, e.lately}), nil
	}
	e.rounds = slices.DeleteFunc(e.rounds, func(r round) bool { return scale == 1 || at.Sub(r.at) >= time.Minute })
	minute := byProcess{}
	for _, r := range e.rounds {
		for name, s := range r.sums {
			minute[name], all = minute[name].plus(s), all.plus(s)
		}
	}
	maps.DeleteFunc(minute, func(name string, s sums) bool { return name == "" || s.all < worthStating*all.all })
	for name, s := range minute {
		busy = append(busy, processSums{name, s})
	}
	slices.SortFunc(busy, func(a, b processSums) int { return cmp.Compare(a.process, b.process) })
	return all, busy
}

// processSums are a process name and its sums.
type processSums struct {
	process string
	sums
}
