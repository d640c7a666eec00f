package bpf

//go:generate ./compile.sh waits waits.bpf.c

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf/link"

	"github.com/teescope/teescope/internal/contain"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/locked"
)

const (
	// walkEvery is the mean time between two walks, unless they would use more than a share of a
	// core: calmShare while all threads only sleep, walkShare until closeFor after a walk that
	// found one waiting for a CPU or a disk, closeShare likewise for a lock, since such waits are
	// short and come in bursts.
	walkEvery  = 150 * time.Millisecond
	calmShare  = 5e-4
	walkShare  = 2e-3
	closeShare = 5e-3
	closeFor   = 30 * time.Second
	// slowest bounds how rare the budget makes walks: rules judge the newest half minute, which must hold several.
	slowest = 5 * time.Second
	// maxWaits is the largest number of sums. Once three quarters are in use, a sum that did not
	// grow for mostIdle is dropped.
	maxWaits = 4096
	mostIdle = 5 * time.Minute
	// recordBytes is struct record of waits.bpf.c.
	recordBytes = commLen + 32
)

// waitStates are the names of enum state of waits.bpf.c.
var waitStates = [...]string{"cpu", "disk", "lock", "sleep", "running"}

const (
	onRunQueue = uint32(0)
	// onCPU is the state of a thread that waits for nothing.
	onCPU = uint32(len(waitStates)) - 1
	// walker and kernelThread are the states after these: a thread of this process that has a CPU, and one of the kernel on a
	// run queue. They count in no sum.
	walker       = uint32(len(waitStates))
	kernelThread = walker + 1
)

// Wait is what threads of the processes of one name are waiting for: in State "cpu" for a CPU,
// "disk" uninterruptibly, "lock" for a lock in user space, "sleep" for anything else; Call is the
// system call that they are in, or "".
type Wait struct{ Process, State, Call string }

// Waits walks over all threads at random moments and adds up what they wait for. Those of its own process are left out: a
// timer that ends begins the walk, and Go's runtime then wakes other threads of the process, so each walk would find one of
// them on a run queue, although they hardly ever wait.
type Waits struct {
	host  *host.Host
	names Names
	iter  *link.Iter
	stop  chan struct{}
	done  chan struct{}
	slow  atomic.Int64 // how many times less often to walk; 0 is 1
	sums  locked.Value[waitSums]
}

// waitSums are the results of the walks until now.
type waitSums struct {
	sums map[Wait]*waited
	// folded is the time in seconds of waits beyond maxWaits.
	folded  float64
	objects objects
	units   units
	err     error
	walked  Walked
}

// waited is a sum in seconds, and when it last grew.
type waited struct {
	seconds float64
	at      time.Time
}

// Walked are the totals of the walks until now.
type Walked struct {
	Walks, Threads uint64
	// Seconds is the time that they represent, CPU the CPU time that they used.
	Seconds, CPU float64
}

// OpenWaits loads the program and begins to walk. On a fixture it takes the
// recorded walk once, for a second.
func OpenWaits(h *host.Host, names Names) (*Waits, error) {
	w := &Waits{host: h, names: names, sums: locked.New(waitSums{sums: map[Wait]*waited{}, objects: newObjects(), units: newUnits(names.Apart)}), stop: make(chan struct{}), done: make(chan struct{})}
	if h.Maps != nil {
		close(w.done)
		return w, w.replay()
	}
	if err := ownPIDs(h); err != nil {
		return nil, err
	}
	spec, err := loadWaits()
	if err != nil {
		return nil, fmt.Errorf("read object waits: %w", err)
	}
	opened, err := host.Descriptors(descriptorCount(spec, 1, 1))
	if err != nil {
		return nil, refused(h, "waits", err)
	}
	defer opened()
	types := kernelOf(h).typeCache()
	if _, err := types.Kernel(); err != nil {
		return nil, noTypes(err)
	}
	p, err := kernelOf(h).loadProgram(spec, "waits", nil, types)
	if err != nil {
		var other error
		if p, other = kernelOf(h).loadProgram(spec, "waits_plain", nil, types); other != nil {
			return nil, refused(h, "waits", err)
		}
	}
	defer p.Close() // the link keeps it
	if w.iter, err = link.AttachIter(link.IterOptions{Program: p}); err != nil {
		return nil, refused(h, "waits", err)
	}
	go w.run()
	return w, nil
}

func (w *Waits) replay() error {
	recorded, err := w.host.Maps("waits")
	if err != nil {
		return err
	}
	walk, ok := recorded["walk"]
	if !ok {
		return errors.New("read map walk of waits: not recorded")
	}
	one := newCensus()
	one.read(walk)
	one.giveBack()
	for range 2 { // first the groups, then the units of each name
		for k, n := range one.waits {
			w.meet(k, n)
		}
		w.nameUnits()
	}
	for w.nameNext() {
	}
	w.add(one.waits, one.threads, time.Second)
	return nil
}

