// Package agent is the command that serves a machine's readings and stores none: `teescope agent`, and the program
// teescope-agent, which contains little else.
package agent

import (
	"cmp"
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/observe"
	"github.com/teescope/teescope/internal/web"
)

// Program is what a program adds to the agent that it contains.
type Program struct {
	Stdout, Stderr io.Writer
	// Name and Example are the command's, and Doc the end of its help text.
	Name, Example, Doc string
	// Read reads the configuration file.
	Read observe.ReadConfig
	// Reloaded returns what is wrong with a configuration that is read while the agent runs; nil for nothing.
	Reloaded func(observe.Config) error
	// Send runs an agent whose configuration has receivers of remote_write, and reports whether it has. It is nil in a program that
	// cannot send.
	Send func(context.Context, *observe.Observer) (bool, error)
}

// Command returns the agent's command.
func Command(p Program) *cobra.Command {
	s := observe.Settings{Read: p.Read}
	var costs bool
	c := &cobra.Command{
		Use:   p.Name,
		Short: "Serve this machine's metrics to Prometheus or to a monitor on another machine",
		Long: `Agent opens the sources and serves /metrics. It stores nothing: each scrape reads
the sources once. Its configuration file has the sections sources and requests. The
sections analysis, notify and dashboards are only for a monitor.

` + p.Doc,
		Example: p.Example,
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			o, err := s.Observe(c.Context(), p.Stderr)
			if err != nil {
				return err
			}
			defer o.Close()
			if p.Send != nil {
				if sent, err := p.Send(c.Context(), o); sent {
					return err
				}
			}
			return p.serve(c.Context(), o, costs)
		},
	}
	s.Flags(c.Flags(), "127.0.0.1:9781")
	c.Flags().BoolVar(&costs, "calibrate", false, "first measure what events cost on this host (about a second of CPU time), and serve that too")
	return c
}

// serve answers each scrape with a reading until ctx ends.
func (p Program) serve(ctx context.Context, o *observe.Observer, costs bool) error {
	var units observe.UnitCosts
	if costs {
		units = o.Calibrated(ctx, "")
	}
	o.Open()
	work, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { o.Govern(work); close(done) }()
	defer func() { stop(); <-done }()
	o.OpenKernel()
	observe.Settle("")
	if err := o.Drop(p.Stdout, ""); err != nil {
		return err
	}
	go o.Reload(work, func(c observe.Config) error {
		if p.Reloaded == nil {
			return nil
		}
		return p.Reloaded(c)
	})
	fmt.Fprintf(p.Stdout, "teescope agent on %s; TEE: %s; metrics: %s/metrics\n", cmp.Or(o.Platform.Hostname, "unknown"), observe.Badge(o.Found), o.URL())
	return o.Serve(ctx, web.Handler(o.Options(func(ctx context.Context) []metric.Sample {
		_, samples := o.Engine.Collect(ctx)
		samples = units.Samples(o.AppendInfo(samples))
		metric.SortByName(samples)
		return samples
	})))
}
