package bpf

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/await"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/probe/probetest"
)

// started is field 22 of /proc/PID/stat.
func started(t *testing.T, pid int) uint64 {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	n, err := strconv.ParseUint(strings.Fields(rest)[19], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// only returns a find function of Narrow for one process.
func only(pid int, m Member) func(int) (Member, bool) {
	return func(p int) (Member, bool) { return m, p == pid }
}

func ownSyscalls(c *Counters) map[string]uint64 {
	out := map[string]uint64{}
	SyscallCounts{c}.Own(func(pid int, process, syscall string, n uint64) {
		out[fmt.Sprint(pid, " ", process, " ", syscall)] += n
	})
	return out
}

// Two processes of one name: the one that the object is narrowed to is counted, by name and
// individually, and the other is not.
func TestNarrowToProcess(t *testing.T) {
	c := openProgram(t, Syscalls, Limits{})
	name := probetest.Name("twins")
	in, out := start(t, "--comm", name, "getppid", "1000"), start(t, "--comm", name, "getppid", "70000")
	pid := in.Process.Pid
	m := Member{Start: started(t, pid), Name: name, Own: true}
	if err := (Table{c}).Narrow([]int{pid}, only(pid, m)); err != nil {
		t.Fatal(err)
	}
	before := syscallCounts(c)[name+" getppid"]
	in.work()
	out.work()
	exactly(t, c, "calls", syscallCounts(c)[name+" getppid"]-before, 1000)
	key := fmt.Sprint(pid, " "+name+" getppid")
	exactly(t, c, "calls of the process alone", ownSyscalls(c)[key], 1000)
	in.end()
	out.end()
	// It has ended, and stays listed until another process needs its place.
	if err := (Table{c}).Narrow([]int{pid}, func(int) (Member, bool) { return Member{}, false }); err != nil {
		t.Fatal(err)
	}
	exactly(t, c, "calls of the process after its end", ownSyscalls(c)[key], 1000)
	if err := (Table{c}).Widen(); err != nil {
		t.Fatal(err)
	}
	if got := ownSyscalls(c); len(got) > 0 {
		t.Errorf("still on their own: %v", got)
	}
	events(t, func() {}, func() {}, "--comm", name, "getppid", "500")
	exactly(t, c, "calls after everything was counted again", syscallCounts(c)[name+" getppid"]-before, 1500)
}

// A reused id is another process.
func TestNarrowKnowsReusedIDs(t *testing.T) {
	c := openProgram(t, Syscalls, Limits{})
	name := probetest.Name("reused")
	w := start(t, "--comm", name, "getppid", "1000")
	pid := w.Process.Pid
	before := syscallCounts(c)[name+" getppid"]
	if err := (Table{c}).Narrow([]int{pid}, only(pid, Member{Start: started(t, pid) - 1, Name: "before", Own: true})); err != nil {
		t.Fatal(err)
	}
	w.work()
	if got := syscallCounts(c)[name+" getppid"] - before; got != 0 {
		t.Errorf("counted %d calls for a process that started earlier", got)
	}
	// The right one gets its own, empty cells.
	if err := (Table{c}).Narrow([]int{pid}, only(pid, Member{Start: started(t, pid), Name: "after", Own: true})); err != nil {
		t.Fatal(err)
	}
	for key, n := range ownSyscalls(c) {
		t.Errorf("%d of %q before it did anything", n, key)
	}
	w.end()
}

// Children of a member are members, in every source, until they end.
func TestNarrowFollowsChildren(t *testing.T) {
	sys, sw, faults := openProgram(t, Syscalls, Limits{}), openProgram(t, Switches, Limits{}), openProgram(t, Faults, Limits{})
	const children, calls = 300, 100
	if n := attachedHooks(shared().members); n != 0 {
		t.Errorf("%d hooks follow children while no one is narrowed", n)
	}
	// By process, whose children have numbers after its name.
	read := func() (called map[string]uint64, switched, faulted map[string]int) {
		called, switched, faulted = map[string]uint64{}, map[string]int{}, map[string]int{}
		bare := func(process string) string { return strings.TrimRight(process, "0123456789") }
		SyscallCounts{sys}.ByProcess(func(process, syscall string, n uint64) {
			if syscall == "getppid" {
				called[bare(process)] += n
			}
		})
		for process, n := range switchesOf(t, sw) {
			switched[bare(process)] += int(n.switches())
		}
		FaultCounts{faults}.ByProcess(func(process string, _, cause int, n uint64) { faulted[bare(process)] += int(n) })
		return called, switched, faulted
	}
	left := func() (n uint64) {
		var pid uint32
		var v member
		for all := shared().table["members"].Iterate(); all.Next(&pid, &v); {
			n++
		}
		return n
	}
	inside, outside := probetest.Name("in"), probetest.Name("out")
	blind := probetest.OnInit(t, "sched/sched_process_free")
	called, _, _ := read()
	in, out := start(t, "--comm", inside, "children", fmt.Sprint(calls), fmt.Sprint(children)), start(t, "--comm", outside, "children", "10", "50")
	pid := in.Process.Pid
	m := Member{Start: started(t, pid), Children: true}
	// The third is not narrowed.
	for _, c := range []*Counters{sys, sw} {
		if err := (Table{c}).Narrow([]int{pid}, only(pid, m)); err != nil {
			t.Fatal(err)
		}
	}
	_, switched, faulted := read()
	in.work()
	out.work()
	nowCalled, nowSwitched, nowFaulted := read()
	exactly(t, sys, "calls of children inside", nowCalled[inside]-called[inside], children*calls)
	if o := nowCalled[outside]; o != 0 {
		t.Errorf("counted %d calls of children outside, want none", o)
	}
	if i, o := nowSwitched[inside]-switched[inside], nowSwitched[outside]-switched[outside]; i < children || o != 0 {
		t.Errorf("counted %d switches of children inside and %d outside, want at least %d and none", i, o, children)
	}
	if nowFaulted[outside] == faulted[outside] {
		t.Error("a source that is not narrowed does not count the others")
	}
	in.end()
	out.end()
	// RCU callbacks free them. An idle CPU may postpone those until somebody waits for all
	// of them (rcutree.do_rcu_barrier, Linux 5.19 and later).
	_ = os.WriteFile("/sys/module/rcutree/parameters/do_rcu_barrier", []byte("1"), 0)
	await.Event(t, "ended processes are no members", func() error {
		if n := left(); n > blind() {
			return fmt.Errorf("%d are", n)
		}
		return nil
	})
	for _, c := range []*Counters{sys, sw} {
		if err := (Table{c}).Widen(); err != nil {
			t.Fatal(err)
		}
	}
	if n := attachedHooks(shared().members); n != 0 {
		t.Errorf("%d hooks follow children although no one is narrowed any more", n)
	}
}

// A process that left is not a member, even if it started as one.
func TestNarrowForgets(t *testing.T) {
	c := openProgram(t, Syscalls, Limits{})
	name := probetest.Name("left")
	w := start(t, "--comm", name, "getppid", "1000")
	pid := w.Process.Pid
	before := syscallCounts(c)[name+" getppid"]
	m := Member{Start: started(t, pid), Children: true}
	for _, in := range []bool{true, false} {
		// It is found in the table although it is not among those listed.
		if err := (Table{c}).Narrow(map[bool][]int{true: {pid}}[in], func(p int) (Member, bool) { return m, in && p == pid }); err != nil {
			t.Fatal(err)
		}
	}
	w.work()
	w.end()
	if got := syscallCounts(c)[name+" getppid"] - before; got != 0 {
		t.Errorf("counted %d calls of a process that left", got)
	}
}

func TestTooManyMembers(t *testing.T) {
	c := openProgram(t, Syscalls, Limits{})
	var all []int
	for i := range MaxMembers + 100 {
		all = append(all, 1<<22+i)
	}
	err := Table{c}.Narrow(all, func(int) (Member, bool) { return Member{Start: 1, Children: true}, true })
	if err == nil || !strings.Contains(err.Error(), "100 processes more than the maximum of 4096") {
		t.Errorf("4196 members: %v", err)
	}
	if err := (Table{c}).Widen(); err != nil {
		t.Error(err)
	}
	// Processes with a place are counted individually.
	err = Table{c}.Narrow(all[:MaxOwners+1], func(int) (Member, bool) { return Member{Start: 1, Own: true, Name: "x"}, true })
	if err != nil {
		t.Error(err)
	}
}

// entries is how many system calls began; that they ended is counted too while it is tried out whether it can be.
func entries(c *Counters) uint64 { return c.runs().sum(0) }

// fakeClock returns this machine with a clock that the test controls.
func fakeClock() (*host.Host, func(time.Duration)) {
	copied := *local
	h := &copied
	now := time.Now()
	h.Now = func() time.Time { return now }
	return h, func(d time.Duration) { now = now.Add(d) }
}

// Many names come and go: idle ones give their slots to newer ones, which are counted by name,
// and all counts stay in the sum.
func TestRecycle(t *testing.T) {
	needKernel(t)
	h, turn := fakeClock()
	// Room for the names of a round and for 200 of the machine's, not for those of two rounds. A round fills three
	// quarters, from which on places are given back.
	limits := Limits{Processes: 900, Idle: time.Minute}
	var open []*Counters
	for _, p := range []*Program{Syscalls, Switches, Faults} {
		c, err := p.open(h, limits)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		open = append(open, c)
	}
	sys, faults := open[0], open[2]
	const children, calls = 700, 20
	for round := range 6 {
		prefix := probetest.Name(fmt.Sprintf("r%d", round))
		events(t, func() {}, func() {}, "--comm", prefix, "children", fmt.Sprint(calls), fmt.Sprint(children))
		if err := sys.Detach(); err != nil {
			t.Fatal(err)
		}
		named, all := uint64(0), uint64(0)
		folded := SyscallCounts{sys}.ByProcess(func(process, syscall string, n uint64) {
			all += n
			if strings.HasPrefix(process, prefix) && syscall == "getppid" {
				named += n
			}
		})
		if all+(Table{sys}).Retired() != entries(sys) {
			t.Errorf("round %d: %d in series and %d retired make %d, %d happened", round, all, Table{sys}.Retired(), all+Table{sys}.Retired(), entries(sys))
		}
		exactly(t, sys, fmt.Sprintf("round %d: calls by name, %d folded", round, folded), named, children*calls)
		if (round > 0) != ((Table{sys}).Retired() > 0) {
			t.Errorf("round %d: %d events retired", round, Table{sys}.Retired())
		}
		if err := sys.Attach(); err != nil {
			t.Fatal(err)
		}
		// One object does it for all.
		for i := range 8 {
			if err := (Table{open[i%3]}).Recycle(); err != nil {
				t.Fatal(err)
			}
			turn(20 * time.Second)
		}
	}
	if err := faults.Detach(); err != nil {
		t.Fatal(err)
	}
	var all uint64
	FaultCounts{faults}.ByProcess(func(_ string, _, _ int, n uint64) { all += n })
	if all+(Table{faults}).Retired() != faults.Events() || (Table{faults}).Retired() == 0 {
		t.Errorf("%d faults in series, %d retired, %d happened", all, Table{faults}.Retired(), faults.Events())
	}
}

// Ten thousand names with arbitrary bytes that die at once: nothing is lost, and no live name
// loses its series.
func TestManyNames(t *testing.T) {
	needKernel(t)
	h, turn := fakeClock()
	c, err := Syscalls.open(h, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	aliveName, later := probetest.Name("alive"), probetest.Name("later")
	alive := start(t, "--comm", aliveName, "getppid", "1000")
	const children = 10_000
	w := start(t, "--comm", "\xff\x01\"\\", "children", "3", fmt.Sprint(children))
	w.work()
	for range 40 { // idle minutes
		turn(10 * time.Second)
		syscallCounts(c)
		if err := (Table{c}).Recycle(); err != nil {
			t.Fatal(err)
		}
	}
	alive.work()
	exactly(t, c, "calls", syscallCounts(c)[aliveName+" getppid"], 1000)
	if err := c.Detach(); err != nil {
		t.Fatal(err)
	}
	var all, other uint64
	SyscallCounts{c}.ByProcess(func(process, _ string, n uint64) {
		all += n
		if process == Other {
			other += n
		}
	})
	if all+(Table{c}).Retired() != entries(c) || (Table{c}).Retired() == 0 || (Table{c}).Retired()+other < 3*children {
		t.Errorf("%d in series (%d of them other), %d retired, %d happened", all, other, Table{c}.Retired(), entries(c))
	}
	if err := c.Attach(); err != nil {
		t.Fatal(err)
	}
	// There are free slots again.
	events(t, func() {}, func() {}, "--comm", later, "getppid", "1000")
	exactly(t, c, "calls of a name that came later", syscallCounts(c)[later+" getppid"], 1000)
	w.end()
	alive.end()
}

// TestBusyKeepPlaces: while someone floods the table with names, a busy name keeps its place, one that comes later gets one although no
// name is idle, and all counts stay in the sum.
func TestBusyKeepPlaces(t *testing.T) {
	needKernel(t)
	h, turn := fakeClock()
	c, err := Syscalls.open(h, Limits{Processes: 400})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	busy, later := probetest.Name("busy"), probetest.Name("later")
	calls := func(name string) uint64 { return syscallCounts(c)[name+" getppid"] }
	events(t, func() {}, func() {}, "--comm", busy, "getppid", "50000")
	exactly(t, c, "calls of a busy name", calls(busy), 50_000)
	flood := func(i int) {
		events(t, func() {}, func() {}, "--comm", probetest.Name(fmt.Sprintf("f%d", i)), "children", "3", "700")
	}
	flood(0)
	events(t, func() {}, func() {}, "--comm", later, "getppid", "1000")
	if n := calls(later); n != 0 {
		t.Errorf("a table that is full has counted %d calls of a new name", n)
	}
	for i := range 6 { // seconds, so no name is idle
		turn(2 * time.Second)
		if err := (Table{c}).Recycle(); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			if n := (Table{c}).Retired(); n != 0 {
				t.Errorf("%d calls were retired before it was known which names are busy", n)
			}
			events(t, func() {}, func() {}, "--comm", busy, "getppid", "2000") // it goes on
		}
	}
	events(t, func() {}, func() {}, "--comm", later, "getppid", "20000")
	exactly(t, c, "calls of a name that came later", calls(later), 20_000)
	for i := range 3 {
		flood(i + 1)
		for range 6 {
			turn(2 * time.Second)
			if err := (Table{c}).Recycle(); err != nil {
				t.Fatal(err)
			}
		}
	}
	exactly(t, c, "calls of the busy name after all", calls(busy), 52_000)
	exactly(t, c, "calls of the later name after all", calls(later), 20_000)
	if err := c.Detach(); err != nil {
		t.Fatal(err)
	}
	var all uint64
	SyscallCounts{c}.ByProcess(func(_, _ string, n uint64) { all += n })
	if all+(Table{c}).Retired() != entries(c) || (Table{c}).Retired() == 0 {
		t.Errorf("%d in series, %d retired, %d happened", all, Table{c}.Retired(), entries(c))
	}
}
