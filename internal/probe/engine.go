package probe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/tee"
)

// State of a source, as doctor and the page show it.
type State string

// The states. NotHere is no fault: the machine lacks what the source reads.
const (
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
	// the one that was asked for. They differ where the budget has no room.
	Level, Wanted string
	// Sample is the largest part of the time in which the source may count, 0
	// where it cannot be sampled.
	Sample float64
	// Narrows: the source takes PIDs, control groups and containers.
	Narrows bool
	// Files are the patterns of files that were set, none for the source's own.
	Files []string
	// Coverage, Missed and Folded are those of the last round; see the metrics
	// of these names. Coverage is nil where it is not known: nothing was read, or
	// something was lost and the reader cannot say how much.
	Coverage *float64
	// Error is the standard error of the scaled number of events, relative to it;
	// nil where every event is counted or it is not known.
	Error          *float64
	Missed, Folded float64
	Series         int
	Read           time.Duration
}

// Setting changes a source at run time; a nil field leaves things as they are.
type Setting struct {
	On *bool
	// Level is the name of one of the source's levels.
	Level *string
	// Process is an unanchored regular expression; series with a process label
	// that does not match are not emitted. "" removes the filter.
	Process *string
	// PIDs, Cgroup and Container narrow the source to these; see Scope. Empty
	// removes the filter.
	PIDs              *[]int
	Cgroup, Container *string
	// Sample is the largest part of the time in which the source may count, above
	// 0 and at most 1.
	Sample *float64
	// Files are the patterns of the files that the source reads, where it takes
	// any; empty is its own default.
	Files *[]string
}

// Engine holds open sources. All methods may be called at once from several
// goroutines.
type Engine struct {
	host     *host.Host
	facts    []tee.Facts
	governor governor

	mu      sync.Mutex
	sources []*live
}

type live struct {
	Status
	reader   Reader
	off      bool
	throttle *throttle // nil where the reader is not Governed
	estimate estimator
	// stuck is closed when a call that did not end in time has ended; nil where
	// none is under way.
	stuck   chan struct{}
	samples []metric.Sample // of the last reading, kept for its room
}

// A file of the kernel or a network file system can block for as long as it likes.
const (
	// patience is how long a source may take to be read.
	patience = 2 * time.Second
	// openPatience is how long it may take to open: a slow machine needs seconds to
	// read the kernel's types and to check programs.
	openPatience = 10 * time.Second
)

// inTime runs f and reports whether it ended in time. If not, f goes on, and l is
// left alone until it has ended.
func (l *live) inTime(patience time.Duration, f func()) bool {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		l.stuck = done
		return false
	}
}

// waiting reports whether a call that did not end in time is still under way.
func (l *live) waiting() bool {
	select {
	case <-l.stuck: // a nil channel blocks
		l.stuck = nil
	default:
	}
	return l.stuck != nil
}

// late is the error of a source that did not answer in time.
func (e *Engine) late(what string, patience time.Duration) error {
	err := fmt.Errorf("%s has not ended after %v", what, patience)
	if files := e.host.Blocked(patience / 2); len(files) > 0 {
		err = fmt.Errorf("%s has not ended after %v: it waits for %s", what, patience, strings.Join(files, ", "))
	}
	return &Problem{Err: err, Remedy: "the source is left alone until the call ends; what blocks is outside teescope: a driver, or a file system whose server is away"}
}

// Open opens every source. A source that cannot be opened is kept with its
// reason and tried no more until it is switched on again.
func Open(h *host.Host, facts []tee.Facts, sources []*Source, process *regexp.Regexp) *Engine {
	e := &Engine{host: h, facts: facts, governor: governor{now: h.Now}}
	for _, s := range sources {
		l := &live{Status: Status{Source: s, Scope: Scope{Process: process}, Sample: 1}}
		if len(s.Levels) > 0 {
			l.Level, l.Wanted = s.Levels[0].Name, s.Levels[0].Name
		}
		if s.OptIn {
			l.off = true
			l.State, l.Reason, l.Remedy = Off, "off until it is switched on", switchOn(s.Name)
		} else {
			e.open(l)
		}
		e.sources = append(e.sources, l)
	}
	return e
}

func switchOn(source string) string {
	return "set sources." + source + ".on: true in the configuration, or switch it on in the page"
}

