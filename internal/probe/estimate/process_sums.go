package estimate

// Sums of estimated events, in all and by process, over the last minute. The kernel's own totals give some of them
// exactly, so only the others have the standard error of sampling windows.

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Sums are numbers of events: all that were estimated, and those of them that totals gave. Only the others have the
// error of windows.
type Sums struct{ All, Told float64 }

// Untold is the part of the events that no total gave.
func (s Sums) Untold() float64 {
	if s.All == 0 {
		return 1
	}
	return 1 - s.Told/s.All
}

func (s Sums) plus(o Sums) Sums { return Sums{s.All + o.All, s.Told + o.Told} }

// byProcess are the sums of each process name.
type byProcess map[string]Sums

func (b *byProcess) add(process string, n float64, told bool) {
	if n == 0 {
		return
	}
	if *b == nil {
		*b = byProcess{}
	}
	more := Sums{All: n}
	if told {
		more.Told = n
	}
	(*b)[process] = (*b)[process].plus(more)
}

// round holds the sums of a round that ended at a time.
type round struct {
	at   time.Time
	sums byProcess
}

// worthStating is the part of a source's events from which on the error of a process is stated: it is that of windows that
// saw the events of all processes.
const worthStating = 0.01

// MinuteSums ends a round for the sums, and returns those of the last minute, of all processes and of those with many events,
// in order. scale is that of the round; one that saw everything begins anew, as the windows do.
func (e *Estimator) MinuteSums(at time.Time, scale float64) (all Sums, busy []ProcessSums) {
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
	maps.DeleteFunc(minute, func(name string, s Sums) bool { return name == "" || s.All < worthStating*all.All })
	for name, s := range minute {
		busy = append(busy, ProcessSums{name, s})
	}
	slices.SortFunc(busy, func(a, b ProcessSums) int { return cmp.Compare(a.Process, b.Process) })
	return all, busy
}

// ProcessSums are a process name and its sums.
type ProcessSums struct {
	Process string
	Sums
}
