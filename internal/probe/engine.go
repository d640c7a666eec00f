package probe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/locked"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/tee"
)

// State of a source, as doctor and the page show it.
type State string

// The states. Absent is no fault: the machine lacks what the source reads. Opening is
// that of a source before Start.
const (
	Opening     State = "opening"
	Available   State = "available"
	Degraded    State = "degraded"
	Unavailable State = "unavailable"
	Absent      State = "not here"
	Off         State = "off"
)

// Status is what is known of one source now.
type Status struct {
	Source *Source
	State  State
	// Reason and Remedy explain every state but Available.
	Reason, Remedy string
	Blind          bool
	// Scope is what the source is narrowed to.
	Scope Scope
	// Level is the level of detail in force, "" where there is one only; Wanted
	// the user's. They differ where the budget allows less.
	Level, Wanted string
	// Sample is the largest share of time in which the source may count, 0
	// where it cannot be sampled.
	Sample float64
	// Narrows: the source takes PIDs, control groups and containers.
	Narrows bool
	// Files are the patterns of files that were set, none for the source's own.
	Files []string
	// Auto: no setting says on or off, so the source is on while what it waits for is
	// there. Seen is what of it was seen last, and shortly after its end; else "".
	Auto bool
	Seen string
	// Coverage, Missed and Folded are those of the last round; see the metrics
	// of these names. Coverage is nil where it is unknown: nothing was read, or the
	// reader lost an unknown amount.
	Coverage *float64
	// Error is the relative standard error of the scaled number of events; nil
	// where every event is counted or the error is unknown. RestError is that of the events whose
	// number the kernel does not give; nil also where it gives none.
	Error, RestError *float64
	Missed, Folded   float64
	Series           int
	Read             time.Duration
}

// Engine holds open sources. Its methods are safe for concurrent use.
type Engine struct {
	host     *host.Host
	facts    []tee.Facts
	governor governor
	sources  locked.Value[[]*live]
	round    unique              // for who holds the lock of the sources, kept for its room
	watch    locked.Value[watch] // locked before the sources
}

type live struct {
	Status
	patient
	reader   Reader
	off      bool
	held     bool      // not started yet
	throttle *throttle // nil where the reader is not Governed
	fromZero bool      // the reader is FromZero
	lastAt   time.Time // of the last round
	before   bool      // the round before was delivered
	estimate estimator
	exact    *Exact          // in this round
	samples  []metric.Sample // of the last reading, kept for its room
	// seen is when sight, which the source waits for, was seen last.
	seen  time.Time
	sight sight
}