func (e *Engine) open(l *live) {
	r, err := e.openInTime(l)
	l.reader = r
	l.estimate = estimator{}
	l.Level = l.Wanted
	if a, ok := r.(Adjustable); ok && err == nil && l.adjusted() {
		err = a.Adjust(l.Level, l.Scope)
	}
	if f, ok := r.(Follower); ok && err == nil && len(l.Files) > 0 {
		err = f.Follow(l.Files)
	}
	l.note(err)
	g, ok := r.(Governed)
	if !ok {
		return
	}
	level := l.level(l.Wanted)
	l.throttle = &throttle{reader: g, limit: l.Sample, level: level, wanted: level, adjust: func(level int) {
		// The engine's lock is held by whoever reads, which may take its time, so
		// only the reader is told here; the status follows with the next round.
		if a, ok := r.(Adjustable); ok {
			_ = a.Adjust(l.Source.Levels[level].Name, l.throttle.scope)
		}
	}}
	l.throttle.scope = l.Scope
	e.governor.add(l.throttle)
}

// openInTime opens a source. What is opened too late is closed again.
func (e *Engine) openInTime(l *live) (Reader, error) {
	var out struct {
		Reader
		error
	}
	if l.inTime(openPatience, func() { out.Reader, out.error = l.Source.Open(e.host, e.facts) }) {
		return out.Reader, out.error
	}
	go func(done <-chan struct{}) {
		<-done
		if out.Reader != nil {
			_ = out.Reader.Close()
		}
	}(l.stuck)
	return nil, e.late("opening it", openPatience)
}

// adjusted reports whether the settings differ from those that a source opens with.
func (l *live) adjusted() bool {
	s := l.Scope
	return l.level(l.Wanted) > 0 || s.Process != nil || len(s.PIDs) > 0 || s.Cgroup != nil || s.Container != nil
}

// level is the index of a level of detail.
func (l *live) level(name string) int {
	return max(0, slices.IndexFunc(l.Source.Levels, func(v Level) bool { return v.Name == name }))
}

// close closes the reader; nothing of it stays attached.
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
		go func(done <-chan struct{}) { <-done; _ = r.Close() }(l.stuck)
		return nil
	}
	return r.Close()
}

// note sets the state from the outcome of opening or reading.
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
	l.Reason = strings.TrimSuffix(err.Error(), ": "+errors.ErrUnsupported.Error())
	l.Remedy, l.Blind = Remedy(err), Blind(err)
}

// Collect reads every open source once and returns the samples, ordered by
// metric name, with the engine's own among them, and the time of the reading.
func (e *Engine) Collect(ctx context.Context) (time.Time, []metric.Sample) {
	e.mu.Lock()
	defer e.mu.Unlock()
	at := e.host.Now()
	var out []metric.Sample
	for _, l := range e.sources {
		out = e.read(ctx, l, out)
	}
	if used, ok := e.governor.busy(); ok {
		out = append(out, metric.Sample{Desc: BudgetUsed, Value: used, Trust: metric.Estimated})
	}
	metric.SortByName(out)
	return at, out
}

func (e *Engine) read(ctx context.Context, l *live, out []metric.Sample) []metric.Sample {
	name := []string{l.Source.Name}
	delivered := false
	if l.reader != nil {
		first := len(out)
		began := e.host.Now()
		out, delivered = e.values(ctx, l, out)
		l.Read = e.host.Now().Sub(began)
		l.Series = len(out) - first
		if l.Coverage != nil {
			out = append(out, metric.Sample{Desc: Coverage, Labels: name, Value: *l.Coverage})
		}
		if l.Error != nil {
			out = append(out, metric.Sample{Desc: StandardError, Labels: name, Value: *l.Error, Trust: metric.Estimated})
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
	if l.State != Absent && l.State != Off {
		up := 0.0
		if delivered {
			up = 1
		}
		out = append(out, metric.Sample{Desc: Up, Labels: name, Value: up})
	}
	return out
}

// values reads the source's own metrics, scaled where it saw a part of the time
// only, and notes what that means for its state.
func (e *Engine) values(ctx context.Context, l *live, out []metric.Sample) ([]metric.Sample, bool) {
	l.Coverage, l.Error, l.Missed, l.Folded = nil, nil, 0, 0
	seen := coverage{share: 1}
	if l.throttle != nil {
		seen = e.governor.round(l.throttle)
	}
	delivered := false
	samples, err := e.readInTime(ctx, l)
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
			if l.throttle != nil {
				s = l.estimate.take(s, seen.scale())
			}
			if !seen.off && l.keeps(s) {
				out = append(out, s)
			}
		}
	}
	if l.throttle != nil {
		l.estimate.end()
	}
	if l.Coverage == nil && err == nil {
		all := 1.0
		l.Coverage = &all
	}
	if l.Coverage != nil {
		share := *l.Coverage * seen.share
		l.Coverage = &share
	}
	if !math.IsNaN(seen.err) && seen.limited {
		l.Error = &seen.err
	}
	l.note(err)
	if l.throttle != nil {
		l.limited(e.governor.level(l.throttle), seen)
	}
	return out, !seen.off && (delivered || err == nil)
}

