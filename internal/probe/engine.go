package probe

// The engine opens the sources and keeps them open. This file has its type and the opening; collect.go reads the
// sources in rounds, setting.go changes them at run time, watch.go switches those that wait for a program, and
// governor.go keeps them within the budget.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/locked"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe/budget"
	"github.com/teescope/teescope/internal/probe/estimate"
	"github.com/teescope/teescope/internal/tee"
)

// Engine holds open sources. Its methods are safe for concurrent use.
type Engine struct {
	host     *host.Host
	facts    []tee.Facts
	governor budget.Governor
	sources  locked.Value[[]*live]
	round    unique              // for who holds the lock of the sources, kept for its room
	watch    locked.Value[watch] // locked before the sources
}

type live struct {
	Status
	patient
	reader   Reader
	off      bool
	held     bool             // not started yet
	throttle *budget.Throttle // nil where the reader is not Governed
	fromZero bool             // the reader is FromZero
	lastAt   time.Time        // of the last round
	before   bool             // the round before was delivered
	estimate estimate.Estimator
	exact    *estimate.Exact // in this round
	samples  []metric.Sample // of the last reading, kept for its room
	// seen is when sight, which the source waits for, was seen last.
	seen  time.Time
	sight sight
	// logged is the last error that was logged, and when.
	logged   string
	loggedAt time.Time
}

// Open opens every source that is on, several at a time; Look opens those that wait.
// A source that fails to open is kept with its reason and not retried until it is
// switched on again.
func Open(h *host.Host, facts []tee.Facts, sources []*Source, process *metric.NamePattern) *Engine {
	e := New(h, facts, sources, process)
	_ = e.Start(func(*Source) bool { return true }) // no setting was made that one could refuse
	return e
}

// Start opens those sources that pick accepts and that are on; from then on they can be
// switched on and off. An error names settings that a source cannot follow now that it is
// open: it works without them.
func (e *Engine) Start(pick func(*Source) bool) error {
	defer e.sources.Unlock()
	var picked []*live
	for _, l := range *e.sources.Lock() {
		if !l.held || !pick(l.Source) {
			continue
		}
		l.held = false
		if !l.off {
			picked = append(picked, l)
		}
	}
	return each(picked, atOnce(), e.open)
}

// Try opens, reads once and closes every source. The engine that it returns is
// closed; its Status holds the outcome.
func Try(ctx context.Context, h *host.Host, facts []tee.Facts, sources []*Source) *Engine {
	e := New(h, facts, sources, nil)
	e.FollowProcesses()
	guarded := e.sources.Lock()
	defer e.sources.Unlock()
	_ = each(*guarded, atOnce(), func(l *live) error {
		if !l.off {
			if l.reader == nil { // Look has not opened it
				_ = e.open(l)
			}
			e.read(ctx, l, nil, new(unique).begin())
			l.Status = l.status()
		}
		return e.close(l)
	})
	return e
}

// atOnce is how many sources are opened in parallel. Opening partly computes (the
// verifier) and partly waits for the kernel.
func atOnce() int { return min(8, runtime.NumCPU()+1) }

