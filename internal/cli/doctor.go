package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/probe/sources"
	"github.com/teescope/teescope/internal/tee"
	"github.com/teescope/teescope/internal/web"
)

func doctorCommand(env Env) *cobra.Command {
	var asJSON bool
	var root, probes, server string
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Show what this machine is, which sources work here, and why others do not",
		Long: `Doctor opens every source, reads it once and closes it, so its answers are tested,
not guessed. It runs without root too, and says what root would add.

It ends with up to three things to do, the most useful first, each with its command.

If a monitor runs on this machine, doctor says where its settings have a source differ
from that: switched off, at another level, narrowed, or counting a part of the time.
--server names a monitor elsewhere on the machine; "" asks none.`,
		Example: "  teescope doctor\n  teescope doctor --json | jq '.sources[] | select(.state != \"available\")'",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			h, err := openHost(root)
			if err != nil {
				return err
			}
			own, err := sources.UserProbes(h, probes)
			if err != nil {
				return err
			}
			d, err := examine(c.Context(), h, slices.Concat(sources.All, own))
			if err != nil {
				return err
			}
			if server != "" {
				if d.Monitor, err = monitorBeside(c.Context(), server, c.Flags().Changed("server")); err != nil {
					return err
				}
			}
			asked := server
			if d.Monitor != nil {
				asked = ""
			}
			d.ThingsToDo = d.thingsToDo(asked)
			if asJSON {
				e := json.NewEncoder(env.Stdout)
				e.SetIndent("", "  ")
				return e.Encode(d)
			}
			return d.print(env.Stdout)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print data instead of a table")
	c.Flags().StringVar(&server, "server", "http://127.0.0.1:9780", "URL of this machine's monitor")
	probesFlag(c, &probes)
	hostRootFlag(c, &root)
	return c
}

// probesFolder is the default folder of a user's own probes.
const probesFolder = "/etc/teescope/probes"

func probesFlag(c *cobra.Command, folder *string) {
	c.Flags().StringVar(folder, "probes", probesFolder, "folder with your own probes, one NAME.yaml each (docs/probes.md)")
}

func hostRootFlag(c *cobra.Command, root *string) {
	c.Flags().StringVar(root, "host-root", "/", "where the host's file system is mounted, for use in a container")
}

// diagnosis is what doctor prints.
type diagnosis struct {
	Platform web.Platform `json:"platform"`
	Sources  []web.Source `json:"sources"`
	// Monitor is the machine's monitor; null if none answers.
	Monitor *besides `json:"monitor"`
	// ThingsToDo would help most, the most useful first.
	ThingsToDo []thing `json:"thingsToDo"`
	badge      string
}

// besides is a monitor that runs on the same machine, with its sources as they are set there.
type besides struct {
	URL     string       `json:"url"`
	Sources []web.Source `json:"sources"`
}

// monitorBeside asks a monitor for its sources. One that nobody named may be absent.
func monitorBeside(ctx context.Context, server string, named bool) (*besides, error) {
	base, err := serverURL(server)
	if err != nil {
		return nil, err
	}
	b := &besides{URL: base.Redacted()}
	if err := ask(ctx, base.JoinPath("api/teescope/v1/sources"), &b.Sources); err != nil {
		if named {
			return nil, err
		}
		return nil, nil
	}
	return b, nil
}

