package bpf

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
	// Unit names the unit or container that a process runs in, "" for none.
	Unit func(pid int) (string, error)
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
	waited        // the time while it had no series
	found  uint64 // how often threads were found waiting
	// as is the series that it counts in; the zero value before that is known.
	as WaitedFor
}

// objects are the locks and files that threads wait for.
type objects struct {
	followed map[object]*followed
	named    map[WaitedFor]*waited
}

func newObjects() objects {
	return objects{followed: map[object]*followed{}, named: map[WaitedFor]*waited{}}
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
		o.assign(f, k.asFile())
	}
	if f.as == (WaitedFor{}) {
		f.seconds += seconds
		return
	}
	o.grow(f.as, seconds, at)
}

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

// assign gives an object its series, with the time until now.
func (o *objects) assign(f *followed, as WaitedFor) {
	f.as = as
	o.grow(as, f.seconds, f.at)
	f.seconds = 0
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
	}
	s.seconds += seconds
	s.at = at
}

// hasPlace reports whether a new series has a place, and drops idle ones for it.
func (o *objects) hasPlace(k WaitedFor, at time.Time) bool {
	if len(o.named) >= mostNamed {
		maps.DeleteFunc(o.named, func(_ WaitedFor, s *waited) bool { return at.Sub(s.at) > mostIdle })
	}
	n, idle := 0, WaitedFor{}
	for other, s := range o.named {
		if other.Process != k.Process || other.State != k.State || other.Lock == Other || other.Device == Other {
			continue
		}
		n++
		if at.Sub(s.at) > mostIdle {
			idle = other
		}
	}
	if n >= mostNames && idle != (WaitedFor{}) {
		delete(o.named, idle)
		n--
	}
	return n < mostNames && len(o.named) < mostNamed
}

// forget stops following what was idle. The time of those that have no series is folded.
func (o *objects) forget(at time.Time) {
	for k, f := range o.followed {
		if at.Sub(f.at) <= mostIdle {
			continue
		}
		o.grow(k.series().folded(), f.seconds, at)
		delete(o.followed, k)
	}
}

// next returns the lock without a name for which threads waited longest; false without one that was found often enough.
func (o *objects) next() (k object, ok bool) {
	longest := 0.0
	for other, f := range o.followed {
		if !other.isFile() && f.as == (WaitedFor{}) && f.found >= leastFound && f.seconds > longest {
			k, longest, ok = other, f.seconds, true
		}
	}
	return k, ok
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
	if w.names.Lock != nil {
		name, err := w.names.Lock(int(k.owner), k.at)
		switch {
		case errors.Is(err, ErrLater):
			return false
		case err == nil:
			as.Lock = name
		}
	}
	t = w.sums.Lock()
	defer w.sums.Unlock()
	if f := t.objects.followed[k]; f != nil {
		t.objects.assign(f, as)
	}
	return true
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