// meet notes threads of a recorded walk, for no time, so that what they wait for has its name when the walk is counted.
func (w *Waits) meet(k wait, n uint64) {
	t := w.sums.Lock()
	defer w.sums.Unlock()
	at := w.host.Now()
	t.units.add(k, 0, at)
	if o, ok := k.object(); ok && n >= leastFound {
		t.objects.add(o, n, 0, at)
	}
}

// Close ends the walks.
func (w *Waits) Close() error {
	close(w.stop)
	<-w.done
	if w.iter == nil {
		return nil
	}
	return w.iter.Close()
}

// run walks until it is stopped.
func (w *Waits) run() {
	defer close(w.done)
	one, buf := newCensus(), make([]byte, 1<<16)
	last, every := now(), walkEvery
	var named uint64
	var costs [3]time.Duration    // of the last walks
	until := map[float64]uint64{} // by share
	for {
		// Random, from half the mean to one and a half, so it is in step with nothing.
		timer := time.NewTimer(every/2 + rand.N(every))
		select {
		case <-w.stop:
			timer.Stop()
			return
		case <-timer.C:
		}
		at := now()
		var cost time.Duration
		err := contain.Call("walking over all threads", func() (err error) { cost, err = w.timedWalk(one, buf, time.Duration(at-last)); return err })
		if err != nil {
			w.sums.Lock().err = err
			w.sums.Unlock()
			every, last = 10*time.Second, at
			continue
		}
		if at-named >= uint64(nameEvery) {
			named = at
			if err := contain.Call("naming locks and units", func() error { w.nameNext(); w.nameUnits(); return nil }); err != nil {
				w.sums.Lock().err = err
				w.sums.Unlock()
			}
		}
		// The change of pace causes no bias: a walk represents the time before it, whose length
		// was set before the walk.
		until[worth(one.waits)] = at + uint64(closeFor)
		share := calmShare
		for s, end := range until {
			if at < end {
				share = max(share, s)
			}
		}
		costs[0], costs[1], costs[2] = costs[1], costs[2], cost
		every = pace(usual(costs), share, w.slow.Load())
		last = at
	}
}

// timedWalk walks, counts the walk for the time since the previous one, and returns the CPU time of both. It locks its thread
// only meanwhile: with a locked thread that sleeps between walks, each walk needs another thread to wake it.
func (w *Waits) timedWalk(one *census, buf []byte, since time.Duration) (cost time.Duration, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	began := threadCPU()
	if err := w.walk(one, buf); err != nil {
		return 0, err
	}
	w.add(one.waits, one.threads, since)
	cost = threadCPU() - began
	t := w.sums.Lock()
	defer w.sums.Unlock()
	t.walked.CPU += cost.Seconds()
	return cost, nil
}

// pace returns the mean interval between walks, given their cost and their share of a core, slowed down by times as far as
// slowest allows.
func pace(cost time.Duration, share float64, times int64) time.Duration {
	usual := max(walkEvery, time.Duration(float64(cost)/share))
	return max(usual, min(slowest, usual*time.Duration(max(1, times))))
}

// Slow makes walks up to that many times less often than their cost asks for.
func (w *Waits) Slow(times int) { w.slow.Store(int64(times)) }

// usual is the median. CPU time that a hypervisor takes away during a walk counts as the walk's; one
// such walk alone would delay the next by minutes.
func usual(v [3]time.Duration) time.Duration {
	slices.Sort(v[:])
	return v[1]
}

// wait is a Wait as encoded by the program.
type wait struct {
	process [commLen]byte
	nr      int32
	state   uint32
	// at is the address of a futex, or the inode of a file on device; 0 without either.
	at          uint64
	device, pid uint32
	group       uint64 // the control group; 0 where that is not known
}

// object is what the wait is for; false where that is not known.
func (k wait) object() (object, bool) {
	o := object{k.process, k.state, k.nr, k.at, k.pid}
	if o.isFile() {
		o.owner = k.device
	}
	return o, k.at != 0 && o.owner != 0
}

// census are the threads of one walk.
type census struct {
	waits   map[wait]uint64
	threads uint64 // those that wait
	// walkers are the CPUs that threads of this process have, and when they got them, by the clock of that run queue.
	walkers map[uint32]uint64
	queued  []queued
}

// queued is a thread on the run queue of a CPU, and since when, by the clock of that run queue.
type queued struct {
	wait
	cpu   uint32
	since uint64
}

// mostQueued is how many threads on run queues a census remembers.
const mostQueued = 4096

func newCensus() *census {
	return &census{waits: map[wait]uint64{}, walkers: map[uint32]uint64{}}
}

// walk takes a census of all threads.
func (w *Waits) walk(one *census, buf []byte) error {
	r, err := w.iter.Open()
	if err != nil {
		return fmt.Errorf("walk over all threads: %w", err)
	}
	defer r.Close()
	one.clear()
	for rest := 0; ; {
		n, err := r.Read(buf[rest:])
		n += rest
		whole := n / recordBytes * recordBytes
		one.read(buf[:whole])
		rest = copy(buf, buf[whole:n])
		if errors.Is(err, io.EOF) {
			one.giveBack()
			return nil
		}
		if err != nil {
			return fmt.Errorf("walk over all threads: %w", err)
		}
	}
}