// of says in what a source is set otherwise than this command tried it; "" if in nothing.
func (b *besides) of(here web.Source) string {
	if b == nil {
		return ""
	}
	i := slices.IndexFunc(b.Sources, func(s web.Source) bool { return s.Name == here.Name })
	if i < 0 {
		return "not in the monitor"
	}
	var out []string
	there := b.Sources[i]
	if there.State != here.State {
		state := there.State
		if there.Reason != "" {
			state += " (" + there.Reason + ")"
		}
		out = append(out, state)
	}
	if there.Level != here.Level {
		out = append(out, "at level "+there.Level)
	}
	for _, filter := range []struct{ what, value string }{{"processes", there.Process}, {"control groups", there.Cgroup}, {"containers", there.Container}} {
		if filter.value != "" {
			out = append(out, fmt.Sprintf("only %s that match %q", filter.what, filter.value))
		}
	}
	if len(there.PIDs) > 0 {
		out = append(out, fmt.Sprintf("only processes %s", strings.Trim(fmt.Sprint(there.PIDs), "[]")))
	}
	if there.Coverage != nil && *there.Coverage < 1 {
		out = append(out, "counting "+metric.Percent(*there.Coverage)+" of the time")
	}
	if out == nil {
		return ""
	}
	return "in the monitor: " + strings.Join(out, ", ")
}

func examine(ctx context.Context, h *host.Host, list []*probe.Source) (diagnosis, error) {
	found, platform, err := look(h)
	if err != nil {
		return diagnosis{}, err
	}
	e := probe.Try(ctx, h, tee.Found(found), list)
	return diagnosis{Platform: platform, Sources: sourceList(e), badge: badge(found)}, nil
}

// sourceList turns the engine's statuses into the API's form.
func sourceList(e *probe.Engine) []web.Source {
	var out []web.Source
	for _, s := range e.Status() {
		w := inWords(s.Source)
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
			judgeCoverage(&w)
		}
		out = append(out, w)
	}
	return out
}

// judgeCoverage says what a source's coverage means.
func judgeCoverage(s *web.Source) {
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

// inWords is what a source says of itself.
func inWords(s *probe.Source) web.Source {
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

func (d diagnosis) print(w io.Writer) error {
	p := d.Platform
	var table strings.Builder
	t := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	// tabwriter ends a column at a row that lacks the cell: rows are trimmed once aligned.
	row := func(cells ...string) { fmt.Fprintln(t, strings.Join(cells, "\t")) }
	flush := func() error {
		if err := t.Flush(); err != nil {
			return err
		}
		for line := range strings.Lines(table.String()) {
			if _, err := fmt.Fprintln(w, strings.TrimRight(line, " \n")); err != nil {
				return err
			}
		}
		table.Reset()
		return nil
	}
	machine := fmt.Sprintf("%s, %s, %d CPUs, %s", orUnknown(p.Hostname), orUnknown(p.CPUModel), p.CPUs, size(p.MemoryBytes))
	kernel := fmt.Sprintf("%s %s, %s", orUnknown(p.Kernel), p.Arch, orUnknown(p.OS))
	if p.Lockdown != "" && p.Lockdown != "none" {
		kernel += ", lockdown " + p.Lockdown
	}
	row("machine", machine)
	row("kernel", kernel)
	row("TEE", d.badge)
	if d.Monitor != nil {
		row("monitor", d.Monitor.URL+" runs; below is what this command read, and where the monitor differs")
	}
	for _, t := range p.TEEs {
		if t.Facts != nil && t.Facts.Why != "" {
			row("", t.Kind+": "+t.Facts.Why)
		}
		if t.State == string(tee.Unknown) {
			row("", t.Kind+": "+t.Reason)
		}
	}
	if err := flush(); err != nil {
		return err
	}
	fmt.Fprintln(w)
	row("SOURCE", "STATE", "WHY, AND WHAT WOULD HELP")
	for _, s := range d.Sources {
		why := s.Reason
		if s.Remedy != "" {
			why += "; " + s.Remedy
		}
		if s.Seen != "" {
			why = strings.TrimSuffix("on: "+s.Seen+"; "+why, "; ")
		}
		why = strings.TrimPrefix(strings.TrimSuffix(why+"; "+d.Monitor.of(s), "; "), "; ")
		row(s.Name, s.State, strings.ReplaceAll(why, "\n", "; "))
	}
	if err := flush(); err != nil {
		return err
	}
	_, err := io.WriteString(w, d.thingsText())
	return err
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}
