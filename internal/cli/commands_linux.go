package cli

import (
	"github.com/spf13/cobra"

	"github.com/teescope/teescope/internal/build"
	"github.com/teescope/teescope/internal/store"
)

// commands are those of the full program.
func commands(env Env) []*cobra.Command {
	return []*cobra.Command{doctorCommand(env), monitorCommand(env), agentCommand(env), explainCommand(env), changesCommand(env), topCommand(env), openCommand(env), calibrateCommand(env),
		benchCommand(env), compareCommand(env), gateCommand(env), reportCommand(env), historyCommand(env), claimsCommand(env), reproduceCommand(env, reproduceRunCommand(env)), attestCommand(env), verifyCommand(env), tpmCommand(env), channelCommand(env), schemaCommand(env), licensesCommand(env), checkConfigCommand(env),
		build.Command(env.Stdout, build.Full, store.PrometheusVersion)}
}