// each calls do for all sources, at most most of them in parallel.
func each(sources []*live, most int, do func(*live) error) error {
	var all sync.WaitGroup
	room := make(chan struct{}, most)
	errs := make([]error, len(sources))
	for i, l := range sources {
		room <- struct{}{}
		all.Go(func() {
			defer func() { <-room }()
			errs[i] = do(l)
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// New returns an engine without open sources. Settings may be made before Start.
func New(h *host.Host, facts []tee.Facts, sources []*Source, process *metric.NamePattern) *Engine {
	var all []*live
	w := watch{processes: Processes{Host: h}, found: map[int][]string{}, hidden: map[int]bool{}}
	for _, s := range sources {
		l := &live{Status: Status{Source: s, Scope: Scope{Process: process}, Sample: 1}}
		l.postpone()
		if len(s.Levels) > 0 {
			l.Level, l.Wanted = s.Levels[0].Name, s.Levels[0].Name
		}
		if s.OptIn {
			l.off = true
			l.State, l.Reason, l.Remedy = Off, "off until it is switched on", cmp.Or(s.SwitchOn, switchOn(s.Name))
		}
		if s.Waits != nil {
			w.waits = append(w.waits, s.Waits)
			l.off, l.Auto = true, true
			l.rest()
		}
		all = append(all, l)
	}
	return &Engine{host: h, facts: facts, governor: budget.New(h.Now, rand.NewPCG(rand.Uint64(), rand.Uint64())), sources: locked.New(all), watch: locked.New(w)}
}

// postpone makes a source wait for Start.
func (l *live) postpone() {
	l.held, l.State, l.Reason, l.Remedy = true, Opening, "teescope first measures the cost of events on this machine; this takes a few seconds", ""
}

// open opens a source and puts its settings into force, apart from those that the error
// names.
func (e *Engine) open(l *live) error {
	e.governor.Opening(1)
	defer e.governor.Opening(-1)
	r, err := e.openInTime(l)
	l.reader = r
	var refused error
	if r != nil {
		if refused = l.follow(); refused != nil {
			refused = fmt.Errorf("set source %s: %w", l.Source.Name, refused)
			l.Scope, l.Sample, l.Files = Scope{Process: l.Scope.Process}, 1, nil
			if len(l.Source.Levels) > 0 {
				l.Wanted = l.Source.Levels[0].Name
			}
			err = errors.Join(err, l.follow())
		}
	}
	l.estimate, l.before = estimate.Estimator{}, false
	_, l.fromZero = r.(FromZero)
	e.note(l, err)
	g, ok := r.(Governed)
	if !ok {
		return refused
	}
	_, steady := r.(Steady)
	l.throttle = e.governor.Add(budget.Source{Reader: contained{l, g}, Steady: steady, Limit: l.Sample, Level: l.level(l.Wanted), Adjust: l.adjuster()})
	return refused
}

// adjuster returns what puts a level of detail into force in the open reader, with the scope of now. A slow reading may hold
// the engine's lock, so this adjusts only the reader; the status follows with the next round.
func (l *live) adjuster() func(level int) {
	r, scope := l.reader, l.Scope
	return func(level int) { _ = l.adjust(r, l.Source.Levels[level].Name, scope) }
}

// follow puts the settings of a source that was just opened into force.
func (l *live) follow() error {
	err := l.suits(l.Status)
	if err == nil && len(l.Files) > 0 {
		err = l.useFiles()
	}
	l.Level = l.Wanted
	if err == nil && l.adjusted() {
		err = l.adjust(l.reader, l.Level, l.Scope)
	}
	return err
}

// level is the index of a level of detail.
func (l *live) level(name string) int {
	return max(0, slices.IndexFunc(l.Source.Levels, func(v Level) bool { return v.Name == name }))
}

// close closes the reader and detaches its programs.
func (e *Engine) close(l *live) error {
	if l.throttle != nil {
		e.governor.Remove(l.throttle)
		l.throttle = nil
	}
	if l.reader == nil {
		return nil
	}
	r := l.reader
	l.reader = nil
	if l.waiting() {
		go func(done <-chan struct{}) { <-done; _ = l.call("closing", r.Close) }(l.stuck)
		return nil
	}
	return l.call("closing", r.Close)
}

// Run collects at once and then every interval until ctx ends, handing each
// round to sink. It returns ctx's error.
func (e *Engine) Run(ctx context.Context, interval time.Duration, sink func(time.Time, []metric.Sample)) error {
	t := time.NewTicker(cmp.Or(interval, 5*time.Second))
	defer t.Stop()
	for ctx.Err() == nil {
		sink(e.Collect(ctx))
		select {
		case <-ctx.Done():
		case <-t.C:
		}
	}
	return ctx.Err()
}

// Govern keeps the sources within a budget until ctx ends. Without it they count all
// of the time, at the level that was set.
func (e *Engine) Govern(ctx context.Context, b budget.Budget) { e.governor.Run(ctx, b) }

// Slowed is how many times less often than usual work in user space is done that can wait, because user space does not fit
// into the budget; 1 without a budget.
func (e *Engine) Slowed() int { return max(1, e.governor.Slowed()) }

// Close closes all sources in parallel.
func (e *Engine) Close() error {
	sources := *e.sources.Lock()
	defer e.sources.Unlock()
	return each(sources, max(1, len(sources)), e.close)
}
