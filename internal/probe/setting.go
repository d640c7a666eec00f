package probe

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/teescope/teescope/internal/metric"
)

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

func switchOn(source string) string {
	return "set sources." + source + ".on: true in the configuration, or switch it on in the page"
}

// adjusted reports whether the settings differ from those that a source opens with.
func (l *live) adjusted() bool {
	s := l.Scope
	return l.level(l.Wanted) > 0 || s.Process != nil || len(s.PIDs) > 0 || s.Cgroup != nil || s.Container != nil
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
