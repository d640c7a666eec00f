//go:build linux

package cli

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/teescope/teescope/internal/monitor"
	"github.com/teescope/teescope/internal/monitor/config"
	"github.com/teescope/teescope/internal/observe"
)

func monitorCommand(env Env) *cobra.Command {
	s := observe.Settings{Read: config.Reader(false)}
	m := monitor.Settings{Judging: judged(), Stdout: env.Stdout}
	retention := duration(15 * 24 * time.Hour)
	c := &cobra.Command{
		Use: "monitor",
		Long: `Monitor reads the sources every --interval, stores the readings, evaluates the rules
and serves the page. Findings go to the page, to the log, and to the receivers of --config.

With --query-url it stores no samples: the page, the rules and explanations query an engine
that has the samples. With --agent-mode it has no store and no page: it sends every sample to
the remote_write receivers in --config. With both flags it sends the samples, and the page
queries the engine. docs/scale.md shows layouts for many machines.`,
		Short: "Watch this machine: store samples, find problems, and serve a page and an API",
		Example: "  teescope monitor\n" +
			"  teescope monitor --process 'redis|nginx' --data /var/lib/teescope --retention 30d",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			o, err := s.Observe(c.Context(), env.Stderr)
			if err != nil {
				return err
			}
			defer o.Close()
			m.Retention = time.Duration(retention)
			return monitor.Run(c.Context(), o, m)
		},
	}
	f := c.Flags()
	s.Flags(f, "127.0.0.1:9780")
	queueFlags(c, &m, "folder for the store, the findings and the results")
	f.Var(&retention, "retention", "how long to keep samples (like 36h or 15d)")
	engineFlags(c, &m.Query, "that has the samples: the page, the rules and explanations query this engine, and no samples are stored here")
	f.BoolVar(&m.AgentMode, "agent-mode", false, "no local store: keep samples only until the remote_write receivers have them")
	f.StringVar(&m.Baseline, "memory-baseline", "", "`RESULT.json` of bench run memory, with an unprotected environment as the baseline and an environment on this machine; explanations then show an upper bound of the cost of memory encryption")
	return c
}

// queueFlags are the flags of agent mode that an agent has too.
func queueFlags(c *cobra.Command, m *monitor.Settings, data string) {
	f := c.Flags()
	f.StringVar(&m.Data, "data", dataDir(), data)
	f.DurationVar(&m.Interval, "interval", monitor.UsualInterval, "time between readings")
}

// aloneSettings are those of a monitor in the process of a command.
func aloneSettings() monitor.Settings { return monitor.Settings{Data: dataDir(), Judging: judged()} }
