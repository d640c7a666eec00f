package observe

import (
	"fmt"
	"os"
	"strings"

	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/web"
)

// ListSources turns the engine's statuses into the API's form.
func ListSources(e *probe.Engine) []web.Source {
	var out []web.Source
	for _, s := range e.Status() {
		w := DescribeSource(s.Source)
		w.State, w.Reason, w.Remedy, w.Blind = string(s.State), s.Reason, s.Remedy, s.Blind
		if os.Geteuid() == 0 {
			w.Remedy = notRoot(w.Remedy)
		}
		w.PIDs, w.Process, w.Cgroup, w.Container = s.Scope.PIDs, pattern(s.Scope.Process), pattern(s.Scope.Cgroup), pattern(s.Scope.Container)
		w.Level, w.Wanted, w.Sample, w.Error = s.Level, s.Wanted, s.Sample, s.Error
		if f := s.Source.Files; f != nil {
			w.Files = f.Default
			if len(s.Files) > 0 {
				w.Files = s.Files
			}
		}
		w.RestError = s.RestError
		w.Auto, w.Seen, w.Narrows, w.Series = s.Auto, s.Seen, s.Narrows, s.Series
		if s.State == probe.Available && s.Read > 0 && s.Series == 0 && s.Reason == "" {
			w.Reason = "it works, but has nothing to report now, so it has no series"
			if s.Scope.Process != nil {
				w.Reason = fmt.Sprintf("it works, but no process that it sees now matches %q, so it has no series", s.Scope.Process)
			}
		}
		if s.State == probe.Available || s.State == probe.Degraded {
			w.Coverage, w.Missed, w.Folded = s.Coverage, &s.Missed, &s.Folded
			JudgeCoverage(&w)
		}
		out = append(out, w)
	}
	return out
}

// JudgeCoverage says what a source's coverage means.
func JudgeCoverage(s *web.Source) {
	if s.Coverage != nil {
		s.Estimated, s.Short = probe.IsEstimate(*s.Coverage), probe.IsShort(*s.Coverage, s.Sample)
	}
}

// notRoot is advice to root, of advice that begins with becoming root: some refuse root, too.
func notRoot(remedy string) string {
	rest, ok := strings.CutPrefix(remedy, "run as root")
	if !ok {
		return remedy
	}
	if grant, ok := strings.CutPrefix(rest, ", or "); ok {
		return grant
	}
	if with, ok := strings.CutPrefix(rest, " or with "); ok {
		return "grant " + with
	}
	if with, ok := strings.CutPrefix(rest, " with "); ok {
		return "have " + with
	}
	const refused = "root is refused, too: by the limits of a container, by a security module (SELinux, AppArmor), or by a process that nobody may trace"
	if _, more, ok := strings.Cut(rest, "; "); ok {
		return refused + "; " + more
	}
	return refused
}

// DescribeSource is what a source says of itself.
func DescribeSource(s *probe.Source) web.Source {
	w := web.Source{Name: s.Name, Doc: s.Doc, OptIn: s.OptIn, Kernels: s.Kernels, Cost: s.Cost, CannotSee: s.Blind}
	if s.Waits != nil {
		w.Waits = s.Waits.For
	}
	if s.Files != nil {
		w.Configure = &web.Configuration{What: s.Files.What, Advice: probe.FilesAdvice, Lines: probe.FilesLines(s.Name, s.Files.Patterns()...)}
	}
	for _, l := range s.Levels {
		w.Levels = append(w.Levels, web.SourceLevel(l))
	}
	for _, n := range s.Needs {
		w.Needs = append(w.Needs, web.SourceNeed{Capability: n.Capability, For: n.For, Optional: n.Optional})
	}
	for _, d := range s.Metrics {
		w.Metrics = append(w.Metrics, d.Name)
	}
	return w
}

// pattern is the text of a filter, "" for none.
func pattern[T interface {
	comparable
	String() string
}](re T) string {
	var none T
	if re == none {
		return ""
	}
	return re.String()
}
