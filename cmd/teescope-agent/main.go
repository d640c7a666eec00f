// Command teescope-agent is `teescope agent` as a small program of its own: it serves the readings of a machine, and stores
// nothing. See internal/agent.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/teescope/teescope/internal/agent"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := agent.Main(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
