package bpf

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/locked"
)

func named(process string) (b [commLen]byte) {
	copy(b[:], process)
	return b
}

// emptyWaits has counted nothing and does not walk.
func emptyWaits(names Names) *Waits {
	return &Waits{host: local, names: names, sums: locked.New(waitSums{sums: map[Wait]*waited{}, objects: newObjects(), units: newUnits(names.Apart)})}
}

// waitedFor returns what the walks counted by object.
func waitedFor(w *Waits) map[WaitedFor]float64 {
	out := map[WaitedFor]float64{}
	w.WaitedFor(func(k WaitedFor, seconds float64) { out[k] = math.Round(1000*seconds) / 1000 })
	return out
}

// TestWaitedFor: a lock or a file has a series once it was found three times and has a name, with the time from then on; the
// time until then is folded. Locks of one name are added up.
func TestWaitedFor(t *testing.T) {
	w := emptyWaits(Names{Lock: func(pid int, address uint64) (string, error) {
		switch {
		case pid == 7 && address == 0x1000, pid == 8 && address == 0x2000:
			return "orders_lock", nil
		case address == 0x3000:
			return "", errors.New("no such memory")
		}
		return "", ErrLater
	}})
	lock := func(pid uint32, address uint64) wait {
		return wait{process: named("shop"), nr: 202, state: 2, pid: pid, at: address}
	}
	file := wait{process: named("shop"), nr: 74, state: 1, pid: 7, device: 8<<20 | 3, at: 99}
	for range 2 {
		w.add(map[wait]uint64{lock(7, 0x1000): 1, lock(8, 0x2000): 2, lock(7, 0x3000): 2, lock(7, 0x4000): 9, file: 1}, 15, 100*time.Millisecond)
	}
	name := func() {
		for range 4 {
			w.nameNext()
		}
	}
	name()
	other := WaitedFor{"shop", "lock", "futex", Other, "", ""}
	otherFile := WaitedFor{"shop", "disk", "fsync", "", Other, Other}
	want := map[WaitedFor]float64{other: 2.8, otherFile: 0.2}
	if got := waitedFor(w); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("before there are names: %v, want %v", got, want)
	}
	sums := w.sums.Lock()
	sums.objects.forget(local.Now()) // nothing was idle
	w.sums.Unlock()
	w.add(map[wait]uint64{lock(7, 0x1000): 1, file: 1}, 2, 100*time.Millisecond)
	name()
	w.add(map[wait]uint64{lock(7, 0x1000): 1, lock(8, 0x2000): 1, lock(7, 0x3000): 1}, 3, 100*time.Millisecond)
	want = map[WaitedFor]float64{
		{"shop", "lock", "futex", "orders_lock", "", ""}: 0.2,
		other:     3,
		otherFile: 0.2,
		{"shop", "disk", "fsync", "", "8:3", "99"}: 0.1,
	}
	if got := waitedFor(w); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestWaitedForLimits: whatever processes do, the number of locks, files and series stays bounded, and no time is lost.
func TestWaitedForLimits(t *testing.T) {
	o := newObjects()
	at := time.Unix(1000, 0)
	sum := 0.0
	for i := range 4 * mostObjects {
		k := object{named(fmt.Sprint("p", i%900)), 1, 74, uint64(i + 1), 8 << 20}
		for range leastFound {
			o.add(k, 1, 0.5, at)
			sum += 0.5
		}
		at = at.Add(time.Second / 100)
	}
	got := 0.0
	for _, s := range o.named {
		got += s.seconds
	}
	if len(o.followed) > mostObjects || len(o.named) > 2*mostNamed+2 || math.Abs(got-sum) > 1e-6 {
		t.Errorf("%d followed, %d series, %g s of %g", len(o.followed), len(o.named), got, sum)
	}
	// One name has at most mostNames, until one is idle.
	o, at = newObjects(), time.Unix(1000, 0)
	file := func(i int) object { return object{named("db"), 1, 74, uint64(i + 1), 8 << 20} }
	for i := range mostNames + 3 {
		o.add(file(i), leastFound, 1, at)
	}
	if len(o.named) != mostNames+1 {
		t.Errorf("%d series, want %d and one of the others", len(o.named), mostNames)
	}
	at = at.Add(mostIdle + time.Second)
	o.add(file(mostNames+2), 1, 1, at)
	if s := o.named[file(mostNames+2).asFile()]; s == nil || s.seconds != 1 || len(o.named) != 1 {
		t.Errorf("an idle file keeps its place: %+v, %d series", s, len(o.named))
	}
}

