package probe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
	// Process is the filter in force, "" for none.
	Process string
	// Coverage, Missed and Folded are those of the last round; see the metrics
	// of these names. Coverage is nil where it is not known: nothing was read, or
	// something was lost and the reader cannot say how much.
	Coverage       *float64
	Missed, Folded float64
	Series         int
	Read           time.Duration
}

// Setting changes a source at run time; a nil field leaves things as they are.
type Setting struct {
	On *bool
	// Process is an unanchored regular expression; series with a process label
	// that does not match are not emitted. "" removes the filter.
	Process *string
}

// Engine holds open sources. All methods may be called at once from several
// goroutines.
type Engine struct {
	host  *host.Host
	facts []tee.Facts

	mu      sync.Mutex
	sources []*live
}

type live struct {
	Status
	reader  Reader
	off     bool
	process *regexp.Regexp
}

// Open opens every source. A source that cannot be opened is kept with its
// reason and tried no more until it is switched on again.
func Open(h *host.Host, facts []tee.Facts, sources []*Source, process *regexp.Regexp) *Engine {
	e := &Engine{host: h, facts: facts}
	for _, s := range sources {
		l := &live{Status: Status{Source: s}, process: process}
		if process != nil {
			l.Process = process.String()
		}
		e.open(l)
		e.sources = append(e.sources, l)
	}
	return e
}

func (e *Engine) open(l *live) {
	r, err := l.Source.Open(e.host, e.facts)
	l.reader = r
	l.note(err)
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
	metric.SortByName(out)
	return at, out
}

func (e *Engine) read(ctx context.Context, l *live, out []metric.Sample) []metric.Sample {
	name := []string{l.Source.Name}
	delivered := false
	if l.reader != nil {
		l.Coverage, l.Missed, l.Folded = nil, 0, 0
		first := len(out)
		began := e.host.Now()
		err := l.reader.Read(ctx, func(s metric.Sample) {
			switch s.Desc {
			case Coverage:
				l.Coverage = &s.Value
			case Missed:
				l.Missed = s.Value
			case Folded:
				l.Folded = s.Value
			default:
				delivered = true
				if l.keeps(s) {
					out = append(out, s)
				}
			}
		})
		l.Read = e.host.Now().Sub(began)
		l.Series = len(out) - first
		l.note(err)
		delivered = delivered || err == nil
		if l.Coverage == nil && err == nil {
			all := 1.0
			l.Coverage = &all
		}
		if l.Coverage != nil {
			out = append(out, metric.Sample{Desc: Coverage, Labels: name, Value: *l.Coverage})
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

func (l *live) keeps(s metric.Sample) bool {
	if l.process == nil {
		return true
	}
	i := slices.Index(s.Desc.Labels, "process")
	return i < 0 || l.process.MatchString(s.Labels[i])
}

// Status describes all sources, in the order of the list.
func (e *Engine) Status() []Status {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := make([]Status, len(e.sources))
	for i, l := range e.sources {
		out[i] = l.Status
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
	if s.Process != nil {
		var re *regexp.Regexp
		if *s.Process != "" {
			var err error
			if re, err = regexp.Compile(*s.Process); err != nil {
				return fmt.Errorf("set source %s: process filter: %w", name, err)
			}
		}
		l.process, l.Process = re, *s.Process
	}
	if s.On != nil && *s.On == l.off {
		l.off = !*s.On
		if !l.off {
			e.open(l)
			return nil
		}
		var err error
		if l.reader != nil {
			err = l.reader.Close()
			l.reader = nil
		}
		l.State, l.Reason, l.Remedy, l.Blind, l.Series = Off, "switched off", "switch it on", false, 0
		return err
	}
	return nil
}

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

// Close closes all sources.
func (e *Engine) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	var errs []error
	for _, l := range e.sources {
		if l.reader != nil {
			errs = append(errs, l.reader.Close())
			l.reader = nil
		}
	}
	return errors.Join(errs...)
}
