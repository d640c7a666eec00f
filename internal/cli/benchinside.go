//go:build linux

package cli

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/teescope/teescope/internal/bench/counting"
	"github.com/teescope/teescope/internal/host"
)

// insideCommand counts inside an environment with a kernel of its own. A server keeps the sources open between the runs, as opening
// takes seconds; the worker asks it.
func insideCommand() *cobra.Command {
	c := &cobra.Command{Use: "inside", Short: "Count inside an environment, for bench run", Hidden: true}
	var socket string
	c.PersistentFlags().StringVar(&socket, "socket", "", "name of the server's socket, in the folder of this program")
	sub := func(use, short string, run func(context.Context) error) {
		c.AddCommand(&cobra.Command{Use: use, Short: short, Args: cobra.NoArgs, RunE: func(c *cobra.Command, _ []string) error { return run(c.Context()) }})
	}
	sub("serve", "Open the sources and serve one client after the other", func(ctx context.Context) error { return counting.ServeInside(ctx, host.Local(), socket) })
	sub("open", "Start the server and wait until its sources are open", func(ctx context.Context) error {
		self, err := os.Executable()
		if err != nil {
			return err
		}
		return counting.OpenInside(ctx, host.Local(), self, socket)
	})
	return c
}
