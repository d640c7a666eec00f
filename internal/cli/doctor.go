//go:build linux

package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/monitor/client"
	"github.com/teescope/teescope/internal/observe"
	"github.com/teescope/teescope/internal/printable"
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
not guessed. It also runs without root, and then says what root would add.

Its last lines are up to three things to do, the most useful first, each with its command.

If a monitor runs on this machine, doctor also shows which sources its settings change:
switched off, at another level, limited to some processes, control groups or containers, or
counting only part of the time.
--server is that monitor's address; with --server "" doctor asks no monitor.`,
		Example: "  teescope doctor\n  teescope doctor --json | jq '.sources[] | select(.state != \"available\")'",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			h, err := observe.OpenHost(root)
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
			asked := ""
			var failed error
			if server != "" {
				base, err := serverURL(server)
				if err != nil {
					return err
				}
				if d.Monitor, failed = monitorBeside(c.Context(), base); failed != nil {
					if c.Flags().Changed("server") {
						return failed
					}
					asked = printable.URL(base)
				}
			}
			d.ThingsToDo = d.thingsToDo(asked, failed)
			if asJSON {
				e := json.NewEncoder(env.Stdout)
				e.SetIndent("", "  ")
				return e.Encode(d)
			}
			return d.print(env.Stdout)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print data instead of a table")
	serverFlag(c, &server, "address of this machine's monitor")
	observe.ProbesFlag(c.Flags(), &probes)
	observe.HostRootFlag(c.Flags(), &root)
	return c
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

// monitorBeside asks a monitor for its sources.
func monitorBeside(ctx context.Context, base *url.URL) (*besides, error) {
	b := &besides{URL: printable.URL(base)}
	if err := client.GetJSON(ctx, base.JoinPath("api/teescope/v1/sources"), &b.Sources); err != nil {
		return nil, err
	}
	return b, nil
}

// differences says in what a source is set otherwise than this command tried it; "" if in nothing.
func (b *besides) differences(here web.Source) string {
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
	found, platform, err := observe.InspectMachine(h)
	if err != nil {
		return diagnosis{}, err
	}
	e := probe.Try(ctx, h, tee.Found(found), list)
	return diagnosis{Platform: platform, Sources: observe.ListSources(e), badge: observe.Badge(found)}, nil
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
	machine := fmt.Sprintf("%s, %s, %d CPUs, %s", cmp.Or(p.Hostname, "unknown"), cmp.Or(p.CPUModel, "unknown"), p.CPUs, metric.Value(float64(p.MemoryBytes), "bytes"))
	kernel := fmt.Sprintf("%s %s, %s", cmp.Or(p.Kernel, "unknown"), p.Arch, cmp.Or(p.OS, "unknown"))
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
		why = strings.TrimPrefix(strings.TrimSuffix(why+"; "+d.Monitor.differences(s), "; "), "; ")
		row(s.Name, s.State, strings.ReplaceAll(why, "\n", "; "))
	}
	if err := flush(); err != nil {
		return err
	}
	_, err := io.WriteString(w, d.thingsText())
	return err
}
