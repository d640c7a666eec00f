// Command teescope-work is the worker of benchmarks: what runs inside an
// environment, and the load from outside. See internal/work for its commands.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/teescope/teescope/internal/work"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := work.Main(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
