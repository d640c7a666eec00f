package bpf

// Names what threads wait for: locks by variable or function, files by inode and device. Names are looked up after a
// walk, for the objects with the longest waits only, because looking up is expensive.

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"
)

const (
	// nameEvery is the time between two locks that are named: a name may need symbols of a program.
	nameEvery = time.Second
	// leastFound is how often threads must be found waiting for a lock or a file before it has a series of its own.
	leastFound = 3
	// mostObjects is how many locks and files are followed, mostNames how many of one process name and state have a
	// series, mostNamed how many have one in all. Those that were idle for mostIdle give their places to others.
	mostObjects = 1024
	mostNames   = 8
	mostNamed   = 512
)

// Names say what threads belong to and wait for. A function may be nil: it knows no name.
type Names struct {
	// Lock names the lock at an address of a process. The name holds neither the process id nor the address, so it is the
	// same in all processes of a program. ErrLater: ask again. Any other error: the lock has no name.
	Lock func(pid int, address uint64) (string, error)
	// Unit names the unit or container of a control group (cgroup v2, by its inode), "" for none, with the help of a process
	// that was found in it. An error: the process is not in it now.
	Unit func(pid int, group uint64) (string, error)
	// Apart reports whether each process of a name may have a unit of its own in one control group, as those of a runtime
	// that runs one program each. Program names where such a process runs, as Unit does.
	Apart   func(process string) bool
	Program func(pid int, group uint64) (string, error)
}

// WaitedFor is a lock or a file that threads of the processes of one name wait for, in the state "lock" or "disk" and in the
// system call Call. Lock is the name of the lock, or Device (as "8:1") and Inode are the file's. They are Other for those
// beyond the limits.
type WaitedFor struct{ Process, State, Call, Lock, Device, Inode string }

// object is what was found in a walk: a futex by its process and address, a file by its device and inode.
type object struct {
	process [commLen]byte
	state   uint32
	nr      int32
	at      uint64
	owner   uint32
}

func (k object) isFile() bool { return waitStates[k.state] == "disk" }

// series is the series of the object without its name.
func (k object) series() WaitedFor {
	call := ""
	if k.nr >= 0 {
		call = SyscallName(int(k.nr))
	}
	return WaitedFor{Process: label(k.process[:], 0), State: waitStates[k.state], Call: call}
}

// followed is an object with the time that was waited for it.
type followed struct {
	waited        // the time while it had no series of its own, which counts in the folded one
	found  uint64 // how often threads were found waiting
	later  int    // how often its name was put off
	// as is the series that it counts in; the zero value before that is known.
	as WaitedFor
}

// objects are the locks and files that threads wait for.
type objects struct {
	followed map[object]*followed
	named    map[WaitedFor]*waited
	names    map[perName]int // how many series, without the folded ones
	// sweptNamed and sweptFollowed are when idle entries were sought.
	sweptNamed, sweptFollowed time.Time
}

// perName is what mostNames limits.
type perName struct{ process, state string }

func newObjects() objects {
	return objects{followed: map[object]*followed{}, named: map[WaitedFor]*waited{}, names: map[perName]int{}}
}

// add counts n threads that were found waiting for an object, for a time in seconds.
func (o *objects) add(k object, n uint64, seconds float64, at time.Time) {
	seconds *= float64(n)
	f := o.followed[k]
	if f == nil && len(o.followed) >= mostObjects {
		o.forget(at)
	}
	if f == nil {
		if len(o.followed) >= mostObjects {
			o.grow(k.series().folded(), seconds, at)
			return
		}
		f = &followed{}
		o.followed[k] = f
	}
	f.found += n
	f.at = at
	if f.as == (WaitedFor{}) && k.isFile() && f.found >= leastFound {
		f.as = k.asFile()
	}
	if f.as == (WaitedFor{}) {
		f.seconds += seconds
		o.grow(k.series().folded(), seconds, at)
		return
	}
	o.grow(f.as, seconds, at)
}

// isFolded reports whether the series is of those beyond the limits.
func (k WaitedFor) isFolded() bool { return k.Lock == Other || k.Device == Other }

// folded is the series of those beyond the limits that are otherwise like this one.
func (k WaitedFor) folded() WaitedFor {
	if k.State == "disk" {
		k.Device, k.Inode = Other, Other
	} else {
		k.Lock = Other
	}
	return k
}

