package sources

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/locked"
	"github.com/teescope/teescope/internal/machine"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
)

// perfSet is a group of events that the hardware counts together, so their ratios are
// right, with their metrics for the machine, for the processes of a name, and for one
// process.
type perfSet struct {
	events             []host.PerfEvent
	host, process, pid []*metric.Desc
}

// descs lists the set's metrics.
func (s perfSet) descs() []*metric.Desc { return slices.Concat(s.host, s.process, s.pid) }

// perfCounters is the Reader of performance counters in counting mode: for every CPU,
// and for the processes that it is narrowed to.
type perfCounters struct {
	// note is an error of every reading, or nil: what the counters cannot see.
	note error
	// scope is its narrowing from the next search for processes on.
	scope  atomic.Pointer[probe.Scope]
	groups locked.Value[perfGroups]
}

// perfGroups are the open counters, and what they have counted.
type perfGroups struct {
	host *host.Host
	sets []perfSet
	// explain adds advice to an error of opening a counter.
	explain func(error) error

	cpus    map[int]counting
	machine [][]float64 // by set and event
	has     []bool      // by set: whether some CPU ever had it
	failed  error       // why a set could not be opened in this reading
	watched watched

	// The current reading, over all groups; and whether any value was ever
	// extrapolated.
	enabled, running time.Duration
	estimated        bool
}

// openPerf opens the counters of every CPU, and fails if none can be opened.
func openPerf(h *host.Host, sets []perfSet, explain func(error) error) (*perfCounters, error) {
	g := perfGroups{host: h, sets: sets, explain: explain, cpus: map[int]counting{}, machine: zeros(sets), has: make([]bool, len(sets))}
	err := g.openCPUs()
	if err == nil && !slices.Contains(g.has, true) {
		err = explain(cmp.Or(g.failed, errors.New("no CPU is online")))
	}
	if err != nil {
		return nil, errors.Join(err, g.close())
	}
	return &perfCounters{groups: locked.New(g)}, nil
}

// zeros is a value for each event.
func zeros(sets []perfSet) [][]float64 {
	out := make([][]float64, len(sets))
	for i, s := range sets {
		out[i] = make([]float64, len(s.events))
	}
	return out
}

// Read implements probe.Reader.
func (p *perfCounters) Read(_ context.Context, emit func(metric.Sample)) error {
	g := p.groups.Lock()
	defer p.groups.Unlock()
	g.enabled, g.running, g.failed = 0, 0, nil
	err := g.openCPUs()
	for _, c := range g.cpus {
		g.count(c, g.machine)
	}
	err = cmp.Or(err, g.countProcesses(p.scope.Load()))
	trust := metric.Measured
	if g.estimated {
		trust = metric.Estimated
	}
	send := func(descs []*metric.Desc, values []float64, labels ...string) {
		for i, d := range descs {
			emit(metric.Sample{Desc: d, Labels: labels, Value: values[i], Trust: trust})
		}
	}
	for i, s := range g.sets {
		if !g.has[i] {
			continue
		}
		send(s.host, g.machine[i])
		for _, key := range g.watched.order {
			if key.pid == "" {
				send(s.process, g.watched.totals[key][i], key.process)
			} else {
				send(s.pid, g.watched.totals[key][i], key.pid, key.process)
			}
		}
	}
	if g.enabled > 0 {
		emitter(emit).send(probe.Coverage, g.running.Seconds()/g.enabled.Seconds())
	}
	if n := g.watched.folded(); n > 0 {
		emitter(emit).send(probe.Folded, n)
	}
	if g.failed != nil {
		err = cmp.Or(err, g.explain(g.failed))
	}
	return cmp.Or(err, p.note)
}

// Close implements probe.Reader.
func (p *perfCounters) Close() error {
	held := p.groups.Lock()
	defer p.groups.Unlock()
	return held.close()
}

func (p *perfGroups) close() error {
	var errs []error
	for _, c := range p.cpus {
		errs = append(errs, c.Close())
	}
	for _, w := range p.watched.now {
		errs = append(errs, w.Close())
	}
	p.cpus, p.watched = nil, watched{}
	return errors.Join(errs...)
}

// openCPUs opens the groups of CPUs that came online, and closes those of CPUs that
// went offline; their counts remain in the sum.
func (p *perfGroups) openCPUs() error {
	online, err := machine.OnlineCPUs(p.host)
	if err != nil {
		return err
	}
	for _, cpu := range online {
		if p.cpus[cpu] == nil {
			p.cpus[cpu] = make(counting, len(p.sets))
		}
		p.open(p.cpus[cpu], host.PerfTarget{CPU: cpu})
	}
	for cpu, c := range p.cpus {
		if !slices.Contains(online, cpu) {
			p.count(c, p.machine)
			err = cmp.Or(err, c.Close())
			delete(p.cpus, cpu)
		}
	}
	return err
}

// counting holds the open groups of one CPU or thread: one for each set, nil if it is
// not open.
type counting []*openGroup

// openGroup is an open group and its last values.
type openGroup struct {
	host.PerfGroup
	last host.PerfReading
}

// open opens the closed groups of a target. A CPU that is going offline (ENODEV) and a
// thread that has ended (ESRCH) are not errors.
func (p *perfGroups) open(c counting, target host.PerfTarget) {
	for i, s := range p.sets {
		if c[i] != nil {
			continue
		}
		g, err := p.host.Perf(target, s.events...)
		if err == nil {
			c[i] = &openGroup{PerfGroup: g}
			p.has[i] = true
		} else if !errors.Is(err, unix.ENODEV) && !errors.Is(err, unix.ESRCH) {
			p.failed = cmp.Or(p.failed, err)
		}
	}
}

// count adds to each of totals what the groups counted since the last time. If they
// shared the hardware's counters with others, it is extrapolated from the time in which
// they had them. A group that had none waits until it has: the growth then stands for
// the whole time. So totals never fall. A group that stops counting is closed, and
// opened again in the next reading.
func (p *perfGroups) count(c counting, totals ...[][]float64) {
	for i, g := range c {
		if g == nil {
			continue
		}
		now, err := g.Read()
		if err != nil || len(now.Values) != len(p.sets[i].events) {
			_ = g.Close()
			c[i] = nil
			continue
		}
		enabled, running := now.Enabled-g.last.Enabled, now.Running-g.last.Running
		p.enabled += max(0, enabled)
		if running <= 0 {
			continue
		}
		p.running += min(running, enabled)
		scale := 1.0
		if running < enabled {
			scale = enabled.Seconds() / running.Seconds()
			p.estimated = true
		}
		for k, v := range now.Values {
			more := float64(v - min(v, g.lastValue(k)))
			for _, t := range totals {
				t[i][k] += more * scale
			}
		}
		g.last = now
	}
}

// lastValue is the last value of an event, 0 before the first reading.
func (g *openGroup) lastValue(event int) uint64 {
	if event < len(g.last.Values) {
		return g.last.Values[event]
	}
	return 0
}

// Close closes the groups.
func (c counting) Close() error {
	var errs []error
	for _, g := range c {
		if g != nil {
			errs = append(errs, g.Close())
		}
	}
	return errors.Join(errs...)
}
