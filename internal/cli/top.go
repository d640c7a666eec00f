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

	tea "charm.land/bubbletea/v2"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/metric"
)

func topCommand(env Env) *cobra.Command {
	var t topper
	c := &cobra.Command{
		Use:   "top",
		Short: "Show what is wrong now and which process uses what, in the terminal",
		Long: `Top shows what is wrong on the machine, a table of its processes, and where the time
of one of them goes. It asks a running monitor. If none runs and --server is not
given, it reads the machine in its own process: no port, nothing on disk, and nothing
is left when it ends. The first line below the verdict says which of the two it is.

Columns that this machine has no data for are left out; ~ marks an estimate from
samples or from part of the events. Rates are means over the last 15 seconds, or over
the last minute if readings are further apart; in the first 15 seconds, they are means
over the time watched so far. WAIT is how many threads of the process wait for a CPU.
LAST MIN is the CPU time of the last minute, from 0 to its own maximum.

If the output is not a terminal, or a simple one (TERM=dumb), it prints a table
each time.

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
	f.StringVar(&t.process, "process", "", "only processes whose name matches this regular expression (unanchored); of a name over 15 bytes the first 15, which the kernel keeps, are matched")
	f.DurationVar(&t.interval, "interval", 2*time.Second, "time between tables; without a monitor also between readings, from 1s to 5s, which else are 5s apart after the first 20s")
	f.BoolVar(&t.once, "once", false, "print one table and exit; without a monitor it watches for 10 s first")
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
	of, end, err := t.witness(ctx, env)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	m := topModel{every: t.interval, once: t.once, filter: filter, width: usualWidth, height: usualHeight, of: of, ctx: ctx, theme: themeOf(true)}
	if m.snapshot, err = lookAround(ctx, of); err != nil {
		return err
	}
	m.remember(m.snapshot)
	if t.once || !interactive(env) {
		return t.print(ctx, env.Stdout, m)
	}
	defer sized(env.Stdout)()
	p := tea.NewProgram(m, tea.WithContext(ctx), tea.WithInput(env.Stdin), tea.WithOutput(env.Stdout), tea.WithoutSignalHandler(), tea.WithFPS(drawn))
	if _, err = p.Run(); ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil // a signal has ended it
	}
	return err
}

// witness returns who answers, and what to call at the end. Without a monitor that is this process, once it knows the first
// rates, or, to print once, once it has watched for a while.
func (t topper) witness(ctx context.Context, env Env) (w witness, end func() error, err error) {
	end = func() error { return nil }
	base, err := serverURL(t.server)
	if err != nil {
		return w, end, err
	}
	if !t.named {
		if t.named, err = monitorAnswers(ctx, base); err != nil {
			return w, end, err
		}
	}
	if t.named {
		return monitorAt(base), end, nil
	}
	a, err := watchAlone(ctx, t.reading(), !t.once)
	if err != nil {
		return w, end, err
	}
	if t.once {
		fmt.Fprintf(env.Stderr, "no monitor answers at %s: watching for %v in this process\n", base.Redacted(), watchedOnce)
		err = a.once(ctx)
	} else {
		err = a.await(ctx, a.begun)
	}
	if err != nil {
		return w, end, errors.Join(err, a.Close())
	}
	return a.witness("top", false), a.Close, nil
}

// reading is the time between readings without a monitor. Rates are over 15 s, so longer ones would leave them without values.
func (t topper) reading() time.Duration {
	if !t.paced {
		return usualReading
	}
	return min(max(t.interval, eagerReading), usualReading)
}

// print writes a table now and after each interval.
func (t topper) print(ctx context.Context, w io.Writer, m topModel) error {
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
		if m.snapshot, err = lookAround(ctx, m.of); err != nil {
			return err
		}
		m.remember(m.snapshot)
		if _, err := io.WriteString(w, "\n"); err != nil {
			return err
		}
	}
}

// interactive reports whether keys can be read and the screen can be overwritten.
func interactive(env Env) bool {
	return isTerminal(env.Stdin) && isTerminal(env.Stdout) && os.Getenv("TERM") != "dumb" && os.Getenv("TERM") != ""
}

// drawn is how often a second the screen is looked at for changes: each look wakes the process up.
const drawn = 10

// usualWidth and usualHeight are the size of a terminal that does not say its own.
const (
	usualWidth  = 80
	usualHeight = 24
)

// sized gives a terminal without a size, as one of script(1) in a pipe, the usual one, and returns a function that takes it
// back: nothing is drawn on a screen of 0x0.
func sized(stdout io.Writer) (back func()) {
	f, ok := stdout.(*os.File)
	if !ok {
		return func() {}
	}
	fd := int(f.Fd())
	was, err := unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ)
	if err != nil || was.Col > 0 && was.Row > 0 {
		return func() {}
	}
	usual := unix.Winsize{Col: usualWidth, Row: usualHeight}
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &usual); err != nil {
		return func() {}
	}
	return func() {
		if now, err := unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ); err == nil && *now == usual { // else somebody resized it
			_ = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, was)
		}
	}
}
