package bpf

// Processes of one name may run in several service units or containers, or each hold another program, as those of
// Gramine's loader do. This file divides the sampled times of such names by unit, within fixed limits, so that a unit can have a finding of its own.

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

const (
	// mostGroups is how many control groups are remembered, mostUnits how many units of one process name are told apart,
	// mostUnitTimes how many pairs of name and unit there are. Those that were idle for mostIdle give their places to others.
	// mostApart is how many of the groups may be single processes: anybody can start many of such a name.
	mostGroups    = 4096
	mostApart     = 64
	mostUnits     = 8
	mostUnitTimes = 256
	// sweepEvery is the least time between two searches for idle entries of full tables, which cost as much as a walk.
	sweepEvery = time.Minute
	// mostNamedAtOnce is how many groups are named after a walk.
	mostNamedAtOnce = 16
)

// UnitTime is what threads of the processes of one name do in one unit or container: in State "running" they have a CPU, in
// the others they wait as in Wait. Unit is "" outside of both, and Other for those beyond the limits.
type UnitTime struct{ Process, Unit, State string }

// units are the times of the names whose processes run in several units.
type units struct {
	groups map[groupKey]*group
	single int                             // how many of the groups are single processes
	apart  func(process string) bool       // as in Names; may be nil
	homes  map[string]map[string]time.Time // by process name: its units, and when each was last found
	times  map[home]*unitTimes
	divide map[string]int // by process name: how many units have times, without Other
	swept  time.Time
}

// groupKey is a control group or, of a name whose processes are told apart, one process in it.
type groupKey struct {
	group uint64
	pid   uint32 // 0 for the whole group
}

// group is what is known of one.
type group struct {
	pid   uint32 // of a process in it
	unit  string
	known bool
	at    time.Time
}

// home is a process name in a unit.
type home struct{ process, unit string }

// unitTimes are times in seconds by state: all states of a unit have a place or none, so they can be compared.
type unitTimes struct {
	seconds [len(waitStates)]float64
	at      time.Time // when one last grew
}

func newUnits(apart func(string) bool) units {
	return units{apart: apart, groups: map[groupKey]*group{}, homes: map[string]map[string]time.Time{}, times: map[home]*unitTimes{}, divide: map[string]int{}}
}

// add counts threads that were found in a state, for a time in seconds. Names in a single unit have no times: they begin when
// the second is found.
func (u *units) add(k wait, seconds float64, at time.Time) {
	if k.group == 0 || k.pid == 0 {
		return
	}
	name, where := label(k.process[:], 0), groupKey{group: k.group}
	if u.apart != nil && u.apart(name) {
		where.pid = k.pid
		if u.groups[where] == nil && u.single >= mostApart {
			u.sweep(at)
		}
		if u.groups[where] == nil && u.single >= mostApart {
			where.pid = 0
		}
	}
	g := u.groups[where]
	if g == nil {
		if len(u.groups) >= mostGroups {
			u.sweep(at)
		}
		if len(u.groups) >= mostGroups {
			return
		}
		g = &group{}
		u.groups[where] = g
		if where.pid != 0 {
			u.single++
		}
	}
	g.pid, g.at = k.pid, at
	if !g.known {
		return
	}
	in := home{name, g.unit}
	n, t := u.find(in, at), u.times[in]
	if t == nil && n > 1 {
		t = u.place(in, at)
	}
	if t != nil {
		t.seconds[k.state] += seconds
		t.at = at
	}
}

// find notes a unit of a name, and returns how many the name has now.
func (u *units) find(in home, at time.Time) int {
	homes := u.homes[in.process]
	if homes == nil {
		if len(u.homes) >= maxWaits {
			u.sweep(at)
		}
		if len(u.homes) >= maxWaits {
			return 0
		}
		homes = map[string]time.Time{}
		u.homes[in.process] = homes
	}
	_, known := homes[in.unit]
	if !known || len(homes) > 1 {
		maps.DeleteFunc(homes, func(unit string, last time.Time) bool { return unit != in.unit && at.Sub(last) > mostIdle })
	}
	if known || len(homes) <= mostUnits {
		homes[in.unit] = at
	}
	return len(homes)
}

// place returns the times of a unit that had none, or those of the other units where its name has too many; nil without place.
func (u *units) place(in home, at time.Time) *unitTimes {
	if u.divide[in.process] >= mostUnits {
		in.unit = Other
	}
	if t := u.times[in]; t != nil {
		return t
	}
	if len(u.times) >= mostUnitTimes {
		u.sweep(at)
	}
	if len(u.times) >= mostUnitTimes {
		return nil
	}
	t := &unitTimes{}
	u.times[in] = t
	if in.unit != Other {
		u.divide[in.process]++
	}
	return t
}

// sweep drops what is idle.
func (u *units) sweep(at time.Time) {
	if !isDue(&u.swept, at) {
		return
	}
	idle := func(last time.Time) bool { return at.Sub(last) > mostIdle }
	maps.DeleteFunc(u.groups, func(k groupKey, g *group) bool {
		if k.pid != 0 && idle(g.at) {
			u.single--
		}
		return idle(g.at)
	})
	maps.DeleteFunc(u.homes, func(_ string, homes map[string]time.Time) bool {
		maps.DeleteFunc(homes, func(_ string, last time.Time) bool { return idle(last) })
		return len(homes) == 0
	})
	clear(u.divide)
	maps.DeleteFunc(u.times, func(in home, t *unitTimes) bool {
		if !idle(t.at) && in.unit != Other {
			u.divide[in.process]++
		}
		return idle(t.at)
	})
}

// unnamed returns some groups whose unit is not known, with a process of each.
func (u *units) unnamed() map[groupKey]uint32 {
	out := map[groupKey]uint32{}
	for id, g := range u.groups {
		if !g.known && len(out) < mostNamedAtOnce {
			out[id] = g.pid
		}
	}
	return out
}

// nameUnits finds out which units the control groups are that were found. A group whose process has ended or moved is asked
// about with the next one that is found in it.
func (w *Waits) nameUnits() {
	if w.names.Unit == nil {
		return
	}
	t := w.sums.Lock()
	ask := t.units.unnamed()
	w.sums.Unlock()
	for id, pid := range ask {
		name := w.names.Unit
		if id.pid != 0 && w.names.Program != nil {
			name = w.names.Program
		}
		unit, err := name(int(pid), id.group)
		t := w.sums.Lock()
		switch g := t.units.groups[id]; {
		case g == nil:
		case err != nil && g.pid == pid:
			delete(t.units.groups, id)
		case err == nil:
			g.unit, g.known = unit, true
		}
		w.sums.Unlock()
	}
}

// InUnits emits the time in seconds that threads were in each state, for the names whose processes run in several units, since
// there are several.
func (w *Waits) InUnits(emit func(UnitTime, float64)) {
	t := w.sums.Lock()
	defer w.sums.Unlock()
	order := func(a, b home) int { return cmp.Or(cmp.Compare(a.process, b.process), cmp.Compare(a.unit, b.unit)) }
	for _, in := range slices.SortedFunc(maps.Keys(t.units.times), order) {
		for state, seconds := range t.units.times[in].seconds {
			if seconds > 0 {
				emit(UnitTime{in.process, in.unit, waitStates[state]}, seconds)
			}
		}
	}
}
