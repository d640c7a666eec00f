package sources

import (
	"context"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/locked"
	"github.com/teescope/teescope/internal/machine"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/probe/bpf"
	"github.com/teescope/teescope/internal/tee"
)

// retiredEvents keeps sums exact where series end.
var retiredEvents = counter("teescope_retired_events_total",
	"Events of process names whose series ended, because the names were idle for minutes while the table of names was nearly full. A source's series and this value add up to all events of the source.",
	"source")

// processNeeds are the needs of the sources that count by process.
var processNeeds = []probe.Need{
	{Capability: "cap_bpf", For: "to load the programs", Open: true},
	{Capability: "cap_perfmon", For: "to load programs that read the kernel's structures", Open: true},
	{Capability: "cap_sys_ptrace", For: "to narrow the source to control groups or containers if /proc hides other users' processes (hidepid)", Optional: true},
}

// byProcess is the Reader of a program that counts by process. It can be narrowed and
// has levels.
type byProcess struct {
	counters
	table  bpf.Table
	host   *host.Host
	levels []probe.Level
	// narrowing is locked, as Adjust may be called while Read runs.
	narrowing locked.Value[narrowing]
}

// narrowing is the scope of a source, and whether the source is narrowed.
type narrowing struct {
	scope    probe.Scope
	narrowed bool
}

// openByProcess returns the Open function of such a source.
func openByProcess(p *bpf.Program, levels []probe.Level, decode func(*counters, emitter) uint64) func(*host.Host, []tee.Facts) (probe.Reader, error) {
	return func(h *host.Host, _ []tee.Facts) (probe.Reader, error) {
		c, err := p.Open(h)
		if err != nil {
			return nil, err
		}
		table := bpf.Table{Counters: c}
		return &byProcess{
			counters: counters{Counters: c, labels: map[[3]string][]string{}, decode: func(c *counters, emit emitter) uint64 {
				folded := decode(c, emit)
				emit.send(retiredEvents, float64(table.Retired()), c.label(p.Name)...)
				return folded
			}, full: "names that are idle for minutes are removed automatically; to empty the tables now, switch the source off and on"},
			table: table, host: h, levels: levels,
		}, nil
	}
}

// Read implements probe.Reader.
func (p *byProcess) Read(ctx context.Context, emit func(metric.Sample)) error {
	narrowing := p.follow()
	err := p.counters.Read(ctx, emit)
	if p.table.Recycle() != nil && err != nil {
		// Only if the table is full does it matter that it stays so.
		err = errors.Join(err, errors.New("newer names cannot be added to the table, because changing a map needs CAP_BPF before Linux 5.19"))
	}
	return errors.Join(err, narrowing)
}

// Adjust implements probe.Adjustable.
func (p *byProcess) Adjust(level string, scope probe.Scope) error {
	n := p.narrowing.Lock()
	same := slices.Equal(scope.PIDs, n.scope.PIDs) && scope.Process == n.scope.Process &&
		scope.Cgroup == n.scope.Cgroup && scope.Container == n.scope.Container
	alone := len(n.scope.PIDs) > 0 && len(scope.PIDs) == 0
	n.scope = scope
	p.narrowing.Unlock()
	var err error
	if alone {
		err = p.table.Widen() // no process is counted individually any more
	}
	if !same {
		err = errors.Join(err, p.follow())
	}
	at := slices.IndexFunc(p.levels, func(l probe.Level) bool { return l.Name == level })
	return errors.Join(err, p.SetLevel(max(0, at)), p.Incomplete())
}

// follow finds the processes that the source is narrowed to now.
func (p *byProcess) follow() error {
	n := p.narrowing.Lock()
	defer p.narrowing.Unlock()
	p.table.Time(n.scope.Process)
	if len(n.scope.PIDs) == 0 && n.scope.Cgroup == nil && n.scope.Container == nil {
		if !n.narrowed {
			return nil
		}
		n.narrowed = false
		return p.table.Widen()
	}
	n.narrowed = true
	search := memberSearch{host: p.host, scope: n.scope}
	processes, err := search.candidates()
	if err != nil {
		return err
	}
	err = p.table.Narrow(processes, search.find)
	for _, pid := range n.scope.PIDs {
		if !slices.Contains(search.found, pid) {
			search.errs = append(search.errs, fmt.Errorf("process %d has ended, or is not in the selected control group or container", pid))
		}
	}
	return errors.Join(append(search.errs, err)...)
}

// memberSearch finds the processes within a scope.
type memberSearch struct {
	host  *host.Host
	scope probe.Scope
	found []int
	errs  []error
}

// candidates are the processes to ask find about.
func (s *memberSearch) candidates() ([]int, error) {
	if len(s.scope.PIDs) > 0 {
		return s.scope.PIDs, nil
	}
	entries, err := s.host.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("find the processes of a control group: %w", err)
	}
	var out []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			out = append(out, pid)
		}
	}
	return out, nil
}

// find reports whether a process is within the scope.
func (s *memberSearch) find(pid int) (bpf.Member, bool) {
	own := len(s.scope.PIDs) > 0
	if own && !slices.Contains(s.scope.PIDs, pid) {
		return bpf.Member{}, false
	}
	m := bpf.Member{Own: own, Children: !own}
	ok, err := s.inScope(pid)
	if ok {
		m.Start, err = startTime(s.host, pid)
	}
	if ok && err == nil && own {
		m.Name, err = s.host.ReadString(fmt.Sprintf("/proc/%d/comm", pid))
	}
	if err != nil && !processGone(err) {
		s.errs = append(s.errs, err)
	}
	if !ok || err != nil {
		return bpf.Member{}, false
	}
	if m.Name == "" {
		m.Name = bpf.Unnamed
	}
	s.found = append(s.found, pid)
	return m, true
}

// inScope reports whether a process is in the scope's control group and container.
func (s *memberSearch) inScope(pid int) (bool, error) {
	if s.scope.Cgroup == nil && s.scope.Container == nil {
		return true, nil
	}
	text, err := s.host.ReadString(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return false, err
	}
	groups := machine.ParseMemberships(text)
	if len(groups) == 0 {
		return false, fmt.Errorf("parse /proc/%d/cgroup: %.60q names no control group", pid, text)
	}
	return (s.scope.Cgroup == nil || slices.ContainsFunc(groups, func(g machine.Membership) bool { return s.scope.Cgroup.MatchString(g.Path) })) &&
		(s.scope.Container == nil || slices.ContainsFunc(groups, func(g machine.Membership) bool { return inContainer(g.Path, s.scope.Container) })), nil
}

// inContainer reports whether a control group is a matching container's, or below it.
func inContainer(group string, want *regexp.Regexp) bool {
	for g := path.Clean(group); g != "/" && g != "."; g = path.Dir(g) {
		if name := machine.ContainerName(g); name != "" && want.MatchString(name) {
			return true
		}
	}
	return false
}
