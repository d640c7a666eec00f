package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/teescope/teescope/internal/build"
	"github.com/teescope/teescope/internal/contain"
	"github.com/teescope/teescope/internal/printable"
)

// The exit statuses are teescope's.
const (
	exitOK    = 0
	exitError = 4
)

// Main is teescope-agent: the agent as a program of its own, without a store and a page. It returns the exit status.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return printable.Run(stdout, stderr, func(stdout, stderr io.Writer) int { return run(ctx, args, stdout, stderr) })
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	c := Command(Program{
		Stdout: stdout, Stderr: stderr, Name: "teescope-agent", Example: "  teescope-agent --listen 127.0.0.1:9781\n  teescope-agent version --json",
		Doc:  "This program contains the agent alone. The full program, teescope, has the same agent,\nwhich can also send what it reads (remote_write).",
		Read: readConfig,
	})
	c.Version, c.SilenceUsage, c.SilenceErrors = build.Version(), true, true
	c.SetArgs(args)
	c.SetOut(stdout)
	c.SetErr(stderr)
	c.CompletionOptions.HiddenDefaultCmd = true
	c.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return fmt.Errorf("%w; see `teescope-agent --help`", err) })
	c.AddCommand(build.Command(stdout, build.Agent, ""))
	err := contain.Call(strings.Join(append([]string{"teescope-agent"}, args...), " "), func() error { return c.ExecuteContext(ctx) })
	if err == nil || errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return exitOK
	}
	fmt.Fprintf(stderr, "teescope-agent: %s\n", contain.OneLine(err))
	return exitError
}
