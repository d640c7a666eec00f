// Command teescope-work is the worker of benchmarks: it runs inside an environment,
// and makes the load from outside. See internal/worker for its commands.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/teescope/teescope/internal/worker"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := worker.Main(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