// Open opens every source that is on, several at a time; Look opens those that wait.
// A source that fails to open is kept with its reason and not retried until it is
// switched on again.
func Open(h *host.Host, facts []tee.Facts, sources []*Source, process *regexp.Regexp) *Engine {
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
	e.Look()
	defer e.sources.Unlock()
	_ = each(*e.sources.Lock(), atOnce(), func(l *live) error {
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
func New(h *host.Host, facts []tee.Facts, sources []*Source, process *regexp.Regexp) *Engine {
	var all []*live
	w := watch{processes: Processes{Host: h}, found: map[int][]string{}, hidden: map[int]bool{}}
	for _, s := range sources {
		l := &live{Status: Status{Source: s, Scope: Scope{Process: process}, Sample: 1}}
		l.hold()
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
	return &Engine{host: h, facts: facts, governor: newGovernor(h.Now, rand.NewPCG(rand.Uint64(), rand.Uint64())), sources: locked.New(all), watch: locked.New(w)}
}

// hold makes a source wait for Start.
func (l *live) hold() {
	l.held, l.State, l.Reason, l.Remedy = true, Opening, "what events cost here is measured first; this takes seconds", ""
}

// open opens a source and puts its settings into force, apart from those that the error
// names.
func (e *Engine) open(l *live) error {
	e.governor.opening(1)
	defer e.governor.opening(-1)
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
	l.estimate, l.before = estimator{}, false
	_, l.fromZero = r.(FromZero)
	l.note(err)
	g, ok := r.(Governed)
	if !ok {
		return refused
	}
	level := l.level(l.Wanted)
	l.throttle = &throttle{reader: contained{l, g}, limit: l.Sample, level: level, wanted: level, scope: l.Scope, adjust: func(level int, scope Scope) {
		// A slow reading may hold the engine's lock, so this adjusts only the reader;
		// the status follows with the next round.
		_ = l.adjust(r, l.Source.Levels[level].Name, scope)
	}}
	_, l.throttle.steady = r.(Steady)
	e.governor.add(l.throttle)
	return refused
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
		e.governor.remove(l.throttle)
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

// note sets the state from the error of opening or reading. What is shown of it is UTF-8, whatever names are in it.
func (l *live) note(err error) {
	l.Reason, l.Remedy, l.Blind = "", "", false
	switch {
	case err == nil:
		l.State = Available
		return
	case l.reader != nil:
		l.State = Degraded
	case errors.Is(err, errors.ErrUnsupported):
		l.State = Absent
	default:
		l.State = Unavailable
	}
	// The state says "not here"; the sentinel's own text adds nothing.
	l.Reason = metric.Label(strings.TrimSuffix(err.Error(), ": "+errors.ErrUnsupported.Error()))
	l.Remedy, l.Blind = Remedy(err), Blind(err)
}

// Collect reads every open source once and returns the time of the reading and the
// samples, the engine's own included, ordered by metric name. It begins a new round
// for values that cover the time since the last one.
func (e *Engine) Collect(ctx context.Context) (time.Time, []metric.Sample) {
	return e.collect(ctx, e.governor.busy)
}

// Peek is Collect without beginning a new round: it takes nothing from the next one.
func (e *Engine) Peek(ctx context.Context) (time.Time, []metric.Sample) {
	return e.collect(ctx, e.governor.mostUsed)
}

func (e *Engine) collect(ctx context.Context, used func() (float64, bool)) (time.Time, []metric.Sample) {
	sources := *e.sources.Lock()
	defer e.sources.Unlock()
	at := e.host.Now()
	var out []metric.Sample
	round := e.round.begin()
	for _, known := range []bool{false, true} { // the totals of a source are read before it
		for _, l := range sources {
			if known != (l.Source.Exact != nil) {
				continue
			}
			if known {
				l.exact = exact(sources, l)
			}
			l.estimate.at, l.estimate.zero = time.Time{}, time.Time{}
			if l.fromZero && l.before {
				l.estimate.at, l.estimate.zero = at, l.lastAt
			}
			out = e.read(ctx, l, out, round)
			l.lastAt = at
		}
	}
	if ratio, ok := used(); ok {
		out = append(out, metric.Sample{Desc: BudgetUsed, Value: ratio, Trust: metric.Estimated})
	}
	if times := e.governor.slowed(); times > 0 {
		out = append(out, metric.Sample{Desc: SlowedDesc, Value: float64(times)})
	}
	metric.SortByName(out)
	return at, out
}

func (e *Engine) read(ctx context.Context, l *live, out []metric.Sample, round *unique) []metric.Sample {
	name := []string{l.Source.Name}
	delivered := false
	if l.reader != nil {
		first := len(out)
		if u, ok := l.reader.(Unhurried); ok {
			u.Slow(e.Slowed())
		}
		began := e.host.Now()
		out, delivered = e.values(ctx, l, out, round)
		l.Read = e.host.Now().Sub(began)
		l.Series = len(out) - first
		if l.Coverage != nil {
			out = append(out, metric.Sample{Desc: Coverage, Labels: name, Value: *l.Coverage})
		}
		if l.Error != nil {
			out = append(out, metric.Sample{Desc: StandardError, Labels: []string{l.Source.Name, OfSum}, Value: *l.Error, Trust: metric.Estimated})
		}
		if l.RestError != nil {
			out = append(out, metric.Sample{Desc: StandardError, Labels: []string{l.Source.Name, OfRest}, Value: *l.RestError, Trust: metric.Estimated})
		}
		if l.throttle != nil {
			_, seconds := l.throttle.reader.Spent()
			var sum float64
			for _, s := range seconds {
				sum += s
			}
			out = append(out, metric.Sample{Desc: SourceCPU, Labels: name, Value: sum, Trust: metric.Estimated})
		}
		if l.Level != "" {
			out = append(out, metric.Sample{Desc: LevelDesc, Labels: []string{l.Source.Name, l.Level}, Value: 1})
		}
		out = append(out,
			metric.Sample{Desc: Missed, Labels: name, Value: l.Missed},
			metric.Sample{Desc: Folded, Labels: name, Value: l.Folded},
			metric.Sample{Desc: ReadSeconds, Labels: name, Value: l.Read.Seconds()})
	}
	if l.Blind {
		out = append(out, metric.Sample{Desc: BlindDesc, Labels: []string{l.Source.Name, l.Reason}, Value: 1})
	}
	if !slices.Contains([]State{Absent, Off, Opening}, l.State) {
		up := 0.0
		if delivered {
			up = 1
		}
		out = append(out, metric.Sample{Desc: Up, Labels: name, Value: up})
	}
	return out
}

// values reads the source's own metrics, scaled where it saw only part of the time,
// and updates its state.
func (e *Engine) values(ctx context.Context, l *live, out []metric.Sample, round *unique) ([]metric.Sample, bool) {
	l.Coverage, l.Error, l.RestError, l.Missed, l.Folded = nil, nil, nil, 0, 0
	seen := coverage{share: 1}
	if l.throttle != nil {
		seen = e.governor.round(l.throttle)
	}
	delivered := false
	samples, err := e.readInTime(ctx, l)
	samples, refused := round.tidy(samples)
	if err = joined(err, refused); seen.refused != nil && !errors.Is(err, seen.refused) { // some readers say it themselves
		err = joined(err, seen.refused)
	}
	factor := l.estimate.agree(l.exact, samples, totals(l.exact, out), seen.scale())
	for _, s := range samples {
		switch s.Desc {
		case Coverage:
			v := s.Value
			l.Coverage = &v
		case Missed:
			l.Missed = s.Value
		case Folded:
			l.Folded = s.Value
		default:
			delivered = true
			if l.throttle != nil || l.fromZero {
				s = l.estimate.take(s, factor(s))
			}
			if !seen.off && !seen.gone && l.keeps(s) {
				out = append(out, s)
			}
		}
	}
	all, busy := l.estimate.told(e.host.Now(), seen.scale())
	l.estimate.end()
	if l.Coverage == nil && err == nil {
		all := 1.0
		l.Coverage = &all
	}
	if l.Coverage != nil {
		share := *l.Coverage * seen.share
		l.Coverage = &share
	}
	if !math.IsNaN(seen.err) && seen.limited {
		sum := seen.err * all.untold()
		if l.Error = &sum; sum > 0 && all.told > 0 {
			l.RestError = &seen.err
		}
		for _, p := range busy {
			if s := (metric.Sample{Desc: ProcessError, Labels: []string{l.Source.Name, p.process}, Value: seen.err * p.untold(), Trust: metric.Estimated}); l.keeps(s) {
				out = append(out, s)
			}
		}
	}
	l.note(err)
	if l.throttle != nil {
		l.limited(e.governor.level(l.throttle), seen)
	}
	l.before = !seen.off && !seen.gone && (delivered || err == nil)
	return out, l.before
}

// exact is the source's Exact while both sources count all processes.
func exact(sources []*live, l *live) *Exact {
	x := l.Source.Exact
	for _, o := range sources {
		if (o == l || slices.Contains(o.Source.Metrics, x.Total)) && o.Scope.narrow() {
			return nil
		}
	}
	return x
}

// totals are the values of a source's totals among the samples of a round.
func totals(x *Exact, samples []metric.Sample) map[seriesKey]float64 {
	if x == nil {
		return nil
	}
	now := map[seriesKey]float64{}
	for _, s := range samples {
		if s.Desc == x.Total {
			now[keyOf(s)] = s.Value
		}
	}
	return now
}

// budgetReason is the label of teescope_source_blind where the budget switches a
// source off.
const budgetReason = "budget"

// limited sets the state of a source that the budget or its user limits.
func (l *live) limited(level int, seen coverage) {
	if len(l.Source.Levels) > 0 {
		l.Level = l.Source.Levels[level].Name
	}
	var why string
	switch {
	case seen.off:
		l.State, l.Blind, l.Reason = Degraded, true, budgetReason
		l.Remedy = "raise --budget: counting these frequent events costs more than the budget even for a ten-thousandth of the time"
		return
	case seen.limited && l.Level != l.Wanted:
		why = fmt.Sprintf("the budget allows level %s, not %s", l.Level, l.Wanted)
	}
	if seen.share < 1 {
		if why != "" {
			why += "; "
		}
		why += fmt.Sprintf("it counts %s of the time", metric.Percent(seen.share))
		if l.Sample < 1 && seen.share > 0.9*l.Sample {
			why += ", the rate that was set"
		} else {
			why += " to stay within the budget"
		}
		why += "; its counters are scaled to all events"
		if l.Error != nil {
			why += ", with a standard error of " + metric.Percent(*l.Error) + " of their sum"
			if l.RestError != nil {
				why += ", " + metric.Percent(*l.RestError) + " of those whose number the kernel does not give"
			}
		}
	}
	if why == "" || l.State != Available {
		return
	}
	l.State, l.Reason, l.Remedy = Degraded, why, "raise --budget for more, or narrow the source"
}

func (l *live) keeps(s metric.Sample) bool {
	if l.Scope.Process == nil {
		return true
	}
	i := slices.Index(s.Desc.Labels, "process")
	return i < 0 || l.Scope.Process.MatchString(s.Labels[i])
}

// Status describes all sources, in the order of the list.
func (e *Engine) Status() []Status {
	sources := *e.sources.Lock()
	defer e.sources.Unlock()
	out := make([]Status, len(sources))
	for i, l := range sources {
		out[i] = l.status()
	}
	return out
}

func (l *live) status() Status {
	s := l.Status
	if l.reader != nil {
		s.Narrows = l.narrows()
		if l.throttle == nil {
			s.Sample = 0
		}
	}
	return s
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
func (e *Engine) Govern(ctx context.Context, b Budget) { e.governor.run(ctx, b) }

// Close closes all sources in parallel.
func (e *Engine) Close() error {
	sources := *e.sources.Lock()
	defer e.sources.Unlock()
	return each(sources, max(1, len(sources)), e.close)
}
