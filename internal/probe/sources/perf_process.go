package sources

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/machine"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/probe/bpf"
)

const (
	// maxWatched and maxDescriptors limit what a wide filter opens.
	maxWatched     = 64
	maxDescriptors = 1024
	// maxNames bounds the series: ended processes leave theirs behind.
	maxNames = 256
)

// watched holds the processes that performance counters are narrowed to.
type watched struct {
	// scope is the narrowing at the last search for processes.
	scope probe.Scope
	now   map[int]*watchedProcess
	// totals are by set and event; order is the order of new keys.
	totals map[processKey][][]float64
	order  []processKey
}

// processKey holds the label values of a series of processes. pid is empty for the sum
// over a name, which includes processes selected by id.
type processKey struct{ process, pid string }

// watchedProcess is a process with the counters of its threads. Threads that
// they make are counted with them.
type watchedProcess struct {
	name    string
	started uint64 // ticks after boot: a process id alone may have been reused
	threads []counting
	fds     int
	left    int // threads without counters, because there were too many
}

// Close closes the counters of all threads.
func (w *watchedProcess) Close() error {
	var errs []error
	for _, t := range w.threads {
		errs = append(errs, t.Close())
	}
	return errors.Join(errs...)
}

// Adjust implements probe.Adjustable. Processes are counted at once; the next reading
// reports those that could not be.
func (p *perfCounters) Adjust(_ string, scope probe.Scope) error {
	p.scope.Store(&scope)
	if g := p.groups.TryLock(); g != nil { // else a reading that hangs would block this too
		defer p.groups.Unlock()
		_ = g.countProcesses(p.scope.Load())
	}
	return nil
}

// candidate is a running process within the scope.
type candidate struct {
	pid     int
	name    string
	started uint64
}

// countProcesses updates the watched processes for a scope, nil for none, and adds what
// they counted since the last time. An ended process adds its last counts.
func (p *perfGroups) countProcesses(scope *probe.Scope) error {
	w := &p.watched
	for pid, x := range w.now {
		totals := p.series(pid, x.name)
		for _, t := range x.threads {
			p.count(t, totals...)
		}
	}
	found, err := p.candidates(scope)
	if found == nil && err != nil {
		return err
	}
	fds := 0
	for pid, x := range w.now {
		i := slices.IndexFunc(found, func(c candidate) bool { return c.pid == pid && c.started == x.started })
		if i < 0 {
			err = cmp.Or(err, x.Close())
			delete(w.now, pid)
			continue
		}
		x.name = found[i].name // it may have been renamed
		fds += x.fds
	}
	left := 0
	for _, c := range found {
		if w.now[c.pid] != nil {
			left += w.now[c.pid].left
			continue
		}
		if len(w.now) == maxWatched {
			left++
			continue
		}
		x, xerr := p.watch(c, maxDescriptors-fds)
		if xerr != nil || x.fds == 0 && x.left == 0 { // refused, or ended
			err = cmp.Or(err, xerr)
			continue
		}
		if w.now == nil {
			w.now = map[int]*watchedProcess{}
		}
		w.now[c.pid] = x
		p.series(c.pid, c.name) // at 0 from now on
		fds += x.fds
		left += x.left
	}
	if err == nil && left > 0 {
		err = &probe.Problem{
			Err:    fmt.Errorf("%d processes or threads that match have no counters of their own: there are at most %d processes with %d counters; the host's counters have them", left, maxWatched, maxDescriptors),
			Remedy: "narrow the source to fewer processes",
		}
	}
	return err
}

// series are the sums that a process counts in.
func (p *perfGroups) series(pid int, name string) [][][]float64 {
	out := [][][]float64{p.totals(processKey{process: name})}
	if slices.Contains(p.watched.scope.PIDs, pid) {
		if t := p.totals(processKey{name, strconv.Itoa(pid)}); t != nil {
			out = append(out, t)
		}
	}
	return out
}

