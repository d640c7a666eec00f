package probe

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/teescope/teescope/internal/metric"
)

// Setting changes a source at run time, from the page, the API and the sources
// section of the configuration; an absent field changes nothing.
type Setting struct {
	// On switches the source on or off.
	On *bool `json:"on,omitempty" yaml:"on"`
	// Auto, for a source that waits for something, has it on while that is there. A
	// setting of On ends it.
	Auto *bool `json:"auto,omitempty" yaml:"auto"`
	// Level is the name of one of the source's levels of detail.
	Level *string `json:"level,omitempty" yaml:"level"`
	// Process is an unanchored regular expression: only series of matching process
	// names are kept. The kernel keeps 15 bytes of a name, and a longer name in the expression
	// matches these. "" removes the filter.
	Process *string `json:"process,omitempty" yaml:"process"`
	// PIDs narrows the source to these process ids, which get series of their own.
	// An empty list removes the filter.
	PIDs *[]int `json:"pids,omitempty" yaml:"pids"`
	// Cgroup is an unanchored regular expression for the paths of control groups. ""
	// removes the filter.
	Cgroup *string `json:"cgroup,omitempty" yaml:"cgroup"`
	// Container is an unanchored regular expression for the names and ids of
	// containers. "" removes the filter.
	Container *string `json:"container,omitempty" yaml:"container"`
	// Sample is the largest part of the time in which the source may count, above 0
	// and at most 1.
	Sample *float64 `json:"sample,omitempty" yaml:"sample"`
	// Files are patterns of the files to read, for a source that reads such. An empty list means the source's own. Only the
	// configuration has them: whoever reaches the port must not name a path that the monitor opens.
	Files *[]string `json:"-" yaml:"files"`
}

// mostFilter is the most bytes of a filter's regular expression. One of a kilobyte compiles to less than 4 MB.
const mostFilter = 1024

// FilesAdvice says how the files of a source are set.
const FilesAdvice = "Paths are set in the configuration file only. Add these lines to the file of --config, and send teescope SIGHUP:"

// FilesLines returns the lines of a configuration that set the files of a source.
func FilesLines(source string, patterns ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "sources:\n  %s:\n    files:\n", source)
	for _, p := range patterns {
		fmt.Fprintf(&b, "      - %s\n", strconv.Quote(p))
	}
	return b.String()
}

// Patterns are those of a source, or an example where it has none.
func (f *Files) Patterns() []string {
	if len(f.Default) == 0 {
		return []string{f.Example}
	}
	return f.Default
}

func switchOn(source string) string {
	return "set sources." + source + ".on: true in the configuration, or switch it on in the page"
}

// adjusted reports whether the settings differ from those that a source opens with.
func (l *live) adjusted() bool {
	s := l.Scope
	return l.level(l.Wanted) > 0 || s.Process != nil || len(s.PIDs) > 0 || s.Cgroup != nil || s.Container != nil
}

// Set changes one source. Switching off closes its reader, which detaches it.
func (e *Engine) Set(name string, s Setting) error {
	sources := *e.sources.Lock()
	defer e.sources.Unlock()
	i := slices.IndexFunc(sources, func(l *live) bool { return l.Source.Name == name })
	if i < 0 {
		return fmt.Errorf("set source %q: %w", name, ErrNoSource)
	}
	l := sources[i]
	next, err := s.applyTo(l.Status)
	if err == nil && l.reader != nil {
		err = l.suits(next)
	}
	if err != nil {
		return fmt.Errorf("set source %s: %w", name, err)
	}
	was := l.Status
	l.Scope, l.Sample, l.Wanted, l.Files, l.Auto = next.Scope, next.Sample, next.Wanted, next.Files, next.Auto
	if s.On != nil && *s.On == l.off {
		l.off = !*s.On
		switch {
		case !l.off && l.held:
			l.postpone()
			return nil
		case !l.off:
			return e.open(l)
		}
		err := e.close(l)
		l.rest()
		return err
	}
	if l.off && l.Auto != was.Auto {
		l.rest()
	}
	if l.reader == nil {
		return nil
	}
	err = e.applySettings(l)
	if err != nil {
		// Restore the old settings, which worked before.
		l.Scope, l.Sample, l.Wanted, l.Files, l.Auto = was.Scope, was.Sample, was.Wanted, was.Files, was.Auto
		if back := e.applySettings(l); back != nil {
			e.note(l, back)
		}
		return fmt.Errorf("set source %s: %w", name, err)
	}
	return nil
}

