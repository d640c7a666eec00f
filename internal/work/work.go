// Package work is the worker's commands, one file each and one line in All. A command
// reads flags, does one thing and prints one JSON document; the harness starts it
// inside an environment, or outside as the load.
package work

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
)

// Streams are what a command reads and writes besides the network.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// Command is one thing that the worker can do.
type Command struct {
	Name, Doc string
	// Flags declares the command's flags and returns what runs it once they are
	// parsed. Its context ends with SIGTERM.
	Flags func(*flag.FlagSet) func(context.Context, Streams) error
}

// Exit statuses: a usage error is told from a run that failed.
const (
	exitFailed = 1
	exitUsage  = 4
)

// Main runs the command that args name and returns the exit status.
func Main(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) int {
	var c *Command
	for _, k := range All {
		if len(args) > 0 && k.Name == args[0] {
			c = k
		}
	}
	if c == nil {
		if len(args) > 0 {
			fmt.Fprintf(errs, "teescope-work: no command %q\n", args[0])
		}
		fmt.Fprintln(errs, "usage: teescope-work COMMAND [flags]   (teescope-work COMMAND -help)")
		for _, k := range All {
			fmt.Fprintf(errs, "  %-12s %s\n", k.Name, k.Doc)
		}
		return exitUsage
	}
	flags := flag.NewFlagSet("teescope-work "+c.Name, flag.ContinueOnError)
	flags.SetOutput(errs)
	run := c.Flags(flags)
	switch err := flags.Parse(args[1:]); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return exitUsage
	case flags.NArg() > 0:
		fmt.Fprintf(errs, "teescope-work %s: unexpected argument %q\n", c.Name, flags.Arg(0))
		return exitUsage
	}
	if err := run(ctx, Streams{in, out, errs}); err != nil {
		fmt.Fprintf(errs, "teescope-work %s: %v\n", c.Name, err)
		return exitFailed
	}
	return 0
}
