// Package cli holds the commands, one file each, and is where the lists of members meet the
// engines that run them. Files with the build constraint linux are not in the client.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/build"
	"github.com/teescope/teescope/internal/contain"
	"github.com/teescope/teescope/internal/printable"
)

// Env is what a command may touch of its process.
type Env struct {
	Args           []string
	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// The exit statuses.
const (
	exitOK           = 0
	exitRegression   = 1 // or a failed check
	exitInconclusive = 2
	exitInvalid      = 3 // a guard tripped
	exitUsage        = 4 // usage or tool error
)

// outcome is an error that only carries an exit status: the command has already
// printed its result.
type outcome int

func (o outcome) Error() string { return fmt.Sprintf("exit status %d", int(o)) }

// rootCommand is teescope with all of its commands.
func rootCommand(env Env) *cobra.Command { return rootOf(env, commands(env)) }

func rootOf(env Env, commands []*cobra.Command) *cobra.Command {
	root := &cobra.Command{
		Use:           "teescope",
		Short:         "Monitor, benchmark and explain Trusted Execution Environments",
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       build.Version(),
		Example: "  teescope doctor\n" +
			"  teescope monitor\n" +
			"  teescope explain --process redis-server\n" +
			"  teescope bench run cause-clock --quick --out cause-clock.json",
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("unknown command %q", args[0])
			}
			return c.Help()
		},
		Args: cobra.ArbitraryArgs,
	}
	root.SetArgs(env.Args)
	root.SetIn(env.Stdin)
	root.SetOut(env.Stdout)
	root.SetErr(env.Stderr)
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(commands...)
	root.AddCommand(manCommand(root))
	return root
}

// Main runs the command line and returns the exit status.
func Main(ctx context.Context, env Env) int {
	return printably(env, func(env Env) int { return execute(ctx, env, rootCommand(env)) })
}

// printably runs a command whose output is printable.
func printably(env Env, run func(Env) int) int {
	return printable.Run(env.Stdout, env.Stderr, func(stdout, stderr io.Writer) int {
		return run(Env{Args: env.Args, Stdin: env.Stdin, Stdout: stdout, Stderr: stderr})
	})
}

func execute(ctx context.Context, env Env, root *cobra.Command) int {
	var ran *cobra.Command
	// What is contained below names its member; this is for all other code.
	err := contain.Call(strings.Join(append([]string{"teescope"}, env.Args...), " "), func() (err error) {
		ran, err = root.ExecuteContextC(ctx)
		return err
	})
	var status outcome
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &status):
		return int(status)
	case errors.Is(err, context.Canceled) && ctx.Err() != nil && !errors.Is(err, bench.ErrStopped):
		return exitOK
	}
	fmt.Fprintf(env.Stderr, "teescope: %s%s\n", contain.OneLine(err), hint(ran, err))
	return exitUsage
}

// hint points to the help of the command when the command line is at fault, and shows its usage where arguments are.
func hint(c *cobra.Command, err error) string {
	at := func(starts ...string) bool {
		return slices.ContainsFunc(starts, func(s string) bool { return strings.HasPrefix(err.Error(), s) })
	}
	switch {
	case at("requires at least", "accepts "):
		return fmt.Sprintf("; want `%s`; see `%s --help`", strings.TrimSuffix(c.UseLine(), " [flags]"), c.CommandPath())
	case at("unknown flag", "unknown shorthand", "unknown command", "flag needs an argument", "invalid argument", "required flag", "at least one of the flags", "if any flags in the group"):
		return fmt.Sprintf("; see `%s --help`", c.CommandPath())
	}
	return ""
}
