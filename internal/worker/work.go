// Package worker is the worker's commands, one file each and one line in All. A command
// reads flags, does one thing and prints one JSON document; the harness starts it
// inside an environment, or outside as the load.
package worker

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"
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

// count declares a flag whose value is a whole number from least to most, which inBounds checks:
// without a limit a mistyped number uses all memory, or runs all day.
func count(f *flag.FlagSet, into *int, name string, value, least, most int, usage string) {
	*into = value
	f.Var(&bounded{into, least, most}, name, fmt.Sprintf("%s (`N` from %d to %d)", usage, least, most))
}

// bounded is the value of such a flag.
type bounded struct {
	into        *int
	least, most int
}

func (b *bounded) String() string {
	if b.into == nil { // package flag calls this on the zero value
		return ""
	}
	return strconv.Itoa(*b.into)
}

func (b *bounded) Set(text string) error {
	v, err := strconv.Atoi(text)
	if err != nil && !errors.Is(err, strconv.ErrRange) { // Atoi returns the nearest value for one out of range
		return errors.New("want a whole number")
	}
	*b.into = v
	return nil
}

// inBounds returns an error if a flag is out of its bounds.
func inBounds(flags *flag.FlagSet) (err error) {
	flags.Visit(func(f *flag.Flag) {
		if b, ok := f.Value.(*bounded); ok && (*b.into < b.least || *b.into > b.most) {
			err = fmt.Errorf("-%s %d: want a whole number from %d to %d", f.Name, *b.into, b.least, b.most)
		}
	})
	return err
}

// Exit statuses distinguish a usage error from a run that failed, and that from an answer of another program.
const (
	exitFailed = 1
	exitOther  = 3
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
		to, code := errs, exitUsage
		switch {
		case len(args) == 0:
		case slices.Contains([]string{"-h", "-help", "--help", "help"}, args[0]):
			to, code = out, 0
		default:
			fmt.Fprintf(errs, "teescope-work: no command %q\n", args[0])
		}
		fmt.Fprintln(to, "usage: teescope-work COMMAND [flags]   (teescope-work COMMAND -help)")
		for _, k := range All {
			fmt.Fprintf(to, "  %-12s %s\n", k.Name, k.Doc)
		}
		return code
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
	err := inBounds(flags)
	if err == nil {
		err = run(ctx, Streams{in, out, errs})
	}
	if err != nil {
		fmt.Fprintf(errs, "teescope-work %s: %v\n", c.Name, err)
		if errors.Is(err, errOther) {
			return exitOther
		}
		return exitFailed
	}
	return 0
}
