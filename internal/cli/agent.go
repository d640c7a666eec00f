package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/web"
)

func agentCommand(env Env) *cobra.Command {
	s := settings{agent: true}
	var m monitor
	var costs bool
	c := &cobra.Command{
		Use:   "agent",
		Short: "Serve this machine's metrics to a Prometheus or a monitor elsewhere",
		Long: `Agent opens the sources and serves /metrics. It stores nothing: each scrape reads
the sources once. Its configuration file has the sections sources and requests;
analysis, notify and dashboards belong to a monitor.

With remote_write in --config it reads the sources every --interval and sends each
reading there too, with what it scrapes, as monitor --agent-mode does. What waits for a
receiver is in --data.`,
		Example: "  teescope agent --listen 127.0.0.1:9781",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			o, err := s.observe(c.Context(), env)
			if err != nil {
				return err
			}
			defer o.Close()
			if o.config.scrape.Receivers() > 0 {
				m.observer, m.agentMode = o, true
				return m.run(c.Context(), env)
			}
			var units unitCosts
			if costs {
				units = o.calibrated(c.Context(), "")
			}
			o.open()
			work, stop := context.WithCancel(c.Context())
			done := make(chan struct{})
			go func() { o.govern(work); close(done) }()
			defer func() { stop(); <-done }()
			o.openKernel()
			settle("")
			if err := o.drop(env, ""); err != nil {
				return err
			}
			go o.reload(work, func(c config) error {
				if c.scrape.Receivers() > 0 {
					return errors.New("remote_write: an agent that was started without it has no queue: restart it")
				}
				return nil
			})
			fmt.Fprintf(env.Stdout, "teescope agent on %s; TEE: %s; metrics: %s/metrics\n", orUnknown(o.platform.Hostname), badge(o.found), o.url())
			return o.serve(c.Context(), web.Handler(o.options(func(ctx context.Context) []metric.Sample {
				_, samples := o.engine.Collect(ctx)
				samples = units.samples(o.about(samples))
				metric.SortByName(samples)
				return samples
			})))
		},
	}
	s.flags(c, "127.0.0.1:9781")
	m.queueFlags(c, "folder for samples that wait for the receivers of remote_write")
	c.Flags().BoolVar(&costs, "calibrate", false, "first measure what events cost on this host (about a second of CPU time), and serve that too")
	return c
}
