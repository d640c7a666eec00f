package sources

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/machine"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/tee"
)

var (
	statCPU = counter("tee_process_stat_cpu_seconds_total",
		"CPU time in seconds since the source was switched on, by process name, from /proc/PID/stat in ticks of 10 ms. tee_process_cpu_seconds_total is exact, but needs root.",
		"process")
	statWait = counter("tee_process_stat_wait_seconds_total",
		"Time in seconds since the source was switched on that threads which could run waited for a CPU, summed over the threads of a process name, from /proc/PID/task/TID/schedstat.",
		"process")
)

// processTimes is for those who may not load programs into the kernel, and for the second before these are loaded.
var processTimes = probe.Source{
	Name:    "process_times",
	Doc:     "CPU time and waiting for a CPU by process, from files that every user can read",
	Metrics: []*metric.Desc{statCPU, statWait},
	OptIn:   true,
	Kernels: "waiting needs CONFIG_SCHED_INFO",
	Cost:    "a reading opens one file for each process, and one more for each thread of the processes that ran since the last reading, up to 10,000 processes. Waiting is not read for processes with more than 256 threads, and for threads beyond 50,000 in all",
	Blind:   "the time between the last reading of a process and its end; the waiting of threads that have ended; processes that /proc hides (hidepid)",
	Open: func(h *host.Host, _ []tee.Facts) (probe.Reader, error) {
		up, err := h.ReadString("/proc/uptime")
		if err != nil {
			return nil, err
		}
		seconds, _, _ := strings.Cut(up, " ")
		at, err := metric.ParseNumber(seconds)
		if err != nil {
			return nil, fmt.Errorf("parse /proc/uptime: %.40q does not begin with a number of seconds", up)
		}
		return &timesReader{host: h, opened: uint64(max(0, at) * machine.TicksPerSecond), processes: map[int]taskTimes{}, names: map[string]*nameTimes{}}, nil
	},
}

const (
	// mostTimed and mostTimedThreads bound what a reading reads.
	mostTimed        = 10_000
	mostTimedThreads = 256
	// mostTimedWaits bounds what is remembered: the waits of so many threads.
	mostTimedWaits = 50_000
	// forgetTimes is after how many readings without a living process a name is forgotten.
	forgetTimes = 60
	// kernelThread is PF_KTHREAD of the kernel's include/linux/sched.h.
	kernelThread = 0x00200000
)

// timesReader is the Reader of process_times.
type timesReader struct {
	host      *host.Host
	opened    uint64 // ticks since boot
	round     int
	processes map[int]taskTimes
	names     map[string]*nameTimes
	remembers int // threads in processes
}

// taskTimes is what a process has used until a reading.
type taskTimes struct {
	started, ticks uint64
	waited         threadWaits // of its living threads
	asked          bool        // waited was read
	round          int
}

// threadWaits are how long the threads of a process have waited for a CPU in their lives, in ns, by thread.
type threadWaits map[int]uint64

// nameTimes is what the processes of a name have used since the source was opened, in seconds.
type nameTimes struct {
	cpu, wait float64
	runs      bool // it is known how long they ran
	waits     bool // the kernel says how long they wait
	many      bool // not all threads of its processes could be read, so how long they wait is not known
	round     int  // the last one with a living process
}

// FromZero implements probe.FromZero: what ran before does not count.
func (*timesReader) FromZero() {}

// Close implements probe.Reader.
func (*timesReader) Close() error { return nil }

// Read implements probe.Reader.
func (r *timesReader) Read(_ context.Context, emit func(metric.Sample)) error {
	entries, err := r.host.ReadDir("/proc")
	if err != nil {
		return err
	}
	r.round++
	var bad machine.Faults
	n := 0
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if n++; n > mostTimed {
			bad.Add(fmt.Errorf("there are more than %d processes; the others are left out", mostTimed))
			break
		}
		if err := r.readProcess(pid); !processGone(err) {
			bad.Add(err)
		}
	}
	for pid, p := range r.processes {
		if p.round != r.round {
			r.remembers -= len(p.waited)
			delete(r.processes, pid)
		}
	}
	out := emitter(emit)
	for _, name := range slices.Sorted(maps.Keys(r.names)) {
		t := r.names[name]
		if r.round-t.round > forgetTimes {
			delete(r.names, name)
			continue
		}
		if t.runs {
			out.send(statCPU, t.cpu, name)
		}
		switch {
		case t.many:
			bad.Add(fmt.Errorf("the time that %s waits for a CPU is unknown: one of its processes has more than %d threads, or there are more than %d threads in all", name, mostTimedThreads, mostTimedWaits))
		case t.waits:
			out.send(statWait, t.wait, name)
		}
	}
	return bad.Err()
}

