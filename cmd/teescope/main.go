// Command teescope monitors, benchmarks and explains Trusted Execution
// Environments. See internal/cli for its commands.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/teescope/teescope/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := cli.Main(ctx, cli.Env{Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr})
	stop()
	os.Exit(code)
}
