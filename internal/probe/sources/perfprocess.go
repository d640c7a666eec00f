package sources

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/procfs"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/probe/bpf"
)

const (
	// maxWatched and maxDescriptors bound what a wide filter opens.
	maxWatched     = 64
	maxDescriptors = 1024
	// maxNames bounds the series: processes that end leave theirs behind.
	maxNames = 256
)

// watched is the processes that performance counters are narrowed to.
type watched struct {
	scope probe.Scope
	now   map[int]*watchedProcess
	// totals are by set and event; order is that in which the keys came.
	totals map[processKey][][]float64
	order  []processKey
}

// processKey is the label values of a process's series. pid is empty but for
// processes that were asked for by their id: those are in no sum by name.
type processKey struct{ process, pid string }

// watchedProcess is a process with the counters of its threads. Threads that
// they make are counted with them.
type watchedProcess struct {
	key     processKey
	started uint64 // ticks after boot: a process id alone may be another's by now
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

// Adjust implements probe.Adjustable. Processes begin to be counted at once;
// what could not be is said by the next reading.
func (p *perfCounters) Adjust(_ string, scope probe.Scope) error {
	p.watched.scope = scope
	_ = p.countProcesses()
	return nil
}

// candidate is a running process that the scope holds.
type candidate struct {
	pid     int
	key     processKey
	started uint64
}

// countProcesses brings the watched processes up to date and adds what they
// counted since the last time. A process that has ended adds its last.
func (p *perfCounters) countProcesses() error {
	w := &p.watched
	for _, x := range w.now {
		totals := p.totals(x.key)
		for _, t := range x.threads {
			p.count(t, totals)
		}
	}
	found, err := p.candidates()
	if err != nil {
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
		x.key = found[i].key // it may have a new name
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
		if xerr != nil {
			err = cmp.Or(err, xerr)
			continue
		}
		if w.now == nil {
			w.now = map[int]*watchedProcess{}
		}
		w.now[c.pid] = x
		p.totals(x.key)
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

// totals are the sums of a series, which it makes where it is new.
func (p *perfCounters) totals(key processKey) [][]float64 {
	w := &p.watched
	if _, ok := w.totals[key]; !ok && len(w.order) >= maxNames {
		key = processKey{process: bpf.Other}
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

// watch opens counters for the threads of a process, with at most so many
// descriptors.
func (p *perfCounters) watch(c candidate, fds int) (*watchedProcess, error) {
	dir := fmt.Sprintf("/proc/%d/task", c.pid)
	tasks, err := p.host.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	each := 0
	for _, s := range p.sets {
		each += len(s.events)
	}
	x := &watchedProcess{key: c.key, started: c.started}
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
		x.threads = append(x.threads, t)
		x.fds += each
	}
	return x, nil
}

// candidates lists the processes that the scope holds, by id; without a scope
// there are none. Kernel threads do nothing for a process.
func (p *perfCounters) candidates() ([]candidate, error) {
	scope := p.watched.scope
	if scope.Process == nil && len(scope.PIDs) == 0 && scope.Cgroup == nil && scope.Container == nil {
		return nil, nil
	}
	proc, err := procfs.NewFS(p.host.Path("/proc"))
	if err != nil {
		return nil, err
	}
	var all procfs.Procs
	if len(scope.PIDs) == 0 {
		if all, err = proc.AllProcs(); err != nil {
			return nil, err
		}
	}
	for _, pid := range scope.PIDs {
		if x, err := proc.Proc(pid); err == nil { // else it has ended
			all = append(all, x)
		}
	}
	var out []candidate
	for _, x := range all {
		const kernelThread = 0x00200000 // PF_KTHREAD of include/linux/sched.h
		stat, err := x.Stat()
		if err != nil || stat.Flags&kernelThread != 0 {
			continue
		}
		name := watchedName(stat.Comm)
		if scope.Process != nil && !scope.Process.MatchString(name) || !inCgroup(x, scope) {
			continue
		}
		c := candidate{pid: x.PID, key: processKey{process: name}, started: stat.Starttime}
		if len(scope.PIDs) > 0 {
			c.key.pid = strconv.Itoa(x.PID)
		}
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b candidate) int { return cmp.Compare(a.pid, b.pid) })
	return out, nil
}

// watchedName is the label value of a process's name, as the programs in the
// kernel have it.
func watchedName(comm string) string {
	if comm == "" {
		return bpf.Unnamed
	}
	return strings.ToValidUTF8(comm, "\uFFFD")
}

// inCgroup reports whether a process is in a control group and a container that
// the scope holds.
func inCgroup(x procfs.Proc, scope probe.Scope) bool {
	if scope.Cgroup == nil && scope.Container == nil {
		return true
	}
	groups, err := x.Cgroups()
	if err != nil {
		return false
	}
	is := func(test func(path string) bool) bool {
		return slices.ContainsFunc(groups, func(g procfs.Cgroup) bool { return test(g.Path) })
	}
	return (scope.Cgroup == nil || is(scope.Cgroup.MatchString)) &&
		(scope.Container == nil || is(func(path string) bool {
			name := containerName(path)
			return name != "" && scope.Container.MatchString(name)
		}))
}
