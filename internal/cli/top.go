//go:build linux

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/monitor"
	"github.com/teescope/teescope/internal/monitor/client"
	"github.com/teescope/teescope/internal/printable"
	"github.com/teescope/teescope/internal/top"
)

func topCommand(env Env) *cobra.Command {
	var t topper
	c := &cobra.Command{
		Use:   "top",
		Short: "Show what is wrong now and which process uses what, in the terminal",
		Long: `Top shows what is wrong on the machine, a table of its processes, and where the time
of one process goes. It asks a running monitor. If no monitor runs and --server is not
given, top reads the machine itself: it opens no port, writes nothing to disk and leaves
nothing behind. The first line below the verdict says where the numbers come from.

Columns without data on this machine are left out. ~ marks an estimate from samples or
from part of the events. Rates are means over the last 15 seconds, or over the last
minute if readings are further apart. In the first 15 seconds, they are means over the
time watched so far. WAIT is how many threads of the process wait for a CPU. LAST MIN
shows the CPU time of the last minute, scaled from 0 to the process's own maximum.

If the output is not a terminal, or is a simple terminal (TERM=dumb), top prints one
table after the other.

Keys: c w s x f or < > choose the column to sort by, / filters processes by a
regular expression, up and down or a click select a process, enter shows where its
time goes, esc goes back, q ends.`,
		Example: "  teescope top\n  teescope top --process 'redis|nginx' --interval 5s\n  teescope top --once",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			t.named, t.paced = serverNamed(c), c.Flags().Changed("interval")
			return t.run(c.Context(), env)
		},
	}
	f := c.Flags()
	serverFlag(c, &t.server, "address of the monitor")
	f.StringVar(&t.process, "process", "", "only processes whose name matches this regular expression (unanchored); the kernel keeps only the first 15 bytes of a name, so only these bytes are matched")
	f.DurationVar(&t.interval, "interval", 2*time.Second, "time between tables; without a monitor, also the time between readings, which is 1s to 5s (without this flag, 5s after the first 20s)")
	f.BoolVar(&t.once, "once", false, "print one table and exit; without a monitor, top watches for 10 s first")
	return c
}

// topper holds the flags of top.
type topper struct {
	server, process string
	named           bool // the user named the server
	interval        time.Duration
	paced           bool // the user gave the interval
	once            bool
}

func (t topper) run(ctx context.Context, env Env) (err error) {
	filter, err := metric.CompileNames(t.process)
	if err != nil {
		return fmt.Errorf("--process: %w", err)
	}
	if t.interval < 100*time.Millisecond {
		return fmt.Errorf("--interval %v: want at least 100ms", t.interval)
	}
	// The end of the terminal ends top as any other stop does.
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGHUP)
	defer stop()
	of, end, err := t.backend(ctx, env)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	m, err := top.NewModel(ctx, of, t.interval, filter)
	switch {
	case err != nil:
		return err
	case t.once:
		_, err = io.WriteString(env.Stdout, m.OneTable())
		return err
	case !interactive(env):
		return m.PrintTables(env.Stdout)
	}
	screen, _ := unwrapped(env.Stdout).(io.Writer) // the model's texts are printable
	return m.Run(env.Stdin, screen)
}

// backend returns who answers, and what to call at the end. Without a monitor that is this process, once it knows the first
// rates, or, to print once, once it has watched for a while.
func (t topper) backend(ctx context.Context, env Env) (b client.Backend, end func() error, err error) {
	end = func() error { return nil }
	base, err := serverURL(t.server)
	if err != nil {
		return b, end, err
	}
	if !t.named {
		if t.named, err = client.MonitorAnswers(ctx, base); err != nil {
			return b, end, err
		}
	}
	if t.named {
		return client.Monitor(base), end, nil
	}
	a, err := monitor.WatchAlone(ctx, aloneSettings(), t.reading(), !t.once)
	if err != nil {
		return b, end, err
	}
	if t.once {
		fmt.Fprintf(env.Stderr, "no monitor answers at %s: watching for %v in this process\n", printable.URL(base), monitor.WatchedOnce)
		err = a.WatchOnce(ctx)
	} else {
		err = a.WaitForRates(ctx)
	}
	if err != nil {
		return b, end, errors.Join(err, a.Close())
	}
	return a.Backend("top", false), a.Close, nil
}

// reading is the time between readings without a monitor. Rates are over 15 s, so longer ones would leave them without values.
func (t topper) reading() time.Duration {
	if !t.paced {
		return monitor.UsualInterval
	}
	return min(max(t.interval, monitor.EagerInterval), monitor.UsualInterval)
}

// interactive reports whether keys can be read and the screen can be overwritten.
func interactive(env Env) bool {
	return isTerminal(env.Stdin) && isTerminal(env.Stdout) && os.Getenv("TERM") != "dumb" && os.Getenv("TERM") != ""
}
