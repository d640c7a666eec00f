//go:build linux

package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/teescope/teescope/internal/agent"
	"github.com/teescope/teescope/internal/monitor"
	"github.com/teescope/teescope/internal/monitor/config"
	"github.com/teescope/teescope/internal/observe"
)

// agentCommand is the agent with the queue of remote_write, which teescope-agent does not have.
func agentCommand(env Env) *cobra.Command {
	m := monitor.Settings{AgentMode: true, Judging: judged(), Stdout: env.Stdout}
	c := agent.Command(agent.Program{
		Stdout: env.Stdout, Stderr: env.Stderr, Read: config.Reader(true),
		Name: "agent", Example: "  teescope agent --listen 127.0.0.1:9781",
		Doc: `With remote_write in --config, the agent also reads the sources every --interval and sends
each reading and all scraped samples to the receivers, as monitor --agent-mode does. Samples
that wait for a receiver are stored in --data.`,
		Reloaded: func(c observe.Config) error {
			if c.(*config.Config).Scraping().Receivers() > 0 {
				return errors.New("remote_write: this agent was started without remote_write and has no queue; restart the agent")
			}
			return nil
		},
		Send: func(ctx context.Context, o *observe.Observer) (bool, error) {
			if o.Config.(*config.Config).Scraping().Receivers() == 0 {
				return false, nil
			}
			return true, monitor.Run(ctx, o, m)
		},
	})
	queueFlags(c, &m, "folder for samples that wait for the remote_write receivers")
	return c
}
