//go:build !linux

package cli

import "github.com/spf13/cobra"

func commands(env Env) []*cobra.Command { return clientCommands(env) }