// totals returns the sums of a series, creating a new one. When there are too many,
// names share one, and single processes have none.
func (p *perfGroups) totals(key processKey) [][]float64 {
	w := &p.watched
	if _, ok := w.totals[key]; !ok && len(w.order) >= maxNames {
		if key.pid != "" {
			return nil
		}
		key.process = bpf.Other
	}
	if t, ok := w.totals[key]; ok {
		return t
	}
	if w.totals == nil {
		w.totals = map[processKey][][]float64{}
	}
	t := zeros(p.sets)
	w.totals[key] = t
	w.order = append(w.order, key)
	return t
}

// folded is how many events series without a place of their own have counted.
func (w *watched) folded() (n float64) {
	for _, set := range w.totals[processKey{process: bpf.Other}] {
		for _, v := range set {
			n += v
		}
	}
	return n
}

// watch opens counters for the threads of a process, with at most that many
// descriptors. If nothing of a process can be counted, it has no series, and the next
// reading tries again and says why.
func (p *perfGroups) watch(c candidate, fds int) (*watchedProcess, error) {
	dir := fmt.Sprintf("/proc/%d/task", c.pid)
	tasks, err := p.host.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	each := 0
	for _, s := range p.sets {
		each += len(s.events)
	}
	x := &watchedProcess{name: c.name, started: c.started}
	for _, task := range tasks {
		thread, err := strconv.Atoi(task.Name())
		if err != nil {
			return nil, errors.Join(fmt.Errorf("list %s: %w", dir, err), x.Close())
		}
		if x.fds+each > fds {
			x.left++
			continue
		}
		t := make(counting, len(p.sets))
		p.open(t, host.PerfTarget{Thread: thread})
		if slices.ContainsFunc(t, func(g *openGroup) bool { return g != nil }) {
			x.threads = append(x.threads, t)
			x.fds += each
		}
	}
	return x, nil
}

// candidates lists the processes within the scope, by id; without a scope there are
// none. Kernel threads do nothing for a process. Ended and unreadable processes are
// left out; the error lists those whose /proc/PID/stat is bad.
func (p *perfGroups) candidates(now *probe.Scope) ([]candidate, error) {
	if now != nil {
		p.watched.scope = *now
	}
	scope := p.watched.scope
	if scope.Process == nil && len(scope.PIDs) == 0 && scope.Cgroup == nil && scope.Container == nil {
		return nil, nil
	}
	search := memberSearch{host: p.host, scope: scope}
	pids, err := search.candidates()
	if err != nil {
		return nil, err
	}
	out := []candidate{}
	var bad machine.Faults
	for _, pid := range pids {
		file := fmt.Sprintf("/proc/%d/stat", pid)
		text, err := p.host.ReadString(file)
		if err != nil {
			continue
		}
		name, started, ok, err := parseStat(file, text)
		bad.Add(err)
		if !ok || scope.Process != nil && !scope.Process.MatchString(metric.Label(name)) {
			continue
		}
		in, err := search.inScope(pid)
		if err != nil && !processGone(err) {
			bad.Add(err)
		}
		if in {
			out = append(out, candidate{pid, name, started})
		}
	}
	slices.SortFunc(out, func(a, b candidate) int { return cmp.Compare(a.pid, b.pid) })
	return out, bad.Err()
}

// parseStat reads the name of a process, as the programs in the kernel have it, and its
// start in ticks after boot from /proc/PID/stat (proc_pid_stat(5)). ok is false for a
// kernel thread, whose flags have PF_KTHREAD.
func parseStat(file, s string) (name string, started uint64, ok bool, err error) {
	const flags, start, kernelThread = 9, 22, 0x00200000
	kind, ferr := machine.ParseProcess(file, s, flags)
	began, err := machine.ParseProcess(file, s, start)
	if err != nil || kind[0]&kernelThread != 0 {
		return "", 0, false, err
	}
	first, last := strings.IndexByte(s, '('), strings.LastIndexByte(s, ')') // the name may hold anything
	if first < 0 || last < first {
		return "", 0, false, fmt.Errorf("parse %s: no command in parentheses", file)
	}
	if name = s[first+1 : last]; name == "" {
		name = bpf.Unnamed
	}
	return name, began[0], true, ferr // a process of unknown kind is most likely none of the kernel
}