// TestUnits: only names in several units are divided, from when the second one is found.
func TestUnits(t *testing.T) {
	w := emptyWaits(Names{Unit: func(pid int, _ uint64) (string, error) {
		switch pid {
		case 1:
			return "blue.service", nil
		case 2:
			return "green.service", nil
		case 3:
			return "", nil
		}
		return "", errors.New("it has ended")
	}})
	in := func(process string, pid uint32, state uint32) wait {
		return wait{process: named(process), nr: -1, state: state, pid: pid, group: uint64(100 + pid)}
	}
	walk := func(one map[wait]uint64) {
		w.add(one, 0, time.Second)
		w.nameUnits()
	}
	for range 3 {
		walk(map[wait]uint64{in("java", 1, onCPU): 1, in("redis", 1, 0): 2, in("sh", 4, onCPU): 1})
	}
	got := map[UnitTime]float64{}
	read := func() map[UnitTime]float64 {
		clear(got)
		w.InUnits(func(k UnitTime, seconds float64) { got[k] = seconds })
		return got
	}
	if read(); len(got) != 0 {
		t.Errorf("names in one unit are divided: %v", got)
	}
	for range 3 {
		walk(map[wait]uint64{in("java", 2, 0): 3})
	}
	walk(map[wait]uint64{in("java", 1, onCPU): 1, in("java", 2, 2): 1, in("java", 3, onCPU): 1})
	walk(map[wait]uint64{in("java", 3, onCPU): 2})
	want := map[UnitTime]float64{
		{"java", "green.service", "cpu"}: 6, {"java", "green.service", "lock"}: 1,
		{"java", "blue.service", "running"}: 1, {"java", "", "running"}: 2,
	}
	if read(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
	if _, err := w.Waited(func(k Wait, _ float64) {
		if k.State == "running" {
			t.Errorf("%+v is no wait", k)
		}
	}); err != nil {
		t.Error(err)
	}
}

// TestUnitLimits: names, units and groups stay bounded.
func TestUnitLimits(t *testing.T) {
	u := newUnits(nil)
	at := time.Unix(1000, 0)
	for i := range 2 * mostGroups {
		k := wait{process: named(fmt.Sprint("p", i%300)), state: onCPU, pid: uint32(i + 1), group: uint64(i + 1)}
		u.add(k, 1, at)
		if g := u.groups[groupKey{group: k.group}]; g != nil {
			g.known, g.unit = true, fmt.Sprint("u", i, ".service")
		}
		u.add(k, 1, at)
		at = at.Add(time.Second)
	}
	of := map[string]int{}
	for in := range u.times {
		if in.unit != Other {
			of[in.process]++
		}
	}
	for process, n := range of {
		t.Run(process, func(t *testing.T) {
			if n > mostUnits || n != u.divide[process] {
				t.Errorf("%s has %d units, counted as %d", process, n, u.divide[process])
			}
		})
	}
	if len(of) == 0 || len(u.groups) > mostGroups || len(u.homes) > maxWaits || len(u.times) > mostUnitTimes || len(u.unnamed()) > mostNamedAtOnce {
		t.Errorf("%d groups, %d sums, %d to name", len(u.groups), len(u.times), len(u.unnamed()))
	}
}

// TestApartLimits: of a name whose processes are told apart, some are; the others count as their control group, and idle ones give their places to others.
func TestApartLimits(t *testing.T) {
	u := newUnits(func(process string) bool { return process == "exe" })
	at := time.Unix(1000, 0)
	for i := range uint32(3 * mostApart) {
		u.add(wait{process: named("exe"), state: onCPU, pid: i + 1, group: 7}, 1, at)
	}
	if len(u.groups) != mostApart+1 || u.groups[groupKey{group: 7}] == nil {
		t.Errorf("%d groups, want %d processes and their control group", len(u.groups), mostApart)
	}
	at = at.Add(mostIdle + sweepEvery)
	u.add(wait{process: named("exe"), state: onCPU, pid: 9999, group: 7}, 1, at)
	if u.groups[groupKey{7, 9999}] == nil || u.single != 1 {
		t.Errorf("%d single processes after a pause, want the new one alone", u.single)
	}
}

// TestUnitsIdle: a name whose units were all idle, and then has another one, keeps that one; it is dropped like others later.
func TestUnitsIdle(t *testing.T) {
	u := newUnits(nil)
	at := time.Unix(1000, 0)
	for i := range mostUnits + 1 {
		u.find(home{"java", fmt.Sprint("u", i, ".service")}, at)
	}
	at = at.Add(mostIdle + time.Second)
	if n := u.find(home{"java", "new.service"}, at); n != 1 {
		t.Errorf("java has %d units, want 1", n)
	}
	for i := range maxWaits {
		u.find(home{fmt.Sprint("p", i), ""}, at)
	}
	if at = at.Add(mostIdle + time.Second); u.find(home{"late", ""}, at) != 1 {
		t.Error("idle names keep their places")
	}
}

// addKnown counts a second of a thread in a unit whose group is known.
func addKnown(u *units, process string, id uint64, state uint32, at time.Time) {
	u.groups[groupKey{group: id}] = &group{pid: 1, unit: fmt.Sprint("u", id, ".service"), known: true, at: at}
	u.add(wait{process: named(process), state: state, pid: 1, group: id}, 1, at)
}

// TestUnitStates: with a full table a unit has all its states or none, so none looks as if it never ran.
func TestUnitStates(t *testing.T) {
	u := newUnits(nil)
	at := time.Unix(1000, 0)
	for _, state := range []uint32{0, onCPU} {
		for i := range uint64(mostUnitTimes) {
			process := fmt.Sprint("p", i/2)
			addKnown(&u, process, 2*i+1, state, at)
			addKnown(&u, process, 2*i+2, state, at)
		}
	}
	if len(u.times) != mostUnitTimes {
		t.Fatalf("%d places, want %d", len(u.times), mostUnitTimes)
	}
	for in, times := range u.times {
		if times.seconds[onCPU] == 0 {
			t.Errorf("%+v never ran", in)
		}
	}
}

// TestUnitAlone: a unit that was divided goes on counting while the others sleep.
func TestUnitAlone(t *testing.T) {
	u := newUnits(nil)
	at := time.Unix(1000, 0)
	for _, id := range []uint64{1, 2, 1} {
		addKnown(&u, "java", id, onCPU, at)
	}
	at = at.Add(2 * mostIdle)
	addKnown(&u, "java", 1, onCPU, at)
	addKnown(&u, "java", 1, onCPU, at)
	if s := u.times[home{"java", "u1.service"}]; s == nil || s.seconds[onCPU] != 3 {
		t.Errorf("%+v, want 3 s", s)
	}
}

// TestUnitsOfPrograms: processes of a runtime are told apart by the program in each, also in one control group; those of other names are not.
func TestUnitsOfPrograms(t *testing.T) {
	w := emptyWaits(Names{
		Unit:    func(int, uint64) (string, error) { return "a.service", nil },
		Apart:   func(process string) bool { return process == "exe" },
		Program: func(pid int, _ uint64) (string, error) { return fmt.Sprint("a.service/Gramine (p", pid, ")"), nil },
	})
	one := map[wait]uint64{}
	for _, process := range []string{"exe", "redis"} {
		for _, pid := range []uint32{1, 2} {
			one[wait{process: named(process), nr: -1, state: onCPU, pid: pid, group: 7}] = uint64(pid)
		}
	}
	for range 3 { // the first finds the places, the second the units, the third counts in all
		w.add(one, 0, time.Second)
		w.nameUnits()
	}
	got := map[UnitTime]bool{}
	w.InUnits(func(k UnitTime, seconds float64) { got[k] = seconds > 0 })
	want := map[UnitTime]bool{{"exe", "a.service/Gramine (p1)", "running"}: true, {"exe", "a.service/Gramine (p2)", "running"}: true}
	if !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestPutOffLock: a lock whose name is put off is asked about again after the others.
func TestPutOffLock(t *testing.T) {
	var asked []uint64
	w := emptyWaits(Names{Lock: func(_ int, address uint64) (string, error) {
		asked = append(asked, address)
		if address == 0x1000 {
			return "", ErrLater
		}
		return "a_lock", nil
	}})
	lock := func(address uint64) wait {
		return wait{process: named("shop"), nr: 202, state: 2, pid: 7, at: address}
	}
	w.add(map[wait]uint64{lock(0x1000): 900, lock(0x2000): 9, lock(0x3000): 5}, 914, time.Second)
	for range 4 {
		w.nameNext()
	}
	if want := []uint64{0x1000, 0x2000, 0x3000, 0x1000}; !slices.Equal(asked, want) {
		t.Errorf("asked about %#x, want %#x", asked, want)
	}
}

// TestFileWithoutDevice: a file whose device could not be read has no series, and none of the process's id.
func TestFileWithoutDevice(t *testing.T) {
	w := emptyWaits(Names{})
	w.add(map[wait]uint64{{process: named("shop"), nr: 74, state: 1, pid: 7, at: 99}: 9}, 9, time.Second)
	if got := waitedFor(w); len(got) != 0 {
		t.Errorf("%v, want none", got)
	}
}
