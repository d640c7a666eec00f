// Package cli holds the commands, one file each, and is the only place where
// the lists of members meet the engines that run them.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/contain"
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
func rootCommand(env Env) *cobra.Command {
	root := &cobra.Command{
		Use:           "teescope",
		Short:         "Monitor, benchmark and explain Trusted Execution Environments",
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       version(),
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
	root.AddCommand(doctorCommand(env), monitorCommand(env), agentCommand(env), explainCommand(env), changesCommand(env), topCommand(env), openCommand(env), calibrateCommand(env),
		benchCommand(env), compareCommand(env), gateCommand(env), reportCommand(env), historyCommand(env), claimsCommand(env), attestCommand(env), verifyCommand(env), tpmCommand(env), channelCommand(env), schemaCommand(env), checkConfigCommand(env))
	return root
}

// Main runs the command line and returns the exit status.
func Main(ctx context.Context, env Env) int {
	root := rootCommand(env)
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
	fmt.Fprintf(env.Stderr, "teescope: %s%s\n", oneLine(err), hint(ran, err))
	return exitUsage
}

// oneLine keeps an error on the one line that a log or a terminal expects.
func oneLine(err error) string {
	return strings.Join(strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
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

// buildVersion is set by the linker (-X); a plain `go build` leaves it empty.
var buildVersion string

// version is the release, or the commit that the binary was built from.
func version() string {
	if buildVersion != "" {
		return buildVersion
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				return "devel-" + s.Value[:min(12, len(s.Value))]
			}
		}
	}
	return "devel"
}

// committed is when the program's commit was made; zero where it does not say.
func committed() time.Time {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.time" {
				t, _ := time.Parse(time.RFC3339, s.Value) // zero if it is no time
				return t
			}
		}
	}
	return time.Time{}
}