// readInTime reads a source into a buffer that lives until the next reading.
func (e *Engine) readInTime(ctx context.Context, l *live) ([]metric.Sample, error) {
	if l.waiting() {
		return nil, e.late("an earlier reading", patience)
	}
	out := struct {
		samples []metric.Sample
		err     error
	}{samples: l.samples[:0]}
	r := l.reader
	l.samples = nil
	if !l.inTime(patience, func() {
		out.err = r.Read(ctx, func(s metric.Sample) { out.samples = append(out.samples, s) })
	}) {
		return nil, e.late("reading it", patience)
	}
	l.samples = out.samples
	return out.samples, out.err
}

// budgetReason is the label of teescope_source_blind where the budget has no
// room for a source.
const budgetReason = "budget"

// limited says what the budget took from a source.
func (l *live) limited(level int, seen coverage) {
	if len(l.Source.Levels) > 0 {
		l.Level = l.Source.Levels[level].Name
	}
	var why string
	switch {
	case seen.off:
		l.State, l.Blind, l.Reason = Degraded, true, budgetReason
		l.Remedy = "its events are so frequent that counting even a ten-thousandth of the time costs more than the budget: raise --budget"
		return
	case seen.limited && l.Level != l.Wanted:
		why = fmt.Sprintf("the budget leaves it level %s, not %s", l.Level, l.Wanted)
	}
	if seen.share < 1 {
		if why != "" {
			why += "; "
		}
		why += fmt.Sprintf("it counts %.2g %% of the time", 100*seen.share)
		if l.Sample < 1 && seen.share > 0.9*l.Sample {
			why += " as it was told to"
		} else {
			why += ", to keep the budget"
		}
		why += "; its counters are scaled to all events"
		if l.Error != nil {
			why += fmt.Sprintf(", with a standard error of %.2g %% of their sum", 100**l.Error)
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
	e.mu.Lock()
	defer e.mu.Unlock()
	out := make([]Status, len(e.sources))
	for i, l := range e.sources {
		out[i] = l.Status
		if l.reader != nil {
			out[i].Narrows = l.narrows()
			if l.throttle == nil {
				out[i].Sample = 0
			}
		}
	}
	return out
}

// Set changes one source. Switching off closes its reader, so that nothing of
// it stays attached.
func (e *Engine) Set(name string, s Setting) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	i := slices.IndexFunc(e.sources, func(l *live) bool { return l.Source.Name == name })
	if i < 0 {
		return fmt.Errorf("set source %q: %w", name, ErrNoSource)
	}
	l := e.sources[i]
	next, err := s.over(l.Status)
	if err == nil && l.reader != nil {
		err = s.suits(l)
	}
	if err != nil {
		return fmt.Errorf("set source %s: %w", name, err)
	}
	was := l.Status
	l.Scope, l.Sample, l.Wanted, l.Files = next.Scope, next.Sample, next.Wanted, next.Files
	if s.On != nil && *s.On == l.off {
		l.off = !*s.On
		if !l.off {
			e.open(l)
			return nil
		}
		err := e.close(l)
		l.State, l.Reason, l.Remedy, l.Blind, l.Series = Off, "switched off", switchOn(name), false, 0
		return err
	}
	if l.reader == nil {
		return nil
	}
	err = e.put(l)
	if err != nil {
		// As it was; what could be put into force then can be again.
		l.Scope, l.Sample, l.Wanted, l.Files = was.Scope, was.Sample, was.Wanted, was.Files
		if back := e.put(l); back != nil {
			l.note(back)
		}
		return fmt.Errorf("set source %s: %w", name, err)
	}
	return nil
}

// put puts the settings of an open source into force.
func (e *Engine) put(l *live) error {
	if l.throttle != nil {
		e.governor.change(l.throttle, l.Sample, l.level(l.Wanted), l.Scope)
	}
	if f, ok := l.reader.(Follower); ok {
		if err := f.Follow(l.Files); err != nil {
			return err
		}
	}
	l.Level = l.Wanted
	if a, ok := l.reader.(Adjustable); ok {
		return a.Adjust(l.Level, l.Scope)
	}
	return nil
}

// Check says what is wrong with a setting of a source, beginning with the name of
// the field.
func (s Setting) Check(source *Source) error {
	_, err := s.over(Status{Source: source})
	return err
}

// suits says what of a setting an open source cannot do; what removes a filter
// suits all.
func (s Setting) suits(l *live) error {
	if _, ok := l.reader.(Governed); !ok && s.Sample != nil && *s.Sample < 1 {
		return errors.New("sample: it reads files, all of the time: there is nothing to sample")
	}
	if l.narrows() {
		return nil
	}
	const cannot = ": what it reads is of the whole machine; it cannot be narrowed"
	switch {
	case s.PIDs != nil && len(*s.PIDs) > 0:
		return errors.New("pids" + cannot)
	case s.Cgroup != nil && *s.Cgroup != "":
		return errors.New("cgroup" + cannot)
	case s.Container != nil && *s.Container != "":
		return errors.New("container" + cannot)
	}
	return nil
}

// narrows reports whether the open source takes process ids, control groups and
// containers: those that do have series of single processes too.
func (l *live) narrows() bool {
	_, ok := l.reader.(Adjustable)
	return ok && slices.ContainsFunc(l.Source.Metrics, func(d *metric.Desc) bool { return slices.Contains(d.Labels, "pid") })
}

// ByProcess reports whether the source has series by process.
func (s *Source) ByProcess() bool {
	return slices.ContainsFunc(s.Metrics, func(d *metric.Desc) bool { return slices.Contains(d.Labels, "process") })
}

// over is the status that a source would have with the setting.
func (s Setting) over(next Status) (Status, error) {
	for _, f := range []struct {
		what string
		from *string
		to   **regexp.Regexp
	}{
		{"process", s.Process, &next.Scope.Process},
		{"cgroup", s.Cgroup, &next.Scope.Cgroup},
		{"container", s.Container, &next.Scope.Container},
	} {
		if f.from == nil {
			continue
		}
		*f.to = nil
		if *f.from != "" {
			re, err := regexp.Compile(*f.from)
			if err != nil {
				return next, fmt.Errorf("%s: %w", f.what, err)
			}
			*f.to = re
		}
	}
	if s.Process != nil && *s.Process != "" && !next.Source.ByProcess() {
		return next, errors.New("process: it has no series by process")
	}
	if s.PIDs != nil {
		next.Scope.PIDs = slices.Compact(slices.Sorted(slices.Values(*s.PIDs)))
		if len(next.Scope.PIDs) > MaxPIDs {
			return next, fmt.Errorf("pids: %d process ids: want at most %d, each of which has series of its own", len(next.Scope.PIDs), MaxPIDs)
		}
		for _, pid := range next.Scope.PIDs {
			if pid < 1 {
				return next, fmt.Errorf("pids: %d: want a process id above 0", pid)
			}
		}
	}
	if s.Sample != nil {
		if !(*s.Sample > 0 && *s.Sample <= 1) {
			return next, fmt.Errorf("sample: %g: want a part of the time, above 0 and at most 1", *s.Sample)
		}
		next.Sample = *s.Sample
	}
	if s.Files != nil {
		for _, f := range *s.Files {
			if _, err := filepath.Match(f, ""); err != nil || !filepath.IsAbs(f) {
				return next, fmt.Errorf("files: %q: want the pattern of an absolute path", f)
			}
		}
		next.Files = slices.Clone(*s.Files)
	}
	if s.Level != nil {
		if !slices.ContainsFunc(next.Source.Levels, func(v Level) bool { return v.Name == *s.Level }) {
			return next, fmt.Errorf("level: no level %q; %s", *s.Level, levels(next.Source))
		}
		next.Wanted = *s.Level
	}
	return next, nil
}

func levels(s *Source) string {
	if len(s.Levels) == 0 {
		return "it has one level only"
	}
	out := "its levels are"
	for _, v := range s.Levels {
		out += " " + v.Name
	}
	return out
}

// MaxPIDs bounds the series of single processes.
const MaxPIDs = 64

// ErrNoSource is returned by Set for a name that no source has.
var ErrNoSource = errors.New("no such source; `teescope doctor` lists them")

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

// Govern keeps the sources within a budget until ctx ends. Without it they work
// at the level that was asked for, all of the time.
func (e *Engine) Govern(ctx context.Context, b Budget) { e.governor.run(ctx, b) }

// Close closes all sources.
func (e *Engine) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	var errs []error
	for _, l := range e.sources {
		errs = append(errs, e.close(l))
	}
	return errors.Join(errs...)
}
