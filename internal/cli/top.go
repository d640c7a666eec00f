//go:build linux

package cli

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/spf13/cobra"

	"github.com/teescope/teescope/internal/metric"
)

func topCommand(env Env) *cobra.Command {
	var t topper
	c := &cobra.Command{
		Use:   "top",
		Short: "Show what a running monitor sees now, by process, in the terminal",
		Long: `Top polls a running monitor and shows its open findings and a table
of processes. Columns that this machine has no data for are left out; ~ marks an
estimate from samples or from part of the events. Rates are means over the last
15 seconds, or over the last minute if readings are further apart.

If the output is not a terminal, or a simple one (TERM=dumb), it prints a table
each time.

Keys: s c f w or < > choose the column to sort by, / filters processes by a
regular expression, up and down scroll, q ends.`,
		Example: "  teescope top\n  teescope top --process 'redis|nginx' --interval 5s\n  teescope top --once",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return t.run(c.Context(), env)
		},
	}
	f := c.Flags()
	serverFlag(c, &t.server, "address of the monitor")
	f.StringVar(&t.process, "process", "", "only processes whose name matches this regular expression (unanchored); of a name over 15 bytes the first 15, which the kernel keeps, are matched")
	f.DurationVar(&t.interval, "interval", 2*time.Second, "time between tables")
	f.BoolVar(&t.once, "once", false, "print one table and exit")
	return c
}

// topper holds the flags of top.
type topper struct {
	server, process string
	interval        time.Duration
	once            bool
}

func (t topper) run(ctx context.Context, env Env) error {
	base, err := serverURL(t.server)
	if err != nil {
		return err
	}
	filter, err := metric.CompileNames(t.process)
	if err != nil {
		return fmt.Errorf("--process: %w", err)
	}
	if t.interval < 100*time.Millisecond {
		return fmt.Errorf("--interval %v: want at least 100ms", t.interval)
	}
	first, err := lookAround(ctx, base)
	if err != nil {
		return err
	}
	m := topModel{snapshot: first, every: t.interval, filter: filter, width: 80, height: 24}
	m.look = func() (topSnapshot, error) { return lookAround(ctx, base) }
	if t.once || !interactive(env) {
		return t.print(ctx, env.Stdout, m, base)
	}
	p := tea.NewProgram(m, tea.WithContext(ctx), tea.WithInput(env.Stdin), tea.WithOutput(env.Stdout), tea.WithoutSignalHandler())
	_, err = p.Run()
	return err
}

// print writes a table now and after each interval.
func (t topper) print(ctx context.Context, w io.Writer, m topModel, base *url.URL) error {
	tick := time.NewTicker(t.interval)
	defer tick.Stop()
	for {
		if _, err := io.WriteString(w, m.plain()); err != nil || t.once {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		var err error
		if m.snapshot, err = lookAround(ctx, base); err != nil {
			return err
		}
		if _, err := io.WriteString(w, "\n"); err != nil {
			return err
		}
	}
}

// interactive reports whether keys can be read and the screen can be overwritten.
func interactive(env Env) bool {
	return isTerminal(env.Stdin) && isTerminal(env.Stdout) && os.Getenv("TERM") != "dumb" && os.Getenv("TERM") != ""
}