// readProcess adds what a process has used since the last reading; of one that the first reading finds, nothing.
func (r *timesReader) readProcess(pid int) error {
	file := fmt.Sprintf("/proc/%d/stat", pid)
	text, err := r.host.ReadString(file)
	if err != nil {
		return err
	}
	start, err := machine.ParseProcess(file, text, 22)
	if err != nil {
		return err
	}
	// One bad field costs only what it says: a process of unknown kind is most likely none of the kernel.
	flags, bad := machine.ParseProcess(file, text, 9)
	used, unread := machine.ParseProcess(file, text, 14, 15) // utime, stime
	now := taskTimes{started: start[0], round: r.round}
	if unread == nil {
		now.ticks = used[0] + used[1]
	}
	bad = errors.Join(bad, unread)
	was, known := r.processes[pid]
	if known = known && was.started == now.started; !known {
		was = taskTimes{started: now.started, ticks: now.ticks, round: r.round}
		if now.started >= r.opened { // it has used nothing before
			was.ticks, was.asked = 0, true
		}
	}
	if unread != nil { // the next reading has it
		now.ticks = was.ticks
	}
	now.waited, now.asked = was.waited, was.asked
	defer func() {
		r.remembers += len(now.waited) - len(r.processes[pid].waited)
		r.processes[pid] = now
	}()
	kind := uint64(0)
	if len(flags) > 0 {
		kind = flags[0]
	}
	name := statName(text, kind)
	if now.ticks <= was.ticks && known && unread == nil {
		if t := r.names[name]; t != nil {
			t.round = r.round
		}
		return bad // it has not run, so what it waited for still goes on
	}
	waited, err := r.waited(pid, mostTimedWaits-r.remembers+len(was.waited))
	many := errors.Is(err, errManyThreads)
	counts := err == nil
	switch {
	case counts:
		now.waited, now.asked = waited, true
	case many:
		now.waited, now.asked, err = nil, false, nil
	case errors.Is(err, fs.ErrNotExist):
		err = nil
	}
	err = errors.Join(bad, err)
	if now.ticks <= was.ticks && unread == nil {
		return err
	}
	t := r.names[name]
	if t == nil {
		t = &nameTimes{}
		r.names[name] = t
	}
	t.round = r.round
	t.many = t.many || many
	t.runs = t.runs || unread == nil
	t.cpu += float64(now.ticks-was.ticks) / machine.TicksPerSecond
	if counts && was.asked {
		t.waits = true
		t.wait += float64(waited.since(was.waited)) / 1e9
	}
	return err
}

// since is how much longer the threads have waited than before. All were read then, so one that is new has begun since, and
// its whole wait counts; so does that of a new thread with the number of one that has ended.
func (w threadWaits) since(before threadWaits) (ns uint64) {
	for thread, now := range w {
		if was := before[thread]; was <= now {
			now -= was
		}
		ns += now
	}
	return ns
}

// statName is the name of a process as other series have it: kernel threads by the part before the slash.
func statName(stat string, flags uint64) string {
	name := stat[strings.IndexByte(stat, '(')+1 : max(strings.LastIndexByte(stat, ')'), strings.IndexByte(stat, '(')+1)]
	if flags&kernelThread != 0 {
		name, _, _ = strings.Cut(name, "/")
	}
	return metric.Label(name)
}

// errManyThreads is why it is not known how long a process waits.
var errManyThreads = errors.New("too many threads")

// waited is how long each living thread of a process has waited for a CPU. Of a process with more threads than there is room
// for, nothing is known: a part of them would change with each thread that ends.
func (r *timesReader) waited(pid, room int) (threadWaits, error) {
	folder := fmt.Sprintf("/proc/%d/task", pid)
	threads, err := r.host.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	if len(threads) > min(mostTimedThreads, room) {
		return nil, errManyThreads
	}
	out := threadWaits{}
	for _, t := range threads {
		thread, err := strconv.Atoi(t.Name())
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", folder, err)
		}
		file := folder + "/" + t.Name() + "/schedstat"
		text, err := r.host.ReadString(file)
		if processGone(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		f := strings.Fields(text)
		if len(f) != 3 {
			return nil, fmt.Errorf("parse %s: %.40q: want three numbers", file, text)
		}
		if out[thread], err = strconv.ParseUint(f[1], 10, 64); err != nil {
			return nil, fmt.Errorf("parse %s: %w", file, err)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s has no schedstat: %w", folder, fs.ErrNotExist)
	}
	return out, nil
}
