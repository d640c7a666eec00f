package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/web"
)

func agentCommand(env Env) *cobra.Command {
	var s settings
	var costs bool
	c := &cobra.Command{
		Use:   "agent",
		Short: "Serve this machine's metrics to a Prometheus or a monitor elsewhere",
		Long: `Agent opens the sources and serves /metrics. It stores nothing: each scrape reads
the sources once.`,
		Example: "  teescope agent --listen 127.0.0.1:9781",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			o, err := s.observe(c.Context(), env)
			if err != nil {
				return err
			}
			defer o.Close()
			var units unitCosts
			if costs {
				units = o.calibrated(c.Context(), "")
			}
			o.open()
			o.openKernel()
			settle()
			if err := o.drop(env, ""); err != nil {
				return err
			}
			work, stop := context.WithCancel(c.Context())
			done := make(chan struct{})
			go func() { o.govern(work); close(done) }()
			go o.reload(work, func(config) error { return nil })
			defer func() { stop(); <-done }()
			fmt.Fprintf(env.Stdout, "teescope agent on %s; TEE: %s; metrics: %s/metrics\n", orUnknown(o.platform.Hostname), badge(o.found), o.url())
			return o.serve(c.Context(), web.Handler(o.options(func(ctx context.Context) []metric.Sample {
				_, samples := o.engine.Collect(ctx)
				samples = units.samples(samples)
				metric.SortByName(samples)
				return samples
			})))
		},
	}
	s.flags(c, "127.0.0.1:9781")
	c.Flags().BoolVar(&costs, "calibrate", false, "first measure what events cost on this host (about a second of CPU time), and serve that too")
	return c
}