func (c *census) clear() {
	clear(c.waits)
	clear(c.walkers)
	c.threads, c.queued = 0, c.queued[:0]
}

// worth is the share of a core that walks may use after one with this result.
func worth(one map[wait]uint64) float64 {
	share := calmShare
	for k := range one {
		switch waitStates[k.state] {
		case "lock":
			return closeShare
		case "cpu", "disk":
			share = walkShare
		}
	}
	return share
}

// read adds the records of a part of a walk.
func (c *census) read(b []byte) {
	for ; len(b) >= recordBytes; b = b[recordBytes:] {
		k := wait{nr: int32(binary.NativeEndian.Uint32(b[commLen:])), state: binary.NativeEndian.Uint32(b[commLen+4:]),
			at: binary.NativeEndian.Uint64(b[commLen+8:]), device: binary.NativeEndian.Uint32(b[commLen+16:]),
			pid: binary.NativeEndian.Uint32(b[commLen+20:]), group: binary.NativeEndian.Uint64(b[commLen+24:])}
		copy(k.process[:takenByte], b)
		if k.state == walker {
			c.walkers[k.device] = k.at
			continue
		}
		if k.state == onRunQueue || k.state == kernelThread {
			q := queued{cpu: k.device, since: k.at}
			k.at, k.device = 0, 0
			q.wait = k
			if len(c.queued) < mostQueued {
				c.queued = append(c.queued, q)
			}
		}
		if k.state < uint32(len(waitStates)) {
			c.waits[k]++
		}
		if k.state < onCPU {
			c.threads++
		}
	}
}

// giveBack gives the CPUs that threads of this process have to the threads that would have them without the walk: each was
// counted as one that waits for a CPU, and now counts as one that runs.
func (c *census) giveBack() {
	for cpu, arrived := range c.walkers {
		var most uint64
		var next *queued
		for i := range c.queued {
			if q := &c.queued[i]; q.cpu == cpu && (next == nil || q.rank(arrived) > most) {
				next, most = q, q.rank(arrived)
			}
		}
		if next == nil || next.state != onRunQueue {
			continue
		}
		if c.waits[next.wait]--; c.waits[next.wait] == 0 {
			delete(c.waits, next.wait)
		}
		running := next.wait
		running.state = onCPU
		c.waits[running]++
	}
}

// rank says how likely a thread would have the CPU of one that arrived there then: first the one that was displaced, so the
// last that was queued until then, and else the first that was queued later.
func (q *queued) rank(arrived uint64) uint64 {
	if q.since <= arrived {
		return 1<<63 | q.since
	}
	return 1<<63 - q.since
}

// add counts a walk for the time since the previous one.
func (w *Waits) add(one map[wait]uint64, threads uint64, since time.Duration) {
	t := w.sums.Lock()
	defer w.sums.Unlock()
	t.err = nil
	t.walked.Walks++
	t.walked.Threads += threads
	t.walked.Seconds += since.Seconds()
	at := w.host.Now()
	for k, n := range one {
		t.units.add(k, float64(n)*since.Seconds(), at)
		if k.state == onCPU {
			continue
		}
		key := Wait{label(k.process[:], 0), waitStates[k.state], ""}
		if k.nr >= 0 {
			key.Call = SyscallName(int(k.nr))
		}
		s := t.sums[key]
		if s == nil && len(t.sums) >= maxWaits {
			t.folded += float64(n) * since.Seconds()
			key.Process, key.Call = Other, Other
			s = t.sums[key]
		}
		if s == nil {
			s = &waited{}
			t.sums[key] = s
		}
		s.seconds += float64(n) * since.Seconds()
		s.at = at
		if o, ok := k.object(); ok {
			t.objects.add(o, n, since.Seconds(), at)
		}
	}
}

// Waited emits the time in seconds that threads have waited since opening, and
// returns how much of it was folded. The error says why walks do not work now.
func (w *Waits) Waited(emit func(Wait, float64)) (folded float64, err error) {
	t := w.sums.Lock()
	defer w.sums.Unlock()
	at := w.host.Now()
	crowded := len(t.sums) > maxWaits/4*3
	byName := func(a, b Wait) int {
		return cmp.Or(cmp.Compare(a.Process, b.Process), cmp.Compare(a.State, b.State), cmp.Compare(a.Call, b.Call))
	}
	for _, k := range slices.SortedFunc(maps.Keys(t.sums), byName) {
		if crowded && at.Sub(t.sums[k].at) > mostIdle {
			delete(t.sums, k)
			continue
		}
		emit(k, t.sums[k].seconds)
	}
	return t.folded, t.err
}

// Walked returns the totals of the walks until now.
func (w *Waits) Walked() Walked {
	t := w.sums.Lock()
	defer w.sums.Unlock()
	return t.walked
}
