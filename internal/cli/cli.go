// Package cli holds the commands, one file each, and is the only place where
// the lists of members meet the engines that run them.
package cli

import (
	"context"
	"io"
)

// Env is what a command may touch of its process.
type Env struct {
	Args           []string
	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// Main runs the command line and returns the exit status: 0 ok, 1 regression
// or failed check, 2 inconclusive, 3 invalid run, 4 usage or tool error.
func Main(ctx context.Context, env Env) int { return 4 }