// applySettings puts the settings of an open source into force.
func (e *Engine) applySettings(l *live) error {
	if l.throttle != nil {
		e.governor.Change(l.throttle, l.Sample, l.level(l.Wanted), l.adjuster())
	}
	if err := l.useFiles(); err != nil {
		return err
	}
	l.Level = l.Wanted
	return l.adjust(l.reader, l.Level, l.Scope)
}

// Check returns an error that names the field of the setting that is wrong for the
// source.
func (s Setting) Check(source *Source) error {
	_, err := s.applyTo(Status{Source: source})
	return err
}

// suits returns an error where an open source cannot do what a status asks.
func (l *live) suits(s Status) error {
	if _, ok := l.reader.(Governed); !ok && s.Sample < 1 {
		return errors.New("sample: this source reads the kernel's own counters, so it cannot be sampled")
	}
	if l.narrows() {
		return nil
	}
	const cannot = ": this source reads values of the whole machine, so it cannot be narrowed"
	switch {
	case len(s.Scope.PIDs) > 0:
		return errors.New("pids" + cannot)
	case s.Scope.Cgroup != nil:
		return errors.New("cgroup" + cannot)
	case s.Scope.Container != nil:
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

// applyTo is the status that a source would have with the setting.
func (s Setting) applyTo(next Status) (Status, error) {
	for _, f := range []struct {
		what string
		from *string
		to   **regexp.Regexp
	}{
		{"cgroup", s.Cgroup, &next.Scope.Cgroup},
		{"container", s.Container, &next.Scope.Container},
	} {
		if f.from == nil {
			continue
		}
		*f.to = nil
		if len(*f.from) > mostFilter {
			return next, fmt.Errorf("%s: %d bytes: want at most %d", f.what, len(*f.from), mostFilter)
		}
		if *f.from != "" {
			re, err := regexp.Compile(*f.from)
			if err != nil {
				return next, fmt.Errorf("%s: %w", f.what, err)
			}
			*f.to = re
		}
	}
	if s.Process != nil {
		next.Scope.Process = nil
		if len(*s.Process) > mostFilter {
			return next, fmt.Errorf("process: %d bytes: want at most %d", len(*s.Process), mostFilter)
		}
		if *s.Process != "" {
			names, err := metric.CompileNames(*s.Process)
			if err != nil {
				return next, fmt.Errorf("process: %w", err)
			}
			next.Scope.Process = names
		}
	}
	if s.Process != nil && *s.Process != "" && !next.Source.ByProcess() {
		return next, errors.New("process: the source has no series by process")
	}
	switch waits := next.Source.Waits != nil; {
	case s.Auto != nil && *s.Auto && !waits:
		return next, errors.New("auto: this source does not wait for a process; set on instead")
	case s.Auto != nil && *s.Auto && s.On != nil:
		return next, errors.New("auto: contradicts on; set one of them")
	case s.Auto != nil:
		next.Auto = *s.Auto
	case s.On != nil:
		next.Auto = false
	}
	if s.PIDs != nil {
		next.Scope.PIDs = slices.Compact(slices.Sorted(slices.Values(*s.PIDs)))
		if len(next.Scope.PIDs) > MaxPIDs {
			return next, fmt.Errorf("pids: %d process ids: want at most %d, because each has its own series", len(next.Scope.PIDs), MaxPIDs)
		}
		for _, pid := range next.Scope.PIDs {
			if pid < 1 {
				return next, fmt.Errorf("pids: %d: want a process id above 0", pid)
			}
		}
	}
	if s.Sample != nil {
		if !(*s.Sample > 0 && *s.Sample <= 1) {
			return next, fmt.Errorf("sample: %g: want a share of time above 0 and at most 1", *s.Sample)
		}
		next.Sample = *s.Sample
	}
	if s.Files != nil {
		if len(*s.Files) > 0 && next.Source.Files == nil {
			return next, errors.New("files: this source reads no files that a user can choose")
		}
		for _, f := range *s.Files {
			if _, err := filepath.Match(f, ""); err != nil || !filepath.IsAbs(f) {
				return next, fmt.Errorf("files: %q: want the pattern of an absolute path", f)
			}
		}
		next.Files = slices.Clone(*s.Files)
	}
	if s.Level != nil {
		if !slices.ContainsFunc(next.Source.Levels, func(v Level) bool { return v.Name == *s.Level }) {
			return next, fmt.Errorf("level: no level %q; %s", *s.Level, levelNames(next.Source))
		}
		next.Wanted = *s.Level
	}
	return next, nil
}

func levelNames(s *Source) string {
	if len(s.Levels) == 0 {
		return "the source has only one level"
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