// asFile is the series of a file. The kernel has 20 bits for the minor number (include/linux/kdev_t.h).
func (k object) asFile() WaitedFor {
	s := k.series()
	s.Device, s.Inode = fmt.Sprintf("%d:%d", k.owner>>20, k.owner&(1<<20-1)), strconv.FormatUint(k.at, 10)
	return s
}

// grow adds to a series, or to the folded one of its process where there are too many.
func (o *objects) grow(k WaitedFor, seconds float64, at time.Time) {
	if seconds == 0 {
		return
	}
	s := o.named[k]
	if s == nil && !o.hasPlace(k, at) {
		k = k.folded()
		s = o.named[k]
	}
	if s == nil && len(o.named) >= 2*mostNamed {
		k.Process = Other
		s = o.named[k]
	}
	if s == nil {
		s = &waited{}
		o.named[k] = s
		o.count(k)
	}
	s.seconds += seconds
	s.at = at
}

// count counts a series among those of its name.
func (o *objects) count(k WaitedFor) {
	if !k.isFolded() {
		o.names[perName{k.Process, k.State}]++
	}
}

// hasPlace reports whether a new series has a place, and drops idle ones for it.
func (o *objects) hasPlace(k WaitedFor, at time.Time) bool {
	full := func() bool {
		return len(o.named) >= mostNamed || o.names[perName{k.Process, k.State}] >= mostNames
	}
	if full() && isDue(&o.sweptNamed, at) {
		maps.DeleteFunc(o.named, func(_ WaitedFor, s *waited) bool { return at.Sub(s.at) > mostIdle })
		clear(o.names)
		for other := range o.named {
			o.count(other)
		}
	}
	return !full()
}

// isDue reports whether sweepEvery has passed since idle entries were sought, and notes that they are now.
func isDue(last *time.Time, at time.Time) bool {
	if since := at.Sub(*last); since >= 0 && since < sweepEvery {
		return false
	}
	*last = at
	return true
}

// forget stops following what was idle.
func (o *objects) forget(at time.Time) {
	if isDue(&o.sweptFollowed, at) {
		maps.DeleteFunc(o.followed, func(_ object, f *followed) bool { return at.Sub(f.at) > mostIdle })
	}
}

// next returns the lock to name next: of those that were put off least often, the one for which threads waited longest. It is
// false without one that was found often enough.
func (o *objects) next() (k object, ok bool) {
	var first *followed
	for other, f := range o.followed {
		if other.isFile() || f.as != (WaitedFor{}) || f.found < leastFound {
			continue
		}
		if first == nil || cmp.Or(cmp.Compare(f.later, first.later), cmp.Compare(first.seconds, f.seconds)) < 0 {
			k, first = other, f
		}
	}
	return k, first != nil
}

// nameNext names one lock, and reports whether there was one that could be named.
func (w *Waits) nameNext() bool {
	t := w.sums.Lock()
	k, ok := t.objects.next()
	w.sums.Unlock()
	if !ok {
		return false
	}
	as := k.series().folded()
	var err error
	if w.names.Lock != nil {
		var name string
		if name, err = w.names.Lock(int(k.owner), k.at); err == nil {
			as.Lock = name
		}
	}
	later := errors.Is(err, ErrLater)
	t = w.sums.Lock()
	defer w.sums.Unlock()
	switch f := t.objects.followed[k]; {
	case f == nil:
	case later:
		f.later++
	default:
		f.as = as
	}
	return !later
}

// WaitedFor emits the time in seconds that threads have waited since opening for the locks and files for which they were
// found waiting most often, and for the others of each process.
func (w *Waits) WaitedFor(emit func(WaitedFor, float64)) {
	t := w.sums.Lock()
	defer w.sums.Unlock()
	order := func(a, b WaitedFor) int {
		return cmp.Or(cmp.Compare(a.State, b.State), cmp.Compare(a.Process, b.Process), cmp.Compare(a.Call, b.Call), cmp.Compare(a.Lock, b.Lock), cmp.Compare(a.Device, b.Device), cmp.Compare(a.Inode, b.Inode))
	}
	for _, k := range slices.SortedFunc(maps.Keys(t.objects.named), order) {
		emit(k, t.objects.named[k].seconds)
	}
}
