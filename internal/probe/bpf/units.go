package bpf

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

const (
	// mostGroups is how many control groups are remembered, mostUnits how many units of one process name are told apart,
	// mostUnitTimes how many sums there are. Those that were idle for mostIdle give their places to others.
	mostGroups    = 4096
	mostUnits     = 8
	mostUnitTimes = 512
	// mostNamedAtOnce is how many groups are named after a walk.
	mostNamedAtOnce = 16
)

// UnitTime is what threads of the processes of one name do in one unit or container: in State "running" they have a CPU, in
// the others they wait as in Wait. Unit is "" outside of both, and Other for those beyond the limits.
type UnitTime struct{ Process, Unit, State string }

// units are the times of the names whose processes run in several units.
type units struct {
	groups map[uint64]*group
	homes  map[string]map[string]time.Time // by process name: its units, and when each was last found
	sums   map[UnitTime]*waited
}

// group is a control group.
type group struct {
	pid   uint32 // of a process in it
	unit  string
	known bool
	at    time.Time
}

func newUnits() units {
	return units{groups: map[uint64]*group{}, homes: map[string]map[string]time.Time{}, sums: map[UnitTime]*waited{}}
}

// add counts threads that were found in a state, for a time in seconds. Names in a single unit have no sums: they begin when
// the second is found.
func (u *units) add(k wait, seconds float64, at time.Time) {
	if k.group == 0 || k.pid == 0 {
		return
	}
	g := u.groups[k.group]
	if g == nil {
		if len(u.groups) >= mostGroups {
			maps.DeleteFunc(u.groups, func(_ uint64, g *group) bool { return at.Sub(g.at) > mostIdle })
		}
		if len(u.groups) >= mostGroups {
			return
		}
		g = &group{}
		u.groups[k.group] = g
	}
	g.pid, g.at = k.pid, at
	if !g.known {
		return
	}
	key := UnitTime{label(k.process[:], 0), g.unit, waitStates[k.state]}
	if n := u.find(key.Process, g.unit, at); n < 2 {
		return
	}
	u.grow(key, seconds, at)
}

// find notes a unit of a name, and returns how many the name has now.
func (u *units) find(process, unit string, at time.Time) int {
	homes := u.homes[process]
	if homes == nil {
		if len(u.homes) >= maxWaits {
			maps.DeleteFunc(u.homes, func(_ string, homes map[string]time.Time) bool {
				return at.Sub(slices.MaxFunc(slices.Collect(maps.Values(homes)), time.Time.Compare)) > mostIdle
			})
		}
		if len(u.homes) >= maxWaits {
			return 0
		}
		homes = map[string]time.Time{}
		u.homes[process] = homes
	}
	if _, known := homes[unit]; known || len(homes) <= mostUnits {
		homes[unit] = at
	}
	if len(homes) > 1 {
		maps.DeleteFunc(homes, func(_ string, last time.Time) bool { return at.Sub(last) > mostIdle })
	}
	return len(homes)
}

// grow adds to a sum.
func (u *units) grow(k UnitTime, seconds float64, at time.Time) {
	s := u.sums[k]
	if s == nil {
		if n := u.unitsOf(k.Process); n >= mostUnits && !u.has(k) {
			k.Unit = Other
		}
		if len(u.sums) >= mostUnitTimes {
			maps.DeleteFunc(u.sums, func(_ UnitTime, s *waited) bool { return at.Sub(s.at) > mostIdle })
		}
		if s = u.sums[k]; s == nil {
			if len(u.sums) >= mostUnitTimes {
				return
			}
			s = &waited{}
			u.sums[k] = s
		}
	}
	s.seconds += seconds
	s.at = at
}

// has reports whether there is a sum of the same process and unit.
func (u *units) has(k UnitTime) bool {
	for other := range u.sums {
		if other.Process == k.Process && other.Unit == k.Unit {
			return true
		}
	}
	return false
}

// unitsOf returns how many units of a name have sums.
func (u *units) unitsOf(process string) int {
	of := map[string]bool{}
	for k := range u.sums {
		if k.Process == process {
			of[k.Unit] = true
		}
	}
	return len(of)
}

// unnamed returns some groups whose unit is not known, with a process of each.
func (u *units) unnamed() map[uint64]uint32 {
	out := map[uint64]uint32{}
	for id, g := range u.groups {
		if !g.known && len(out) < mostNamedAtOnce {
			out[id] = g.pid
		}
	}
	return out
}

// nameUnits finds out which units the control groups are that were found. A group whose process has ended is asked about the
// next one that is found in it.
func (w *Waits) nameUnits() {
	if w.names.Unit == nil {
		return
	}
	t := w.sums.Lock()
	ask := t.units.unnamed()
	w.sums.Unlock()
	for id, pid := range ask {
		unit, err := w.names.Unit(int(pid))
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
	order := func(a, b UnitTime) int {
		return cmp.Or(cmp.Compare(a.Process, b.Process), cmp.Compare(a.Unit, b.Unit), cmp.Compare(a.State, b.State))
	}
	for _, k := range slices.SortedFunc(maps.Keys(t.units.sums), order) {
		emit(k, t.units.sums[k].seconds)
	}
}
