package docstest

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
)

// Source returns the section of docs/metrics.md about a source.
func Source(s *probe.Source) string { return Metrics(s.Name, s.Doc+notes(s), s.Metrics) }

// Metrics returns a section of docs/metrics.md: its heading, what doc says and a table of metrics.
func Metrics(heading, doc string, metrics []*metric.Desc) string {
	var b strings.Builder
	fmt.Fprintf(&b, "## %s\n\n%s\n\n| metric | type | labels | what, and from where |\n|---|---|---|---|\n", heading, Sentence(doc))
	for _, m := range metrics {
		labels := ""
		if len(m.Labels) > 0 {
			labels = "`" + strings.Join(m.Labels, "`, `") + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", m.Name, m.Kind, labels, Cell(m.Help))
	}
	b.WriteString("\n")
	return b.String()
}

// notes are the parts of a source's section other than metrics.
func notes(s *probe.Source) string {
	var b strings.Builder
	line := func(name, text string) {
		if text != "" {
			fmt.Fprintf(&b, "\n- %s: %s", name, text)
		}
	}
	if s.OptIn {
		line("Off", "by default; "+cmp.Or(s.SwitchOn, "switch it on with `sources."+s.Name+".on: true` in the configuration, or on the page")+".")
	}
	if s.Waits != nil {
		line("On", "while "+s.Waits.For+", and a minute longer; `sources."+s.Name+".on: true` or `false` in the configuration, or the switch on the page, decides instead.")
	}
	if f := s.Files; f != nil {
		text := f.What
		if len(f.Default) > 0 {
			text += " (`" + strings.Join(f.Default, "`, `") + "`)"
		}
		line("Files", text+"; `sources."+s.Name+".files: ["+strconv.Quote(f.Patterns()[0])+"]` in the configuration names others. No request does.")
	}
	for _, l := range s.Levels {
		line("Level `"+l.Name+"`", Sentence(l.Doc))
	}
	line("Kernels", s.Kernels)
	for _, n := range s.Needs {
		what := n.For
		if n.Optional {
			what += "; optional: without it this part is missing"
		}
		if n.Open {
			what += "; needed only to open the source"
		}
		line("Needs `"+n.Capability+"`", Sentence(what))
	}
	line("Cost", s.Cost)
	line("Cannot see", s.Blind)
	if b.Len() == 0 {
		return ""
	}
	return ".\n" + b.String()
}
